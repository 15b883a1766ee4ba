package sqlitestore_test

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/einmal-dev/einmal"
	"github.com/einmal-dev/einmal/sqlitestore"
)

func TestEveryAcknowledgedWriteWasSynced(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for i := range 10 {
		before := f.spy.syncs.Load()
		rec := f.reserve(t, fmt.Sprint("key-", i))
		middle := f.spy.syncs.Load()
		if middle == before {
			t.Fatal("a reservation was acknowledged before the log was synced")
		}
		if _, err := f.Apply(t.Context(), completed(&rec, []byte("ok"))); err != nil {
			t.Fatal(err)
		}
		if f.spy.syncs.Load() == middle {
			t.Fatal("a completion was acknowledged before the log was synced")
		}
	}
}

func TestReadingAnIdleStoreWritesNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	rec := f.reserve(t, "key")
	before := f.spy.writes.Load()
	for range 50 {
		f.clock.Advance(100 * time.Millisecond)
		if due, err := f.Claim(t.Context(), einmal.Claim{Limit: 10, Lease: time.Minute}); err != nil || len(due) > 0 {
			t.Fatalf("Claim: %d records, error %v", len(due), err)
		}
		if n, err := f.Purge(t.Context(), 10); err != nil || n != 0 {
			t.Fatalf("Purge: %d, error %v", n, err)
		}
		if _, created, err := f.Reserve(t.Context(), request("key")); err != nil || created {
			t.Fatalf("Reserve of a known key: created %v, error %v", created, err)
		}
		_, err := f.Get(t.Context(), einmal.Ref{ID: rec.ID})
		_, err2 := f.Settings(t.Context())
		_, _, err3 := f.List(t.Context(), einmal.Filter{})
		if err := errors.Join(err, err2, err3); err != nil {
			t.Fatal(err)
		}
	}
	if n := f.spy.writes.Load() - before; n != 0 {
		t.Errorf("%d writes to the disk", n)
	}
}

// held has a commit under way while start brings so many writes, which then share the next one.
func (f *fixture) held(t *testing.T, writes int, start func(wg *sync.WaitGroup)) {
	t.Helper()
	reached, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	f.spy.onSync(func() error {
		once.Do(func() {
			close(reached)
			<-release
		})
		return nil
	}, nil)
	ended := make(chan struct{})
	var rest sync.WaitGroup
	go func() {
		defer close(ended)
		f.reserve(t, "the one that is held")
	}()
	select {
	case <-reached:
	case <-ended:
		close(release)
		t.Fatal("a write ended before the log was synced")
	}
	start(&rest)
	for sqlitestore.Queued(f.Store) < writes {
		runtime.Gosched()
	}
	close(release)
	<-ended
	rest.Wait()
	f.spy.onSync(nil, nil)
}

func TestAWriteThatFailsDoesNotFailItsNeighbours(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	poison := f.reserve(t, "poison")
	const neighbours = 20
	f.held(t, neighbours+1, func(wg *sync.WaitGroup) {
		for i := range neighbours {
			wg.Go(func() { f.reserve(t, fmt.Sprint("neighbour-", i)) })
			if i == neighbours/2 {
				wg.Go(func() {
					_, err := f.Apply(t.Context(), completed(&poison, make([]byte, 40<<20))) // more than SQLite is allowed
					if !errors.Is(err, sqlite3.TOOBIG) {
						t.Errorf("a row that is too big: want TOOBIG, got %v", err)
					}
				})
			}
		}
	})
	for i := range neighbours {
		if _, err := f.open(t).Get(t.Context(), einmal.Ref{Identity: request(fmt.Sprint("neighbour-", i)).Identity}); err != nil {
			t.Errorf("neighbour %d: %v", i, err)
		}
	}
	if is, err := f.Get(t.Context(), einmal.Ref{ID: poison.ID}); err != nil || is.State != einmal.StateRunning || is.Version != 1 {
		t.Errorf("the record whose write failed: %v %d, error %v", is.State, is.Version, err)
	}
	if _, err := f.Apply(t.Context(), completed(&poison, []byte("small"))); err != nil {
		t.Errorf("and after it a write that is fine: %v", err)
	}
}

func TestManyWritesShareACommit(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var before int64
	const writes = 60
	f.held(t, writes, func(wg *sync.WaitGroup) {
		before = f.spy.syncs.Load()
		for i := range writes {
			wg.Go(func() { f.reserve(t, fmt.Sprint("key-", i)) })
		}
	})
	if n := f.spy.syncs.Load() - before; n > writes/4 {
		t.Errorf("%d writes that came during one commit took %d more", writes, n)
	}
}

func TestACommitThatFailsIsKnownAfterwards(t *testing.T) {
	t.Parallel()
	for name, done := range map[string]bool{"the sync failed": false, "the sync was done and failed all the same": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			var once sync.Once
			fail := func() (err error) {
				once.Do(func() { err = sqlite3.IOERR_FSYNC })
				return err
			}
			if done {
				f.spy.onSync(nil, fail)
			} else {
				f.spy.onSync(fail, nil)
			}
			r := request("key")
			if _, _, err := f.Reserve(t.Context(), r); !errors.Is(err, sqlite3.IOERR) {
				t.Fatalf("want the I/O error, got %v", err)
			}
			said, saidErr := f.Get(t.Context(), einmal.Ref{Identity: r.Identity})
			// A process that opens the file later must see the same, whatever was in the log.
			if err := f.Close(); err != nil {
				t.Error(err)
			}
			f.Store = f.open(t)
			is, isErr := f.Get(t.Context(), einmal.Ref{Identity: r.Identity})
			if saidErr == nil != (isErr == nil) || said.Nonce != is.Nonce {
				t.Errorf("first read: %v, %v; after reopening: %v, %v", said.State, saidErr, is.State, isErr)
			}
			if _, _, err := f.Reserve(t.Context(), r); err != nil {
				t.Errorf("the next write: %v", err)
			}
		})
	}
}

func TestTheStoreGoesOnAfterTheDiskCameBack(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.spy.onSync(func() error { return sqlite3.IOERR_FSYNC }, nil)
	for i := range 3 {
		if _, _, err := f.Reserve(t.Context(), request(fmt.Sprint("lost-", i))); err == nil {
			t.Fatal("a write was acknowledged that could not be synced")
		}
	}
	f.spy.onSync(nil, nil)
	rec := f.reserve(t, "key")
	if _, err := f.Apply(t.Context(), completed(&rec, nil)); err != nil {
		t.Error(err)
	}
	for i := range 3 {
		if _, err := f.Get(t.Context(), einmal.Ref{Identity: request(fmt.Sprint("lost-", i)).Identity}); !errors.Is(err, einmal.ErrNotFound) {
			t.Errorf("lost-%d: want ErrNotFound, got %v", i, err)
		}
	}
}

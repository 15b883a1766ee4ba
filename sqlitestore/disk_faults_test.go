package sqlitestore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/einmal-dev/einmal"
	"github.com/einmal-dev/einmal/fault/faultvfs"
	"github.com/einmal-dev/einmal/sqlitestore"
)

func TestAFullDiskIsAClearErrorAndNothingIsLost(t *testing.T) {
	t.Parallel()
	p := newPowerTest(t, 1)
	disk := p.disk
	s := mustOpenOn(t, disk)
	for limit := int64(0); limit < 60_000; limit += 4_999 {
		disk.Limit(limit)
		var callers sync.WaitGroup
		full := make(chan error, 8)
		for range cap(full) {
			first := p.keys
			p.keys += 10 * recordsPerCaller
			callers.Go(func() {
				var err error
				for i := range 10 {
					p.call(s, first+i*recordsPerCaller)
					if _, _, err = s.Reserve(t.Context(), reservationOf(fmt.Sprintf("last words %d %d", first, i))); err != nil {
						break
					}
				}
				full <- err
			})
		}
		callers.Wait()
		close(full)
		for err := range full {
			if !errors.Is(err, sqlite3.FULL) || !strings.Contains(err.Error(), "full") {
				t.Fatalf("with %d bytes left: %v, want an error that says full", limit, err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		for _, e := range p.entries {
			if _, _, err := e.settle(ctx, s); err != nil {
				t.Errorf("on the full disk: %v", err)
			}
		}
		cancel()
		disk.Limit(-1)
		if err := firstUse(s, fmt.Sprintf("space again %d", limit)); err != nil {
			t.Fatalf("with space again: %v", err)
		}
	}
	closeStore(t, s)
	disk.CutPower(1)
	disk.PowerOn()
	p.finish()
	for _, lost := range p.lost {
		t.Error(lost)
	}
	if p.acknowledged() == 0 {
		t.Error("nothing was acknowledged: the disk was never anything but full")
	}
}

// A sync fails: the first, the second, and so on until there are no more; then the caller who got an error asks, and what it is told stays true, also
// when the power fails at once. A record whose write failed can be made again.
func TestASyncThatFails(t *testing.T) {
	t.Parallel()
	hows := map[string]faultvfs.How{
		"and nothing is durable": faultvfs.Fails, "and a part is lost": faultvfs.Loses, "but everything is durable": faultvfs.FailsAfter,
	}
	for name, how := range hows {
		for _, after := range []string{"and it goes on", "and the power fails at once"} {
			t.Run(name+" "+after, func(t *testing.T) {
				t.Parallel()
				for k := 1; ; k++ {
					f := &syncFault{t: t, disk: newDisk(t), powerFails: after != "and it goes on", k: k}
					hit := f.run(faultvfs.Fault{Op: faultvfs.Sync, N: k, How: how, Seed: uint64(k)})
					for _, complaint := range f.complaints {
						t.Errorf("sync %d: %s", k, complaint)
					}
					if !hit {
						if k < 10 {
							t.Errorf("only %d syncs", k-1)
						}
						break
					}
				}
			})
		}
	}
}

// syncFault is one life of a store in which one sync fails.
type syncFault struct {
	t          *testing.T
	disk       *faultvfs.Disk
	k          int
	powerFails bool // as soon as the caller knows what became of its write
	entries    []*entry
	complaints []string
}

func (f *syncFault) complain(format string, args ...any) {
	f.complaints = append(f.complaints, fmt.Sprintf(format, args...))
}

// run reports whether the fault happened.
func (f *syncFault) run(fault faultvfs.Fault) (hit bool) {
	before := f.disk.Count(faultvfs.Sync)
	f.disk.Inject(fault)
	s, err := openOn(f.t, f.disk, false)
	if err != nil {
		if !errors.Is(err, sqlite3.IOERR) {
			f.complain("opening: %v", err)
		}
		s = mustOpenOn(f.t, f.disk)
	}
	ctx, cancel := context.WithTimeout(f.t.Context(), time.Minute)
	defer cancel()
	for i := range 6 {
		if i == 3 {
			f.checkpoint()
		}
		if f.record(ctx, s, fmt.Sprint(i)) && f.powerFails {
			break
		}
	}
	if !f.powerFails {
		if first := firstUse(s, "afterwards"); first != nil { // that may be the one
			if err := firstUse(s, "and again"); err != nil {
				f.complain("afterwards: %v, then %v", first, err)
			}
		}
		_ = s.Close()
	}
	hit = f.disk.Count(faultvfs.Sync)-before >= f.k
	f.disk.CutPower(uint64(f.k))
	if f.powerFails {
		_ = s.Close()
	}
	f.disk.PowerOn()
	s = mustOpenOn(f.t, f.disk)
	defer closeStore(f.t, s)
	for _, e := range f.entries {
		if _, _, err := e.settle(ctx, s); err != nil {
			f.complain("after power loss: %v", err)
		}
	}
	return hit
}

// record makes and completes a record; failed says that something failed on the way.
func (f *syncFault) record(ctx context.Context, s *sqlitestore.Store, key string) (failed bool) {
	e := &entry{key: key}
	f.entries = append(f.entries, e)
	for e.id == 0 {
		r := reservationOf(key)
		e.reserve = r.Nonce
		rec, created, err := s.Reserve(ctx, r)
		switch {
		case err == nil && created:
			e.id, e.gone = rec.ID, false
			continue
		case err == nil:
			f.complain("reserving again found %v of another attempt", rec.State)
			return true
		case failed:
			f.complain("reserving fails again: %v", err)
			return true
		}
		failed = true
		if f.learn(ctx, s, e); f.powerFails {
			return true
		}
		e.gone = false // it is tried again
	}
	for !e.acknowledged {
		change := completionOf(e.id, key)
		e.complete, e.tried = change.Nonce, true
		_, err := s.Apply(ctx, change)
		switch {
		case err == nil:
			e.acknowledged = true
			continue
		case failed:
			f.complain("completing fails again: %v", err)
			return true
		}
		failed = true
		if f.learn(ctx, s, e); f.powerFails {
			return true
		}
	}
	return failed
}

// learn asks what became of a write that failed.
func (f *syncFault) learn(ctx context.Context, s *sqlitestore.Store, e *entry) {
	if _, _, err := e.settle(ctx, s); err != nil {
		f.complain("asking after an error: %v", err)
	}
}

func (f *syncFault) checkpoint() {
	db, err := sqlite3.Open("file:/store.db?vfs=" + f.disk.Name())
	if err != nil {
		f.complain("%v", err)
		return
	}
	defer func() { _ = db.Close() }()
	_ = db.Exec("PRAGMA wal_checkpoint(TRUNCATE)") // may be the one that fails
}

func TestACommitThatErrsButIsDurableIsLearntByItsNonce(t *testing.T) {
	t.Parallel()
	disk := newDisk(t)
	s := mustOpenOn(t, disk)
	ctx := t.Context()
	disk.Inject(faultvfs.Fault{Op: faultvfs.Sync, Name: "-wal", How: faultvfs.FailsAfter})
	r := reservationOf("k")
	_, _, err := s.Reserve(ctx, r)
	if err == nil || errors.Is(err, einmal.ErrNotFound) {
		t.Fatalf("got %v, want an error that leaves it open", err)
	}
	asked, askErr := s.Get(ctx, einmal.Ref{Identity: r.Identity})
	disk.CutPower(1)
	_ = s.Close()
	disk.PowerOn()
	s = mustOpenOn(t, disk)
	defer closeStore(t, s)
	found, foundErr := s.Get(ctx, einmal.Ref{Identity: r.Identity})
	if errors.Is(askErr, einmal.ErrNotFound) != errors.Is(foundErr, einmal.ErrNotFound) || asked.Nonce != found.Nonce || asked.ID != found.ID {
		t.Errorf("asked at once it was (%v, %v), after a power loss it is (%v, %v)", asked.ID, askErr, found.ID, foundErr)
	}
	if foundErr == nil && found.Nonce != r.Nonce {
		t.Errorf("found with nonce %x, reserved with %x", found.Nonce, r.Nonce)
	}
}

package sqlitestore_test

import (
	"crypto/rand"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ncruces/go-sqlite3/vfs"

	"github.com/einmal-dev/einmal"
	"github.com/einmal-dev/einmal/fingerprint"
	"github.com/einmal-dev/einmal/sqlitestore"
	"github.com/einmal-dev/einmal/storetest"
)

// spy is a VFS that counts what is written and asks before and after each sync of the log.
type spy struct {
	vfs.VFS
	name   string
	writes atomic.Int64 // of any file
	syncs  atomic.Int64 // of the log

	mu     sync.Mutex
	before func() error // instead of the sync, when it returns an error
	after  func() error // the error of a sync that was done
}

func newSpy(t *testing.T) *spy {
	t.Helper()
	s := &spy{VFS: vfs.Find(""), name: "spy-" + strings.ToLower(rand.Text())}
	vfs.Register(s.name, s)
	t.Cleanup(func() { vfs.Unregister(s.name) })
	return s
}

func (s *spy) onSync(before, after func() error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.before, s.after = before, after
}

func (s *spy) OpenFilename(name *vfs.Filename, flags vfs.OpenFlag) (vfs.File, vfs.OpenFlag, error) {
	f, flags, err := s.VFS.(vfs.VFSFilename).OpenFilename(name, flags)
	if err != nil {
		return f, flags, err
	}
	return &spied{File: f, spy: s, log: flags&vfs.OPEN_WAL != 0}, flags, nil
}

type spied struct {
	vfs.File
	spy *spy
	log bool
}

func (f *spied) SharedMemory() vfs.SharedMemory {
	return f.File.(vfs.FileSharedMemory).SharedMemory()
}

func (f *spied) WriteAt(p []byte, off int64) (int, error) {
	f.spy.writes.Add(1)
	return f.File.WriteAt(p, off)
}

func (f *spied) Sync(flags vfs.SyncFlag) error {
	if !f.log {
		return f.File.Sync(flags)
	}
	f.spy.mu.Lock()
	before, after := f.spy.before, f.spy.after
	f.spy.mu.Unlock()
	if before != nil {
		if err := before(); err != nil {
			return err
		}
	}
	if err := f.File.Sync(flags); err != nil {
		return err
	}
	f.spy.syncs.Add(1)
	if after != nil {
		return after()
	}
	return nil
}

// fixture is a store in a new file with a clock that stands still.
type fixture struct {
	*sqlitestore.Store
	path  string
	clock *storetest.Clock
	spy   *spy
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{path: filepath.Join(t.TempDir(), "store.db"), clock: storetest.NewClock(), spy: newSpy(t)}
	f.Store = f.open(t)
	return f
}

// open opens one more handle.
func (f *fixture) open(t *testing.T) *sqlitestore.Store {
	t.Helper()
	s, err := sqlitestore.Open(t.Context(), f.path, sqlitestore.Options{Create: true, Clock: f.clock.Read, VFS: f.spy.name})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return s
}

func request(key string) einmal.Reservation {
	return einmal.Reservation{
		Identity:  einmal.Identity{Tenant: "acme", Operation: "pay", Key: key},
		Principal: "user", Fingerprint: fingerprint.Sum{Version: fingerprint.V1}, Nonce: einmal.Nonce([]byte(rand.Text())[:16]), Terms: terms,
		Holder: einmal.Holder{Incarnation: "i", Host: "h", Boot: "b"},
	}
}

func (f *fixture) reserve(t *testing.T, key string) einmal.Record {
	t.Helper()
	rec, created, err := f.Reserve(t.Context(), request(key))
	if err != nil || !created {
		t.Fatalf("Reserve(%s): created %v, error %v", key, created, err)
	}
	return rec
}

func completed(rec *einmal.Record, body []byte) einmal.Change {
	return einmal.Change{
		ID: rec.ID, Kind: einmal.Transition, Guard: einmal.Guard{State: einmal.StateRunning, Attempt: rec.Attempt},
		State: einmal.StateCompleted, Attempt: rec.Attempt, Verdict: einmal.VerdictApplied,
		Result: &einmal.Result{Status: 201, Header: []einmal.Field{{Name: "Location", Value: "/orders/1"}}, Body: body},
		Entry:  &einmal.Entry{Event: "completed", Reason: "because"},
	}
}

package sqlitestore_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/einmal-dev/einmal"
	"github.com/einmal-dev/einmal/fault/faultvfs"
	"github.com/einmal-dev/einmal/sqlitestore"
)

// entry is what a caller knows of its record: what was acknowledged, and what it tried and got no answer to.
type entry struct {
	key                 string
	reserve, complete   einmal.Nonce
	id                  einmal.ID // 0: the reservation is in doubt
	tried, acknowledged bool      // completing it
	gone                bool      // it was in doubt and found not to have happened
}

func (e *entry) ref() einmal.Ref { return einmal.Ref{Identity: reservationOf(e.key).Identity} }

// settle compares the record with what its caller knows, and what was in doubt is known from then on. happened is of a doubt.
func (e *entry) settle(ctx context.Context, s *sqlitestore.Store) (doubt, happened bool, err error) {
	rec, err := s.Get(ctx, e.ref())
	switch {
	case errors.Is(err, einmal.ErrNotFound) && e.id == 0:
		doubt, e.gone = !e.gone, true
		return doubt, false, nil
	case err != nil:
		return false, false, fmt.Errorf("%s, given ID %d, completion acknowledged %v: %w", e.key, e.id, e.acknowledged, err)
	case e.gone:
		return false, false, fmt.Errorf("%s was not there after a loss, and now is", e.key)
	case e.id != 0 && rec.ID != e.id:
		return false, false, fmt.Errorf("%s was given ID %d, has %d", e.key, e.id, rec.ID)
	case rec.State == einmal.StateRunning && rec.Nonce == e.reserve && !e.acknowledged:
		doubt, happened = e.id == 0 || e.tried, e.id == 0
		e.id, e.tried = rec.ID, false
		return doubt, happened, nil
	case rec.Nonce == e.reserve:
		return false, false, fmt.Errorf("%s is %v, and its completion was acknowledged", e.key, rec.State)
	case rec.Nonce != e.complete || !e.tried:
		return false, false, fmt.Errorf("%s is %v with a write that nobody made, or that was found not to have happened; acknowledged %v", e.key, rec.State, e.acknowledged)
	}
	doubt, e.acknowledged = !e.acknowledged, true
	return doubt, true, sameAsCompleted(&rec, e.key)
}

// powerTest is a store on a disk, and everything that its callers were told.
type powerTest struct {
	t      *testing.T
	seed   uint64
	random *rand.Rand
	disk   *faultvfs.Disk
	normal bool // with NORMAL, where losses are to be seen

	mu      sync.Mutex
	entries []*entry
	seen    einmal.Position

	rounds, keys, checked int
	doubts, happened      int
	lost                  []string
}

func newPowerTest(t *testing.T, seed uint64) *powerTest {
	t.Helper()
	return &powerTest{t: t, seed: seed, random: rand.New(rand.NewPCG(seed, 1)), disk: newDisk(t)}
}

func (p *powerTest) acknowledged() (n int) {
	for _, e := range p.entries {
		if e.id != 0 {
			n++
		}
		if e.acknowledged {
			n++
		}
	}
	return n
}

// open opens the store, whatever it takes: the power may fail while it is opened.
func (p *powerTest) open() *sqlitestore.Store {
	p.t.Helper()
	for {
		s, err := openOn(p.t, p.disk, p.normal || p.random.IntN(4) == 0)
		if err == nil {
			return s
		}
		if _, off := p.disk.Access("/", 0); off == nil {
			p.t.Fatalf("seed %d, round %d: opening: %v", p.seed, p.rounds, err)
		}
		p.disk.PowerOn()
	}
}

// round lets callers work until the power fails, then opens the store and checks what they were told.
func (p *powerTest) round() {
	p.t.Helper()
	p.rounds++
	cut := faultvfs.Fault{Op: faultvfs.Write, N: 1 + p.random.IntN(200), How: faultvfs.CutsPower, Seed: p.random.Uint64()}
	if p.random.IntN(2) == 0 {
		cut.Op, cut.N = faultvfs.Sync, 1+p.random.IntN(40)
	}
	if opening := p.random.IntN(4) == 0; opening {
		cut.N = 1 + p.random.IntN(12)
		p.disk.Inject(cut)
		_ = p.open().Close()
	} else {
		s := p.open()
		p.disk.Inject(cut)
		p.work(s)
		_ = s.Close() // also a time for the power to fail
	}
	p.disk.CutPower(p.random.Uint64())
	p.disk.PowerOn()
	p.check(p.entries[p.checked:])
	p.checked = len(p.entries)
}

// work has a random number of callers make records, sometimes with somebody else checkpointing meanwhile.
func (p *powerTest) work(s *sqlitestore.Store) {
	var callers, others sync.WaitGroup
	done := make(chan struct{})
	if p.random.IntN(2) == 0 {
		others.Go(func() { p.checkpoint(done) })
	}
	for range 1 + p.random.IntN(48) {
		first := p.keys
		p.keys += recordsPerCaller
		callers.Go(func() { p.call(s, first) })
	}
	callers.Wait()
	close(done)
	others.Wait()
}

const recordsPerCaller = 20

// call makes and completes records, one after the other, until something fails.
func (p *powerTest) call(s *sqlitestore.Store, first int) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for i := range recordsPerCaller {
		e := &entry{key: strconv.Itoa(first + i)}
		r := reservationOf(e.key)
		p.mu.Lock()
		r.Seen, e.reserve = p.seen, r.Nonce
		p.entries = append(p.entries, e)
		p.mu.Unlock()
		rec, created, err := s.Reserve(ctx, r)
		switch {
		case errors.Is(err, einmal.ErrRestored):
			p.fault("the store has forgotten its position: %v", err)
			return
		case err != nil:
			return
		case !created:
			p.fault("fresh key %s was taken", e.key)
			return
		}
		change := completionOf(rec.ID, e.key)
		p.told(rec.At, func() { e.id, e.complete, e.tried = rec.ID, change.Nonce, true })
		rec, err = s.Apply(ctx, change)
		if err != nil {
			return
		}
		p.told(rec.At, func() { e.acknowledged = true })
	}
}

func (p *powerTest) told(at einmal.Position, note func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	note()
	if at.Seq > p.seen.Seq {
		p.seen = at
	}
}

func (p *powerTest) fault(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lost = append(p.lost, fmt.Sprintf("round %d: ", p.rounds)+fmt.Sprintf(format, args...))
}

// checkpoint moves the log into the file over and over, on a connection of its own.
func (p *powerTest) checkpoint(done <-chan struct{}) {
	db, err := sqlite3.Open("file:/store.db?vfs=" + p.disk.Name())
	if err != nil {
		return
	}
	defer func() { _ = db.Close() }()
	if err := db.BusyTimeout(time.Millisecond); err != nil {
		return
	}
	for i := 0; ; i++ {
		select {
		case <-done:
			return
		default:
		}
		err := db.Exec("PRAGMA wal_checkpoint(" + [...]string{"PASSIVE", "FULL", "RESTART", "TRUNCATE"}[i%4] + ")")
		if err != nil && !errors.Is(err, sqlite3.BUSY) {
			return
		}
	}
}

// check opens the store and compares entries with it.
func (p *powerTest) check(entries []*entry) {
	p.t.Helper()
	s := p.open()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for _, e := range entries {
		doubt, happened, err := e.settle(ctx, s)
		if err != nil {
			p.fault("%v", err)
		}
		if doubt {
			p.doubts++
		}
		if doubt && happened {
			p.happened++
		}
	}
	if err := s.Close(); err != nil {
		p.t.Errorf("closing: %v", err)
	}
}

// finish checks everything once more, and the file as a whole.
func (p *powerTest) finish() {
	p.t.Helper()
	p.check(p.entries)
	db, err := sqlite3.Open("file:/store.db?vfs=" + p.disk.Name())
	if err != nil {
		p.t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	stmt, _, err := db.Prepare("PRAGMA integrity_check")
	if err != nil {
		p.t.Fatal(err)
	}
	defer func() { _ = stmt.Close() }()
	for stmt.Step() {
		if text := stmt.ColumnText(0); text != "ok" {
			p.t.Errorf("seed %d: integrity check: %s", p.seed, text)
		}
	}
	if err := stmt.Err(); err != nil {
		p.t.Errorf("seed %d: integrity check: %v", p.seed, err)
	}
}

// Package memstore is the shortest correct einmal.Store: a mutex, maps and slices. It is the specification that other stores can be read against, the
// store of the engine's own tests, and good for anything that may forget everything when its process ends.
package memstore

import (
	"context"
	"crypto/rand"
	"slices"
	"sync"
	"time"

	"github.com/einmal-dev/einmal"
	"github.com/einmal-dev/einmal/internal/mutant"
)

// Options are what a Storage can be told. The zero value is good.
type Options struct {
	Clock einmal.Clock // nil: einmal.SystemClock
}

// Storage is what a database file is to other stores: it outlives its handles, and several can be open at once.
type Storage struct {
	clock einmal.Clock

	mu       sync.Mutex
	mark     time.Time // the clock's high-water mark
	jumped   bool      // the clock jumped, and nobody has accepted it yet
	accepts  int       // how often somebody accepted it
	position einmal.Position
	lastID   einmal.ID
	rows     []*row // in the order of their IDs
	byID     map[einmal.ID]*row
	byName   map[einmal.Identity]*row
	settings map[settingKey]einmal.Setting
}

// row is a record, whose Now and At are filled in when it is read, and its timeline.
type row struct {
	einmal.Record
	timeline []einmal.Entry
}

// NewStorage returns an empty storage.
func NewStorage(o Options) *Storage {
	return &Storage{
		clock:    o.Clock,
		position: einmal.Position{Store: rand.Text(), Epoch: 1},
		byID:     map[einmal.ID]*row{},
		byName:   map[einmal.Identity]*row{},
		settings: map[settingKey]einmal.Setting{},
	}
}

// Open returns a new handle.
func (st *Storage) Open() einmal.Store {
	st.mu.Lock()
	defer st.mu.Unlock()
	return &store{Storage: st, guard: einmal.ClockGuard{Clock: st.clock}, accepted: st.accepts}
}

// New returns the only handle on a new storage.
func New() einmal.Store { return NewStorage(Options{}).Open() }

// store is a handle. Its own fields are under the storage's lock too.
type store struct {
	*Storage
	guard    einmal.ClockGuard
	accepted int // how many acceptances it knows of
	closed   bool
}

// atomically calls step under the lock, with the store's time. A step that returns an error has written nothing.
func (s *store) atomically(ctx context.Context, step func(now time.Time) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	if s.closed {
		return einmal.ErrStoreClosed
	}
	if s.accepted < s.accepts { // through another handle
		s.accepted = s.accepts
		s.guard.Accept()
	}
	now, jumped := s.guard.Read(s.mark)
	s.jumped = s.jumped || jumped
	if !s.jumped {
		s.mark = now
	}
	return step(now)
}

// nextSeq is the sequence of one more write.
func (s *store) nextSeq() int64 {
	s.position.Seq++
	return s.position.Seq
}

func (s *store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return nil
}

func (s *store) Reserve(ctx context.Context, r einmal.Reservation) (rec einmal.Record, created bool, err error) {
	err = s.atomically(ctx, func(now time.Time) error {
		id := identity(r.Identity)
		if found := s.byName[id]; found != nil {
			rec = s.read(found, now)
			return nil
		}
		switch {
		case s.restored(r.Seen):
			return einmal.ErrRestored
		case s.paused(r.Identity, now):
			return einmal.ErrStorePaused
		case s.tooManyOpen(r.Tenant, r.Limits):
			return einmal.ErrTooManyOpen
		case !r.KeyTime.IsZero() && now.Sub(r.KeyTime) > r.Terms.Window:
			return einmal.ErrKeyTooOld
		case r.KeyTime.Sub(now) > einmal.MaxKeySkew:
			return einmal.ErrKeyFromFuture
		}
		s.lastID++
		made := &row{Record: einmal.Record{
			ID: s.lastID, Identity: r.Identity, Principal: r.Principal, Fingerprint: r.Fingerprint, PartnerKey: r.PartnerKey, Terms: r.Terms,
			State: einmal.StateRunning, Attempt: 1, Version: 1, Nonce: r.Nonce,
			Ends:    []einmal.AttemptEnd{{Attempt: 1, Holder: r.Holder}},
			Created: now, Changed: now, LeaseUntil: now.Add(r.Terms.Lease), Due: now.Add(r.Terms.Lease), RecognisedUntil: now.Add(r.Terms.Window),
			Seq: s.nextSeq(),
		}}
		s.rows = append(s.rows, made)
		s.byID[made.ID], s.byName[id] = made, made
		rec, created = s.read(made, now), true
		return nil
	})
	return rec, created, err
}

func identity(id einmal.Identity) einmal.Identity {
	if mutant.On("tenant-left-out") {
		id.Tenant = ""
	}
	return id
}

// restored reports whether somebody has seen a later position than the store's own, or another store.
func (s *store) restored(seen einmal.Position) bool {
	own := s.position
	switch {
	case seen.Store == "", mutant.On("restored-not-checked"):
		return false
	case seen.Store != own.Store, seen.Epoch > own.Epoch:
		return true
	}
	return seen.Epoch == own.Epoch && seen.Seq > own.Seq
}

func (s *store) tooManyOpen(tenant string, limits einmal.Limits) bool {
	if limits == (einmal.Limits{}) {
		return false
	}
	open, unclear := 0, 0
	for _, r := range s.rows {
		switch {
		case r.Tenant != tenant:
		case r.State == einmal.StateUnclear:
			unclear++
		case r.State.Open():
			open++
		}
	}
	return limits.Open != 0 && open >= limits.Open || limits.Unclear != 0 && unclear >= limits.Unclear
}

func (s *store) Apply(ctx context.Context, c einmal.Change) (rec einmal.Record, err error) {
	err = s.atomically(ctx, func(now time.Time) error {
		r := s.byID[c.ID]
		if r == nil {
			return einmal.ErrNotFound
		}
		is := s.read(r, now)
		switch start := c.Guard.Start; {
		case !planted(c.Guard).Holds(&is):
			return &einmal.StaleError{Record: is, Tried: c.Guard}
		case start && s.restored(c.Seen):
			return einmal.ErrRestored
		case start && s.paused(r.Identity, now):
			return einmal.ErrStorePaused
		case start && s.tooManyOpen(r.Tenant, c.Limits):
			return einmal.ErrTooManyOpen
		case start && c.Guard.MaxAge != 0 && s.jumped:
			return einmal.ErrClockJumped
		}
		c.Ends, c.Result = copyEnds(c.Ends), copyResult(c.Result)
		if err := c.Write(&r.Record, now); err != nil {
			return err
		}
		r.Seq = s.nextSeq()
		if c.Entry != nil {
			entry := *c.Entry
			entry.At = now
			r.timeline = append(r.timeline, entry)
		}
		rec = s.read(r, now)
		return nil
	})
	return rec, err
}

// planted is the guard less what a mutant forgets.
func planted(g einmal.Guard) einmal.Guard {
	switch {
	case mutant.On("renewal-revives"):
		g.LeaseHeld = false
	case mutant.On("version-not-checked"):
		g.Version = 0
	case mutant.On("no-fence"):
		g.Attempt = 0
	}
	return g
}

func (s *store) Claim(ctx context.Context, c einmal.Claim) (claimed []einmal.Record, err error) {
	err = s.atomically(ctx, func(now time.Time) error {
		var due []*row
		for _, r := range s.rows {
			if r.State.Open() && !r.Due.After(now) && (c.Operations == nil || slices.Contains(c.Operations, r.Operation)) {
				due = append(due, r)
			}
		}
		slices.SortStableFunc(due, func(a, b *row) int { return a.Due.Compare(b.Due) })
		for _, r := range due[:min(len(due), max(c.Limit, 0))] {
			r.Seq, r.Due = s.nextSeq(), now.Add(c.Lease)
			claimed = append(claimed, s.read(r, now))
		}
		return nil
	})
	return claimed, err
}

func (s *store) Purge(ctx context.Context, limit int) (touched int, err error) {
	err = s.atomically(ctx, func(now time.Time) error {
		if s.jumped {
			return einmal.ErrClockJumped
		}
		expired, deleted := 0, 0
		s.rows = slices.DeleteFunc(s.rows, func(r *row) bool {
			over := r.RecognisedUntil
			switch {
			case r.State == einmal.StateExpired && !over.Add(r.Terms.Tombstone).After(now) && deleted < limit:
				deleted++
				s.nextSeq()
				delete(s.byID, r.ID)
				delete(s.byName, identity(r.Identity))
				return true
			case purgeable(r.State) && !over.After(now) && expired < limit:
				expired++
				r.Seq = s.nextSeq()
				expire(&r.Record, now)
			}
			return false
		})
		touched = expired + deleted
		return nil
	})
	return touched, err
}

func purgeable(s einmal.State) bool {
	return s == einmal.StateCompleted || s == einmal.StateNotApplied ||
		s == einmal.StateRunning && mutant.On("purge-running") || s == einmal.StateUnclear && mutant.On("unclear-expires")
}

// expire makes a tombstone of a record: it tells who asked for what and how that ended, and holds no answer.
func expire(rec *einmal.Record, now time.Time) {
	rec.State, rec.Result = einmal.StateExpired, nil
	rec.LeaseUntil, rec.Due = time.Time{}, time.Time{}
	rec.Changed = now
	rec.Version++
	for i := range rec.Ends {
		rec.Ends[i].Result = nil
	}
}

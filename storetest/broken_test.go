package storetest_test

import (
	"context"
	"runtime"

	"github.com/einmal-dev/einmal"
)

// broken is a correct store with one bug: each function that is set stands for the method of its name. next is the correct store.
type broken struct {
	einmal.Store
	bug *bug
}

type bug struct {
	name string
	rule string // words of the rule that must be named

	open     func(correct func() einmal.Store) einmal.Store
	reserve  func(ctx context.Context, next einmal.Store, r einmal.Reservation) (einmal.Record, bool, error)
	apply    func(ctx context.Context, next einmal.Store, c einmal.Change) (einmal.Record, error)
	get      func(ctx context.Context, next einmal.Store, ref einmal.Ref) (einmal.Record, error)
	timeline func(ctx context.Context, next einmal.Store, id einmal.ID) ([]einmal.Entry, error)
	list     func(ctx context.Context, next einmal.Store, f einmal.Filter) ([]einmal.Record, string, error)
	claim    func(ctx context.Context, next einmal.Store, c einmal.Claim) ([]einmal.Record, error)
	purge    func(ctx context.Context, next einmal.Store, limit int) (int, error)
	settings func(ctx context.Context, next einmal.Store, set ...einmal.Setting) ([]einmal.Setting, error)
	close    func(next einmal.Store) error
}

func (b broken) Reserve(ctx context.Context, r einmal.Reservation) (einmal.Record, bool, error) {
	if b.bug.reserve == nil {
		return b.Store.Reserve(ctx, r)
	}
	return b.bug.reserve(ctx, b.Store, r)
}

func (b broken) Apply(ctx context.Context, c einmal.Change) (einmal.Record, error) {
	if b.bug.apply == nil {
		return b.Store.Apply(ctx, c)
	}
	return b.bug.apply(ctx, b.Store, c)
}

func (b broken) Get(ctx context.Context, ref einmal.Ref) (einmal.Record, error) {
	if b.bug.get == nil {
		return b.Store.Get(ctx, ref)
	}
	return b.bug.get(ctx, b.Store, ref)
}

func (b broken) Timeline(ctx context.Context, id einmal.ID) ([]einmal.Entry, error) {
	if b.bug.timeline == nil {
		return b.Store.Timeline(ctx, id)
	}
	return b.bug.timeline(ctx, b.Store, id)
}

func (b broken) List(ctx context.Context, f einmal.Filter) ([]einmal.Record, string, error) {
	if b.bug.list == nil {
		return b.Store.List(ctx, f)
	}
	return b.bug.list(ctx, b.Store, f)
}

func (b broken) Claim(ctx context.Context, c einmal.Claim) ([]einmal.Record, error) {
	if b.bug.claim == nil {
		return b.Store.Claim(ctx, c)
	}
	return b.bug.claim(ctx, b.Store, c)
}

func (b broken) Purge(ctx context.Context, limit int) (int, error) {
	if b.bug.purge == nil {
		return b.Store.Purge(ctx, limit)
	}
	return b.bug.purge(ctx, b.Store, limit)
}

func (b broken) Settings(ctx context.Context, set ...einmal.Setting) ([]einmal.Setting, error) {
	if b.bug.settings == nil {
		return b.Store.Settings(ctx, set...)
	}
	return b.bug.settings(ctx, b.Store, set...)
}

func (b broken) Close() error {
	if b.bug.close == nil {
		return b.Store.Close()
	}
	return b.bug.close(b.Store)
}

// changing is an Apply that spoils the change first.
func changing(spoil func(*einmal.Change)) func(context.Context, einmal.Store, einmal.Change) (einmal.Record, error) {
	return func(ctx context.Context, next einmal.Store, c einmal.Change) (einmal.Record, error) {
		spoil(&c)
		return next.Apply(ctx, c)
	}
}

// requesting is a Reserve that spoils the reservation first.
func requesting(spoil func(*einmal.Reservation)) func(context.Context, einmal.Store, einmal.Reservation) (einmal.Record, bool, error) {
	return func(ctx context.Context, next einmal.Store, r einmal.Reservation) (einmal.Record, bool, error) {
		spoil(&r)
		return next.Reserve(ctx, r)
	}
}

// split checks the guard, lets others run, and then writes without it: two steps where one is due.
func split(ctx context.Context, next einmal.Store, c einmal.Change) (einmal.Record, error) {
	rec, err := next.Get(ctx, einmal.Ref{ID: c.ID})
	if err != nil {
		return rec, err
	}
	if !c.Guard.Holds(&rec) {
		return einmal.Record{}, &einmal.StaleError{Record: rec, Tried: c.Guard}
	}
	for range 30 { // until another writer has come between, if there is one
		if now, err := next.Get(ctx, einmal.Ref{ID: c.ID}); err != nil || now.Seq != rec.Seq {
			break
		}
		runtime.Gosched()
	}
	c.Guard = einmal.Guard{Start: c.Guard.Start}
	return next.Apply(ctx, c)
}

// yield lets others come between.
func yield() {
	for range 20 {
		runtime.Gosched()
	}
}

// identifying is a store that takes other identities for the given ones.
func identifying(b bug, as func(einmal.Identity) einmal.Identity) bug {
	b.reserve = func(ctx context.Context, next einmal.Store, r einmal.Reservation) (einmal.Record, bool, error) {
		asked := r.Identity
		r.Identity = as(asked)
		rec, created, err := next.Reserve(ctx, r)
		if err == nil {
			rec.Identity = asked
		}
		return rec, created, err
	}
	b.get = func(ctx context.Context, next einmal.Store, ref einmal.Ref) (einmal.Record, error) {
		asked := ref.Identity
		ref.Identity = as(asked)
		rec, err := next.Get(ctx, ref)
		if err == nil && ref.ID == 0 {
			rec.Identity = asked
		}
		return rec, err
	}
	return b
}

func lists(ctx context.Context, next einmal.Store, states ...einmal.State) []einmal.Record {
	recs, _, _ := next.List(ctx, einmal.Filter{States: states, Limit: 1000})
	return recs
}

// expire is a Purge that makes tombstones of records that must stay.
func expire(ctx context.Context, next einmal.Store, recs []einmal.Record) {
	for _, rec := range recs {
		_, _ = next.Apply(ctx, einmal.Change{
			ID: rec.ID, Kind: einmal.Transition, State: einmal.StateExpired, Attempt: rec.Attempt, Verdict: rec.Verdict, Ends: rec.Ends,
		})
	}
}

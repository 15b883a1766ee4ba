package storetest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/einmal-dev/einmal"
	"github.com/einmal-dev/einmal/fingerprint"
)

// env is what a case works with: two handles on the storage, and names that no other case uses.
type env struct {
	ctx    context.Context
	maker  Maker
	a, b   einmal.Store
	tenant string
	op     string

	keys   int
	shared *pair
	opened []einmal.Store // by the case itself
	seen   []string
}

// pair is the two handles that all cases use: opening may be slow.
type pair struct {
	maker   Maker
	handles []einmal.Store
}

func (p *pair) open() error {
	for len(p.handles) < 2 {
		s, err := p.maker.Open()
		if err != nil {
			return fmt.Errorf("storetest: Maker.Open: %w", err)
		}
		p.handles = append(p.handles, s)
	}
	return nil
}

func (p *pair) close() {
	for _, s := range p.handles {
		_ = s.Close()
	}
	p.handles = nil
}

// slack is how far instants may be off: the store's clock may go on by itself between two looks at it, and its precision is its own.
const slack = 5 * time.Second

// Terms of the cases' records. Everything that a case waits for is far longer than slack and shorter than einmal.MaxClockStepFresh.
const (
	lease     = 10 * time.Minute
	window    = time.Hour
	tombstone = 2 * time.Hour
	keep      = 20 * time.Minute
)

func newEnv(ctx context.Context, p *pair) *env {
	return &env{
		ctx: ctx, maker: p.maker, a: p.handles[0], b: p.handles[1], shared: p,
		tenant: "tenant-" + rand.Text(), op: "op-" + rand.Text(),
	}
}

// open opens one more handle. It is closed when the case is over.
func (e *env) open() einmal.Store {
	s, err := e.maker.Open()
	if err != nil {
		e.fail("Maker.Open: %v", err)
	}
	e.opened = append(e.opened, s)
	return s
}

// handles are all that are open.
func (e *env) handles() []einmal.Store { return slices.Concat(e.shared.handles, e.opened) }

// close closes every handle.
func (e *env) close() {
	for _, s := range e.handles() {
		e.must(s.Close(), "Close")
	}
	e.shared.handles, e.opened = nil, nil
}

// tidy purges what is over, which also moves the clock's high-water mark to where the case has advanced it, and closes what the case opened.
func (e *env) tidy() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(e.ctx), caseTime)
	defer cancel()
	if all := e.handles(); len(all) > 0 {
		_, _ = all[0].Purge(ctx, 10_000)
	}
	for _, s := range e.opened {
		_ = s.Close()
	}
}

// must ends the case when a call failed that no store may fail.
func (e *env) must(err error, call string, args ...any) {
	if err != nil {
		e.fail("%s: unexpected error: %v", fmt.Sprintf(call, args...), err)
	}
}

func terms() einmal.Terms {
	return einmal.Terms{
		Owner: "owner@example.com", Class: einmal.ClassOpaque, Deadline: time.Minute, Lease: lease, Window: window, KeepResult: keep,
		Tombstone: tombstone, UnclearDeadline: 15 * time.Minute, Backoff: time.Second, MaxAttempts: 5,
	}
}

func nonce() (n einmal.Nonce) {
	_, _ = rand.Read(n[:])
	return n
}

// request is a reservation with an identity that nobody has.
func (e *env) request() einmal.Reservation {
	e.keys++
	r := einmal.Reservation{
		Identity:  einmal.Identity{Tenant: e.tenant, Operation: e.op, Key: fmt.Sprintf("key-%d", e.keys)},
		Principal: "principal", Fingerprint: fingerprint.Sum{Version: fingerprint.V1}, PartnerKey: "partner-key", Terms: terms(), Nonce: nonce(),
		Holder: einmal.Holder{Incarnation: "incarnation", Host: "host", Boot: "boot"},
	}
	_, _ = rand.Read(r.Fingerprint.Hash[:])
	return r
}

// reserve makes a new record and checks it.
func (e *env) reserve(r einmal.Reservation) einmal.Record {
	rec, created, err := e.a.Reserve(e.ctx, r)
	e.must(err, "Reserve")
	if !created {
		e.fail("Reserve of an identity that nobody has: created is false, and the record found is %s", describe(rec))
	}
	e.same("Reserve", rec, reserved(r, rec))
	return rec
}

// running makes a new record that runs its first attempt.
func (e *env) running() einmal.Record { return e.reserve(e.request()) }

// apply makes a change whose guard holds and checks the answer and, over the other handle, what is kept.
func (e *env) apply(rec einmal.Record, c einmal.Change) einmal.Record {
	got, err := e.a.Apply(e.ctx, c)
	e.must(err, "Apply")
	want := changed(rec, c, got.Now)
	e.same("the record that Apply returned", got, want)
	e.same("the record read afterwards", e.get(e.b, rec.ID), want)
	return got
}

func (e *env) get(s einmal.Store, id einmal.ID) einmal.Record {
	rec, err := s.Get(e.ctx, einmal.Ref{ID: id})
	e.must(err, "Get")
	return rec
}

func (e *env) timeline(s einmal.Store, id einmal.ID) []einmal.Entry {
	entries, err := s.Timeline(e.ctx, id)
	e.must(err, "Timeline")
	return entries
}

// unchanged checks that a record is still as it was.
func (e *env) unchanged(when string, rec einmal.Record) {
	e.same(when, e.get(e.b, rec.ID), rec)
}

// purge purges until nothing is left to purge.
func (e *env) purge() (touched int) {
	for range 10_000 {
		n, err := e.a.Purge(e.ctx, 1000)
		e.must(err, "Purge")
		if n == 0 {
			return touched
		}
		touched += n
	}
	e.fail("Purge still finds something to purge after 10,000 calls")
	return 0
}

// settings writes settings and returns all that are there.
func (e *env) settings(s einmal.Store, set ...einmal.Setting) []einmal.Setting {
	all, err := s.Settings(e.ctx, set...)
	e.must(err, "Settings(%+v)", set)
	return all
}

// isStale checks that a change was refused, and how.
func (e *env) isStale(what string, rec einmal.Record, c einmal.Change, err error) {
	var stale *einmal.StaleError
	switch {
	case err == nil:
		e.fail("%s: applied, although the guard %+v does not hold for %s", what, c.Guard, describe(rec))
	case !errors.Is(err, einmal.ErrStale), !errors.As(err, &stale):
		e.fail("%s: want a *StaleError, got %v", what, err)
	case stale.Tried != c.Guard:
		e.see("%s: StaleError.Tried is %+v, tried was %+v", what, stale.Tried, c.Guard)
	}
	e.same(what+": StaleError.Record", stale.Record, rec)
}

// isNot checks for a sentinel error.
func (e *env) isError(what string, err, want error) {
	if !errors.Is(err, want) {
		e.fail("%s: want %q, got %v", what, want, err)
	}
}

// noRow checks that an identity has no record.
func (e *env) noRow(what string, id einmal.Identity) {
	rec, err := e.b.Get(e.ctx, einmal.Ref{Identity: id})
	if !errors.Is(err, einmal.ErrNotFound) {
		e.fail("%s: a record is there afterwards: %s (error %v)", what, describe(rec), err)
	}
}

package storetest_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"sync"

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

func bugs() []bug {
	return slices.Concat(writingBugs(), storingBugs(), lookingBugs(), timeBugs())
}

func writingBugs() []bug {
	return []bug{
		{name: "guards are checked and changes written in two steps", rule: "whatever two writers do to one record", apply: split},
		{
			name: "a completion does not lock out a takeover", rule: "a takeover and a completion could both be told that they won",
			apply: func(ctx context.Context, next einmal.Store, c einmal.Change) (einmal.Record, error) {
				if c.State == einmal.StateCompleted {
					return split(ctx, next, c)
				}
				return next.Apply(ctx, c)
			},
		},
		{
			name: "a restart is checked and written in two steps", rule: "nor may Purge expire what was just started again",
			apply: func(ctx context.Context, next einmal.Store, c einmal.Change) (einmal.Record, error) {
				if c.Guard.Start {
					return split(ctx, next, c)
				}
				return next.Apply(ctx, c)
			},
		},
		{
			name: "renewals are checked and written in two steps", rule: "a takeover must not win over a renewal that was acknowledged",
			apply: func(ctx context.Context, next einmal.Store, c einmal.Change) (einmal.Record, error) {
				if c.Kind == einmal.Renewal {
					return split(ctx, next, c)
				}
				return next.Apply(ctx, c)
			},
		},
		{
			name: "a renewal revives a lost lease", rule: "a lost lease must not be revived",
			apply: changing(func(c *einmal.Change) { c.Guard.LeaseHeld = false }),
		},
		{
			name: "a held lease is taken over", rule: "a renewed attempt is alive",
			apply: changing(func(c *einmal.Change) { c.Guard.LeaseLapsed = false }),
		},
		{
			name: "no fence", rule: "every part of a Guard that is set must hold",
			apply: changing(func(c *einmal.Change) { c.Guard.Attempt = 0 }),
		},
		{
			name: "the version is not checked", rule: "every part of a Guard that is set must hold",
			apply: changing(func(c *einmal.Change) { c.Guard.Version = 0 }),
		},
		{
			name: "the age counts from the last transition", rule: "the partner forgets the key so long after it first saw it",
			apply: func(ctx context.Context, next einmal.Store, c einmal.Change) (einmal.Record, error) {
				if rec, err := next.Get(ctx, einmal.Ref{ID: c.ID}); err == nil && c.Guard.MaxAge != 0 && rec.Now.Sub(rec.Changed) <= c.Guard.MaxAge {
					c.Guard.MaxAge = 0
				}
				return next.Apply(ctx, c)
			},
		},
		{
			name: "a stale change is told without the record", rule: "gets a *StaleError",
			apply: func(ctx context.Context, next einmal.Store, c einmal.Change) (einmal.Record, error) {
				rec, err := next.Apply(ctx, c)
				if errors.Is(err, einmal.ErrStale) {
					err = einmal.ErrStale
				}
				return rec, err
			},
		},
		{
			name: "starts do not look for a pause", rule: "pausing stops what would begin",
			apply: changing(func(c *einmal.Change) { c.Guard.Start = false }),
		},
		{
			name: "every change is refused while paused", rule: "pausing stops what would begin and never the clearing up",
			apply: changing(func(c *einmal.Change) { c.Guard.Start = true }),
		},
		{
			name: "starts do not look whether the store was restored", rule: "what is known must be recorded, nothing new may begin",
			apply: changing(func(c *einmal.Change) { c.Seen = einmal.Position{} }),
		},
		{
			name: "a note grows the version", rule: "an escalation must not make a person's resolution stale",
			apply: func(ctx context.Context, next einmal.Store, c einmal.Change) (einmal.Record, error) {
				rec, err := next.Apply(ctx, c)
				if err != nil || c.Kind != einmal.Note {
					return rec, err
				}
				return next.Apply(ctx, einmal.Change{
					ID: rec.ID, Kind: einmal.Transition, State: rec.State, Attempt: rec.Attempt, Ends: rec.Ends, Verdict: rec.Verdict, Result: rec.Result,
					Reason: rec.Reason, Attention: rec.Attention, Nonce: rec.Nonce,
				})
			},
		},
		{
			name: "a renewal leaves the due time", rule: "a Renewal sets lease and due time",
			apply: func(ctx context.Context, next einmal.Store, c einmal.Change) (einmal.Record, error) {
				before, _ := next.Get(ctx, einmal.Ref{ID: c.ID})
				rec, err := next.Apply(ctx, c)
				if c.Kind == einmal.Renewal {
					rec.Due = before.Due
				}
				return rec, err
			},
		},
		{
			name: "the minimum after completion is not kept", rule: "an answer that comes at the window's end can still be fetched",
			apply: changing(func(c *einmal.Change) { c.Recognise = 0 }),
		},
		{
			name: "timeline entries get lost", rule: "the timeline is what people judge an unclear outcome by",
			apply: changing(func(c *einmal.Change) {
				if c.Kind == einmal.Note {
					c.Entry = nil
				}
			}),
		},
		{
			name: "Reserve looks and then inserts", rule: "never look and then insert",
			reserve: func(ctx context.Context, next einmal.Store, r einmal.Reservation) (einmal.Record, bool, error) {
				_, err := next.Get(ctx, einmal.Ref{Identity: r.Identity})
				yield()
				rec, created, reserveErr := next.Reserve(ctx, r)
				return rec, created || reserveErr == nil && errors.Is(err, einmal.ErrNotFound), reserveErr
			},
		},
		{
			name: "a refused reservation leaves a row", rule: "come before anything is inserted",
			reserve: func(ctx context.Context, next einmal.Store, r einmal.Reservation) (einmal.Record, bool, error) {
				rec, created, err := next.Reserve(ctx, r)
				if errors.Is(err, einmal.ErrTooManyOpen) {
					r.Limits = einmal.Limits{}
					_, _, _ = next.Reserve(ctx, r)
				}
				return rec, created, err
			},
		},
		{
			name: "a found record is refused while paused", rule: "refusals are for new operations only",
			reserve: func(ctx context.Context, next einmal.Store, r einmal.Reservation) (einmal.Record, bool, error) {
				all, _ := next.Settings(ctx)
				if slices.ContainsFunc(all, func(s einmal.Setting) bool {
					return s.Name == "pause" && s.Tenant == r.Tenant && s.Operation == r.Operation
				}) {
					return einmal.Record{}, false, einmal.ErrStorePaused
				}
				return next.Reserve(ctx, r)
			},
		},
		{
			name: "a reservation looks for a pause before its transaction", rule: "no start that did not see it can commit",
			reserve: func(ctx context.Context, next einmal.Store, r einmal.Reservation) (einmal.Record, bool, error) {
				all, _ := next.Settings(ctx)
				if slices.ContainsFunc(all, func(s einmal.Setting) bool { return s.Name == "seen too early" && s.Tenant == r.Tenant }) {
					return einmal.Record{}, false, einmal.ErrStorePaused
				}
				yield()
				return next.Reserve(ctx, r)
			},
			settings: func(ctx context.Context, next einmal.Store, set ...einmal.Setting) ([]einmal.Setting, error) {
				set = slices.Clone(set)
				for i := range set {
					if set[i].Name == "pause" {
						set[i].Name = "seen too early"
					}
				}
				return next.Settings(ctx, set...)
			},
		},
		{
			name: "reservations do not look whether the store was restored", rule: "ErrRestored",
			reserve: requesting(func(r *einmal.Reservation) { r.Seen = einmal.Position{} }),
		},
		{
			name: "limits are not checked", rule: "Limits.Open counts",
			reserve: requesting(func(r *einmal.Reservation) { r.Limits = einmal.Limits{} }),
		},
		{
			name: "a key's own time is not checked", rule: "since its record may be gone already",
			reserve: requesting(func(r *einmal.Reservation) { r.KeyTime = r.KeyTime.Truncate(1 << 62) }),
		},
		{
			name: "a duplicate takes the record over", rule: "changes nothing: it is a duplicate",
			reserve: func(ctx context.Context, next einmal.Store, r einmal.Reservation) (einmal.Record, bool, error) {
				rec, created, err := next.Reserve(ctx, r)
				if err == nil && !created {
					rec.Nonce = r.Nonce
				}
				return rec, created, err
			},
		},
		identifying(bug{name: "tenant and operation are joined", rule: "tenant, operation and key are kept apart"}, func(id einmal.Identity) einmal.Identity {
			return einmal.Identity{Operation: id.Tenant + id.Operation, Key: id.Key}
		}),
		identifying(bug{name: "keys end at NUL", rule: "compared byte by byte"}, func(id einmal.Identity) einmal.Identity {
			id.Key, _, _ = strings.Cut(id.Key, "\x00")
			return id
		}),
		identifying(bug{name: "keys are compared without case", rule: "compared byte by byte"}, func(id einmal.Identity) einmal.Identity {
			id.Key = strings.ToLower(id.Key)
			return id
		}),
	}
}

func storingBugs() []bug {
	var mu sync.Mutex
	byOwner := map[string]einmal.Terms{}
	results := map[einmal.ID]*einmal.Result{}
	return []bug{
		{
			name: "header fields are sorted", rule: "a replay must be the answer that was recorded",
			apply: changing(func(c *einmal.Change) {
				if c.Result != nil {
					r := *c.Result
					r.Header = slices.SortedStableFunc(slices.Values(r.Header), func(a, b einmal.Field) int { return strings.Compare(a.Name, b.Name) })
					c.Result = &r
				}
			}),
		},
		{
			name: "bodies end at NUL", rule: "every byte of the body",
			apply: changing(func(c *einmal.Change) {
				if c.Result != nil {
					r := *c.Result
					body, _, _ := strings.Cut(string(r.Body), "\x00")
					r.Body = []byte(body)
					c.Result = &r
				}
			}),
		},
		{
			name: "an empty result is none", rule: "a nil Result stays nil",
			apply: changing(func(c *einmal.Change) {
				if c.Result != nil && len(c.Result.Header) == 0 && len(c.Result.Body) == 0 && c.Result.Status == 0 {
					c.Result = nil
				}
			}),
		},
		{
			name: "certificates are dropped from the ends", rule: "one lost end is a wrong verdict",
			apply: changing(func(c *einmal.Change) {
				c.Ends = slices.DeleteFunc(slices.Clone(c.Ends), func(e einmal.AttemptEnd) bool { return e.End == einmal.EndNoEffect })
			}),
		},
		{
			name: "terms are kept once for each owner", rule: "must not take different ones for equal",
			reserve: requesting(func(r *einmal.Reservation) {
				mu.Lock()
				defer mu.Unlock()
				if kept, ok := byOwner[r.Terms.Owner]; ok {
					r.Terms = kept
				}
				byOwner[r.Terms.Owner] = r.Terms
			}),
		},
		{
			name: "the partner key is not kept", rule: "the partner key what a partner deduplicates on",
			reserve: requesting(func(r *einmal.Reservation) { r.PartnerKey = "" }),
		},
		{
			name: "results are shared with the caller", rule: "a caller that changes its own slice must not change a recorded answer",
			apply: func(ctx context.Context, next einmal.Store, c einmal.Change) (einmal.Record, error) {
				rec, err := next.Apply(ctx, c)
				if err == nil && c.Kind == einmal.Transition {
					mu.Lock()
					defer mu.Unlock()
					results[c.ID] = c.Result
				}
				return rec, err
			},
			get: func(ctx context.Context, next einmal.Store, ref einmal.Ref) (einmal.Record, error) {
				rec, err := next.Get(ctx, ref)
				mu.Lock()
				defer mu.Unlock()
				if kept := results[rec.ID]; kept != nil && rec.Result != nil {
					rec.Result = kept
				}
				return rec, err
			},
		},
		{
			name: "handles are on storages of their own", rule: "handles on the same storage",
			open: func(func() einmal.Store) einmal.Store { return newStorage().Open() },
		},
		{
			name: "a closed handle works", rule: "after Close every method of the handle fails",
			close: func(einmal.Store) error { return nil },
		},
	}
}

func lookingBugs() []bug {
	return []bug{
		{
			name: "a list's cursor repeats the last record", rule: "every selected record once",
			list: func(ctx context.Context, next einmal.Store, f einmal.Filter) ([]einmal.Record, string, error) {
				page, cursor, err := next.List(ctx, f)
				if cursor != "" && len(page) > 1 {
					_, cursor, err = next.List(ctx, einmal.Filter{
						States: f.States, Tenant: f.Tenant, Operation: f.Operation, Owner: f.Owner, Attention: f.Attention, OlderThan: f.OlderThan,
						After: f.After, Limit: len(page) - 1,
					})
				}
				return page, cursor, err
			},
		},
		{
			name: "a list does not filter by owner", rule: "each part of a Filter that is set selects",
			list: func(ctx context.Context, next einmal.Store, f einmal.Filter) ([]einmal.Record, string, error) {
				f.Owner = ""
				return next.List(ctx, f)
			},
		},
		{
			name: "a list has the bodies", rule: "a page of a thousand records must not be a gigabyte",
			list: func(ctx context.Context, next einmal.Store, f einmal.Filter) ([]einmal.Record, string, error) {
				page, cursor, err := next.List(ctx, f)
				for i := range page {
					if rec, err := next.Get(ctx, einmal.Ref{ID: page[i].ID}); err == nil {
						page[i] = rec
					}
				}
				return page, cursor, err
			},
		},
		{
			name: "a renewal does not grow the sequence", rule: "by that alone a node notices that a store was restored",
			apply: func(ctx context.Context, next einmal.Store, c einmal.Change) (einmal.Record, error) {
				before, _ := next.Get(ctx, einmal.Ref{ID: c.ID})
				rec, err := next.Apply(ctx, c)
				if c.Kind == einmal.Renewal {
					rec.Seq = before.Seq
				}
				return rec, err
			},
		},
		{
			name: "a claim keeps nobody off", rule: "a claimed record is nobody else's",
			claim: func(ctx context.Context, next einmal.Store, c einmal.Claim) ([]einmal.Record, error) {
				c.Lease = -1
				return next.Claim(ctx, c)
			},
		},
		{
			name: "a claim is for all operations", rule: "Claim.Operations selects by name",
			claim: func(ctx context.Context, next einmal.Store, c einmal.Claim) ([]einmal.Record, error) {
				c.Operations = nil
				return next.Claim(ctx, c)
			},
		},
		{
			name: "a claim grows the version", rule: "claiming decides nothing about the record",
			claim: func(ctx context.Context, next einmal.Store, c einmal.Claim) ([]einmal.Record, error) {
				recs, err := next.Claim(ctx, c)
				for i := range recs {
					recs[i].Version++
				}
				return recs, err
			},
		},
		{
			name: "if-absent is not heeded", rule: "two secrets would be two partner keys",
			settings: func(ctx context.Context, next einmal.Store, set ...einmal.Setting) ([]einmal.Setting, error) {
				set = slices.Clone(set)
				for i := range set {
					set[i].IfAbsent = false
				}
				return next.Settings(ctx, set...)
			},
		},
		{
			name: "if-absent looks and then writes", rule: "two secrets would be two partner keys",
			settings: func(ctx context.Context, next einmal.Store, set ...einmal.Setting) ([]einmal.Setting, error) {
				all, _ := next.Settings(ctx)
				set = slices.DeleteFunc(slices.Clone(set), func(s einmal.Setting) bool {
					return s.IfAbsent && slices.ContainsFunc(all, func(is einmal.Setting) bool { return is.Name == s.Name && is.Tenant == s.Tenant })
				})
				for i := range set {
					set[i].IfAbsent = false
				}
				yield()
				return next.Settings(ctx, set...)
			},
		},
		{
			name: "a pause is for everything", rule: "refuses every start in its scope",
			settings: func(ctx context.Context, next einmal.Store, set ...einmal.Setting) ([]einmal.Setting, error) {
				set = slices.Clone(set)
				for i := range set {
					if set[i].Name == "pause" {
						set[i].Tenant = "*"
					}
				}
				return next.Settings(ctx, set...)
			},
		},
		{
			name: "the store's own settings come back only when asked", rule: "id, epoch, seq and clock are always returned",
			settings: func(ctx context.Context, next einmal.Store, set ...einmal.Setting) ([]einmal.Setting, error) {
				all, err := next.Settings(ctx, set...)
				return slices.DeleteFunc(all, func(s einmal.Setting) bool { return s.Name == "seq" }), err
			},
		},
		{
			name: "a store that panics is reported", rule: "the timeline is what people judge an unclear outcome by",
			timeline: func(context.Context, einmal.Store, einmal.ID) ([]einmal.Entry, error) { panic("no timelines here") },
		},
	}
}

func timeBugs() []bug {
	return []bug{
		{
			name: "purging takes running records", rule: "Purge never touches an open record",
			purge: func(ctx context.Context, next einmal.Store, limit int) (int, error) {
				for _, rec := range lists(ctx, next, einmal.StateRunning) {
					if rec.Lapsed() && !rec.RecognisedUntil.After(rec.Now) {
						expire(ctx, next, []einmal.Record{rec})
					}
				}
				return next.Purge(ctx, limit)
			},
		},
		{
			name: "unclear records expire", rule: "an operation whose outcome nobody knows would be forgotten",
			purge: func(ctx context.Context, next einmal.Store, limit int) (int, error) {
				for _, rec := range lists(ctx, next, einmal.StateUnclear) {
					if !rec.RecognisedUntil.After(rec.Now) {
						expire(ctx, next, []einmal.Record{rec})
					}
				}
				return next.Purge(ctx, limit)
			},
		},
		{
			name: "completed records expire early", rule: "every retry inside the window gets the recorded outcome",
			purge: func(ctx context.Context, next einmal.Store, limit int) (int, error) {
				expire(ctx, next, lists(ctx, next, einmal.StateCompleted))
				return next.Purge(ctx, limit)
			},
		},
		{
			name: "a tombstone forgets the verdict", rule: "so that the key is still recognised",
			get: func(ctx context.Context, next einmal.Store, ref einmal.Ref) (einmal.Record, error) {
				rec, err := next.Get(ctx, ref)
				if rec.State == einmal.StateExpired {
					rec.Verdict = einmal.NoVerdict
				}
				return rec, err
			},
		},
		{
			name: "purging knows no limit", rule: "a long purge would hold up every writer",
			purge: func(ctx context.Context, next einmal.Store, _ int) (int, error) { return next.Purge(ctx, 1<<30) },
		},
		{
			name: "a jump of the clock is accepted by itself", rule: "a wrong clock would forget keys and repeat effects",
			purge: func(ctx context.Context, next einmal.Store, limit int) (int, error) {
				n, err := next.Purge(ctx, limit)
				if errors.Is(err, einmal.ErrClockJumped) {
					_, _ = next.Settings(ctx, einmal.Setting{Name: "clock", Value: "accept"})
					return next.Purge(ctx, limit)
				}
				return n, err
			},
		},
		{
			name: "a start does not look for a jump", rule: "a start with MaxAge is refused after a jump",
			apply: func(ctx context.Context, next einmal.Store, c einmal.Change) (einmal.Record, error) {
				rec, err := next.Apply(ctx, c)
				if errors.Is(err, einmal.ErrClockJumped) {
					c.Guard.MaxAge = 0
					return next.Apply(ctx, c)
				}
				return rec, err
			},
		},
		{
			name: "settings stay for ever", rule: "a setting written with For",
			settings: func(ctx context.Context, next einmal.Store, set ...einmal.Setting) ([]einmal.Setting, error) {
				set = slices.Clone(set)
				for i := range set {
					set[i].For = 0
				}
				return next.Settings(ctx, set...)
			},
		},
		{
			name: "the epoch stays when the gap is accepted", rule: "a person has taken the lost records on",
			settings: func(ctx context.Context, next einmal.Store, set ...einmal.Setting) ([]einmal.Setting, error) {
				set = slices.DeleteFunc(slices.Clone(set), func(s einmal.Setting) bool { return s.Name == "epoch" && s.Value == "accept" })
				return next.Settings(ctx, set...)
			},
		},
	}
}

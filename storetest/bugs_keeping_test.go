package storetest_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/einmal-dev/einmal"
)

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

package storetest_test

import (
	"context"
	"errors"
	"slices"

	"github.com/einmal-dev/einmal"
)

func bugs() []bug {
	return slices.Concat(writingBugs(), reservingBugs(), storingBugs(), lookingBugs(), timeBugs())
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
	}
}

package storetest_test

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/einmal-dev/einmal"
)

func reservingBugs() []bug {
	return []bug{
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

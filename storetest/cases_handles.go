package storetest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/einmal-dev/einmal"
)

var handleCases = []testCase{
	{
		name: "what was acknowledged outlives the handle",
		rule: "a write is durable when its method returns nil: after the handle is closed, a handle opened later reads it, whatever kind of write it was",
		check: func(e *env) {
			var recs []einmal.Record
			keep := func(rec einmal.Record) { recs = append(recs, rec) }
			keep(e.running())
			rec := e.running()
			keep(e.apply(rec, toUnclear(rec)))
			rec = e.running()
			rec = e.apply(rec, toCompleted(rec, answer("done")))
			keep(rec)
			rec = e.running()
			e.maker.Advance(time.Minute)
			keep(e.apply(rec, renewal(rec)))
			rec = e.running()
			note := evidence(rec)
			note.Attention, note.DueIn = true, window
			noted := e.apply(rec, note)
			keep(noted)
			setting := einmal.Setting{Name: "lasting", Tenant: e.tenant, Value: "1"}
			e.settings(e.a, setting)
			id := e.get(e.a, rec.ID).At.Store
			seq := e.get(e.a, rec.ID).At.Seq
			e.close()
			e.a, e.b = e.open(), e.open()
			for _, rec := range recs {
				e.unchanged("over a handle opened later", rec)
			}
			if n := len(e.timeline(e.a, noted.ID)); n != 1 {
				e.see("the timeline has %d entries, 1 was acknowledged", n)
			}
			if got := find(e.settings(e.a), setting); got == nil || got.Value != "1" {
				e.see("the setting: %s", showSetting(got))
			}
			if at := e.get(e.a, rec.ID).At; at.Store != id || at.Seq < seq {
				e.see("the store was %q at %d and is %q at %d", id, seq, at.Store, at.Seq)
			}
		},
	},
	{
		name: "a closed handle fails and harms nobody",
		rule: "after Close every method of the handle fails with an error, and other handles go on",
		check: func(e *env) {
			rec := e.running()
			closed := e.open()
			e.must(closed.Close(), "Close")
			r := e.request()
			for name, call := range calls(closed, r, rec) {
				if err := call(e.ctx); err == nil {
					e.see("%s worked on a closed handle", name)
				}
			}
			e.noRow("a reservation on a closed handle", r.Identity)
			e.unchanged("after calls on a closed handle", rec)
			e.running()
		},
	},
	{
		name: "closing lets calls under way end",
		rule: "Close lets calls under way end: each of them is either done and acknowledged or an error, and what was acknowledged is there",
		check: func(e *env) {
			const n = 16
			handle := e.open()
			requests := make([]einmal.Reservation, n)
			for i := range requests {
				requests[i] = e.request()
			}
			acknowledged := make([]bool, n)
			e.together(n+1, func(i int) error {
				if i == n {
					return handle.Close()
				}
				_, created, err := handle.Reserve(e.ctx, requests[i])
				acknowledged[i] = err == nil && created
				return nil
			})
			for i, r := range requests {
				rec, err := e.b.Get(e.ctx, einmal.Ref{Identity: r.Identity})
				if acknowledged[i] && (err != nil || rec.Nonce != r.Nonce) {
					e.see("a reservation acknowledged while the handle was closed is not there: %v", err)
				}
			}
		},
	},
	{
		name: "a context that has ended ends the call",
		rule: "a context bounds waiting: a call whose context has ended returns, with the truth or an error, " +
			"and after an error Get and the nonce tell whether the write happened",
		check: func(e *env) {
			rec := e.running()
			ended, cancel := context.WithCancel(e.ctx)
			cancel()
			r := e.request()
			for name, call := range calls(e.a, r, rec) {
				done := make(chan error, 1)
				go func() { done <- guarded(func() error { return call(ended) }) }()
				select {
				case <-done:
				case <-e.ctx.Done():
					e.fail("%s does not return although its context has ended", name)
				}
			}
			after := e.get(e.b, rec.ID)
			e.same("after calls with an ended context", after, rec, changed(rec, calledChange(rec), after.Now))
		},
	},
	{
		name: "after a call that was cut short the nonce tells the truth",
		rule: "a write whose context ends while it waits either happened as a whole, with its nonce, or not at all; one that was acknowledged happened",
		check: func(e *env) {
			const n = 32
			requests := make([]einmal.Reservation, n)
			for i := range requests {
				requests[i] = e.request()
			}
			var mu sync.Mutex
			results := map[int]error{}
			ctx, cancel := context.WithCancel(e.ctx)
			defer cancel()
			e.together(n, func(i int) error {
				if i == n/2 {
					cancel()
				}
				_, created, err := e.handle(i).Reserve(ctx, requests[i])
				if err == nil && !created {
					err = errors.New("not created and no error")
				}
				mu.Lock()
				results[i] = err
				mu.Unlock()
				return nil
			})
			e.close() // calls under way end first
			e.a, e.b = e.open(), e.open()
			for i, r := range requests {
				rec, err := e.a.Get(e.ctx, einmal.Ref{Identity: r.Identity})
				switch {
				case err == nil:
					if rec.Nonce != r.Nonce {
						e.see("the record has the nonce of nobody")
					}
					e.same("a record whose caller had left", rec, reserved(r, rec))
				case !errors.Is(err, einmal.ErrNotFound):
					e.see("Get: %v", err)
				case results[i] == nil:
					e.see("a reservation was acknowledged and is not there")
				}
			}
		},
	},
}

// calledChange is the change among calls.
func calledChange(rec einmal.Record) einmal.Change {
	c := toUnclear(rec)
	c.Nonce = einmal.Nonce{1}
	return c
}

// calls are all methods but Close.
func calls(s einmal.Store, r einmal.Reservation, rec einmal.Record) map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		"Reserve": func(ctx context.Context) error { _, _, err := s.Reserve(ctx, r); return err },
		"Apply":   func(ctx context.Context) error { _, err := s.Apply(ctx, calledChange(rec)); return err },
		"Get":     func(ctx context.Context) error { _, err := s.Get(ctx, einmal.Ref{ID: rec.ID}); return err },
		"Get by identity": func(ctx context.Context) error {
			_, err := s.Get(ctx, einmal.Ref{Identity: rec.Identity})
			return err
		},
		"Timeline": func(ctx context.Context) error { _, err := s.Timeline(ctx, rec.ID); return err },
		"List":     func(ctx context.Context) error { _, _, err := s.List(ctx, einmal.Filter{Limit: 1}); return err },
		"Claim": func(ctx context.Context) error {
			_, err := s.Claim(ctx, einmal.Claim{Operations: []string{rec.Operation + "-none"}, Limit: 1, Lease: lease})
			return err
		},
		"Purge":    func(ctx context.Context) error { _, err := s.Purge(ctx, 1); return err },
		"Settings": func(ctx context.Context) error { _, err := s.Settings(ctx); return err },
	}
}

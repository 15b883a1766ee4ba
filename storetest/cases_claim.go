package storetest

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/einmal-dev/einmal"
)

var claimCases = []testCase{
	{
		name: "what is due is claimed, and only that",
		rule: "Claim returns open records whose due time has come and no others, and puts their due time off by Claim.Lease, growing no version: " +
			"it is the one work queue, and claiming decides nothing about the record",
		check: func(e *env) {
			recs := e.everyState()
			later := e.running()
			e.apply(later, einmal.Change{ID: later.ID, Kind: einmal.Renewal, LeaseFor: 5 * lease})
			claim := einmal.Claim{Operations: []string{e.op}, Limit: 100, Lease: 2 * time.Minute}
			if early, err := e.a.Claim(e.ctx, claim); err != nil || len(early) != 0 {
				e.fail("before anything is due: %d records, error %v", len(early), err)
			}
			e.maker.Advance(20 * time.Minute)
			var want []einmal.ID
			for _, rec := range recs {
				if rec.State.Open() {
					want = append(want, rec.ID)
				}
			}
			claimed, err := e.a.Claim(e.ctx, claim)
			e.must(err, "Claim")
			e.sameIDs("claimed", idsOf(claimed), want)
			for _, rec := range claimed {
				before := recs[slices.IndexFunc(recs, func(r einmal.Record) bool { return r.ID == rec.ID })]
				before.Due = rec.Now.Add(claim.Lease)
				e.same("a claimed record", rec, before)
				e.same("a claimed record read afterwards", e.get(e.b, rec.ID), before)
			}
			if again, err := e.b.Claim(e.ctx, claim); err != nil || len(again) != 0 {
				e.see("claimed records were claimed again at once: %v, error %v", idsOf(again), err)
			}
			e.maker.Advance(claim.Lease + slack)
			again, err := e.b.Claim(e.ctx, claim)
			e.must(err, "Claim")
			e.sameIDs("claimed again after the claim's lease", idsOf(again), want)
		},
	},
	{
		name: "a settled record is never due",
		rule: "a record that is not open is never claimed, whatever due time it once had: nobody recovers what is settled",
		check: func(e *env) {
			for _, settle := range []func(einmal.Record) einmal.Change{
				toNotApplied, func(rec einmal.Record) einmal.Change { return toCompleted(rec, nil) },
			} {
				rec := e.running()
				c := settle(rec)
				c.DueIn = time.Second
				e.apply(rec, c)
			}
			e.maker.Advance(lease + slack)
			claimed, err := e.a.Claim(e.ctx, einmal.Claim{Operations: []string{e.op}, Limit: 10, Lease: lease})
			e.must(err, "Claim")
			if len(claimed) != 0 {
				e.fail("claimed %s", describe(claimed[0]))
			}
			e.maker.Advance(window)
			e.purge()
			claimed, err = e.a.Claim(e.ctx, einmal.Claim{Operations: []string{e.op}, Limit: 10, Lease: lease})
			e.must(err, "Claim")
			if len(claimed) != 0 {
				e.fail("claimed a tombstone: %s", describe(claimed[0]))
			}
		},
	},
	{
		name: "a claim keeps to its operations and its limit",
		rule: "Claim.Operations selects by name, nil all, and Claim.Limit bounds one call; what is left stays due",
		check: func(e *env) {
			var mine, others []einmal.ID
			for i := range 6 {
				r := e.request()
				r.Operation = fmt.Sprintf("%s-%d", e.op, i%3)
				if rec := e.reserve(r); i%3 == 0 {
					others = append(others, rec.ID)
				} else {
					mine = append(mine, rec.ID)
				}
			}
			e.maker.Advance(lease + slack)
			claim := einmal.Claim{Operations: []string{e.op + "-1", e.op + "-2", e.op + "-none"}, Limit: 3, Lease: window}
			first, err := e.a.Claim(e.ctx, claim)
			e.must(err, "Claim")
			second, err := e.b.Claim(e.ctx, claim)
			e.must(err, "Claim")
			if len(first) != 3 || len(second) != 1 {
				e.see("4 due, limit 3: claimed %d and then %d", len(first), len(second))
			}
			e.sameIDs("both claims together", slices.Concat(idsOf(first), idsOf(second)), mine)
			var all []einmal.ID
			for range 1000 {
				claimed, err := e.a.Claim(e.ctx, einmal.Claim{Limit: 100, Lease: window})
				e.must(err, "Claim")
				if len(claimed) == 0 {
					break
				}
				all = append(all, idsOf(claimed)...)
			}
			for _, id := range others {
				if !slices.Contains(all, id) {
					e.see("a claim of all operations left out record %d, which is due", id)
				}
			}
			for _, id := range mine {
				if slices.Contains(all, id) {
					e.see("a claim of all operations returned record %d, which is claimed", id)
				}
			}
		},
	},
	{
		name: "no two claimers get one record",
		rule: "a claimed record is nobody else's until the claim's lease is over, over all handles: two would ask, escalate or run it twice",
		check: func(e *env) {
			var want []einmal.ID
			for range 40 {
				want = append(want, e.running().ID)
			}
			for round := range 4 {
				e.maker.Advance(lease + slack)
				var mu sync.Mutex
				var got []einmal.ID
				e.together(8, func(i int) error {
					for range 10 * len(want) {
						claimed, err := e.handle(i).Claim(e.ctx, einmal.Claim{Operations: []string{e.op}, Limit: 1 + i, Lease: lease})
						if err != nil || len(claimed) == 0 {
							return err
						}
						mu.Lock()
						got = append(got, idsOf(claimed)...)
						mu.Unlock()
					}
					return nil
				})
				e.sameIDs(fmt.Sprintf("round %d, all claims together", round+1), got, want)
			}
		},
	},
}

// sameIDs compares without order.
func (e *env) sameIDs(what string, got, want []einmal.ID) {
	got, want = slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))
	if !slices.Equal(got, want) {
		e.see("%s: records %v, want %v", what, got, want)
	}
}

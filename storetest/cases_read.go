package storetest

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/einmal-dev/einmal"
)

var readCases = []testCase{
	{
		name: "the store's sequence grows with every write",
		rule: "every write to a record gives it a new, higher Seq, and Record.At is the store's position, never below it: " +
			"by that alone a node notices that a store was restored from an older state",
		check: func(e *env) {
			rec := e.running()
			highest := rec.Seq
			first := rec.At
			if first.Store == "" || first.Epoch < 1 || rec.Seq < 1 {
				e.fail("the position is %+v and the record's seq %d: want a store id, and both from 1", first, rec.Seq)
			}
			grew := func(what string, rec einmal.Record, err error) {
				e.must(err, "%s", what)
				switch {
				case rec.Seq <= highest:
					e.fail("%s: seq %d after %d", what, rec.Seq, highest)
				case rec.At.Seq < rec.Seq:
					e.fail("%s: Record.At.Seq %d is below Record.Seq %d", what, rec.At.Seq, rec.Seq)
				case rec.At.Store != first.Store || rec.At.Epoch != first.Epoch:
					e.fail("%s: the store was %+v and is %+v", what, first, rec.At)
				}
				if read := e.get(e.b, rec.ID); read.Seq != rec.Seq || read.At.Seq < rec.Seq {
					e.fail("%s: returned with seq %d and read with seq %d at %d", what, rec.Seq, read.Seq, read.At.Seq)
				}
				highest = rec.Seq
			}
			other, _, err := e.b.Reserve(e.ctx, e.request())
			grew("Reserve", other, err)
			renewed, err := e.a.Apply(e.ctx, renewal(rec))
			grew("a renewal", renewed, err)
			noted, err := e.b.Apply(e.ctx, evidence(rec))
			grew("a note", noted, err)
			unclear, err := e.a.Apply(e.ctx, toUnclear(rec))
			grew("a transition", unclear, err)
			e.maker.Advance(window)
			claimed, err := e.b.Claim(e.ctx, einmal.Claim{Operations: []string{e.op}, Limit: 1, Lease: lease})
			if len(claimed) != 1 {
				e.fail("Claim of a due record: %d records, error %v", len(claimed), err)
			}
			grew("Claim", claimed[0], err)
			completed, err := e.a.Apply(e.ctx, toCompleted(unclear, nil))
			grew("a completion", completed, err)
			e.maker.Advance(slack)
			e.purge()
			grew("Purge", e.get(e.a, completed.ID), nil)
			before := e.get(e.a, other.ID).At.Seq
			e.settings(e.a, einmal.Setting{Name: "something", Tenant: e.tenant, Value: "1"})
			if after := e.get(e.b, other.ID).At.Seq; after <= before {
				e.see("Settings: the position's seq is %d after %d", after, before)
			}
		},
	},
	{
		name: "a list pages through all records in the order of their IDs",
		rule: "List returns every selected record once, ordered by ID, over as many pages as it takes, with the cursor \"\" at the end",
		check: func(e *env) {
			var want []einmal.ID
			for range 7 {
				want = append(want, e.running().ID)
			}
			for _, limit := range []int{1, 2, 3, 6, 7, 8} {
				for i, s := range []einmal.Store{e.a, e.b} {
					got := e.list(s, einmal.Filter{Tenant: &e.tenant, Limit: limit})
					if !slices.Equal(got, want) {
						e.see("handle %d, pages of %d: %v, want %v", i+1, limit, got, want)
					}
				}
			}
		},
	},
	{
		name: "a list's filters select",
		rule: "each part of a Filter that is set selects, and all of them together; zero parts select all: people find what is unclear by it",
		check: func(e *env) {
			recs := e.everyState()
			other := e.request()
			other.Tenant, other.Terms.Owner = e.tenant+"-other", "another@example.com"
			recs = append(recs, e.reserve(other))
			another := e.request()
			another.Operation = e.op + "-another"
			recs = append(recs, e.reserve(another))
			old := len(recs)
			e.maker.Advance(time.Minute)
			flagged := e.running()
			flagged = e.apply(flagged, einmal.Change{ID: flagged.ID, Kind: einmal.Note, Attention: true})
			recs = append(recs, flagged)
			empty, none := "", "tenant that nobody has"
			ours := func(rec einmal.Record) bool { return rec.Tenant == e.tenant }
			for name, try := range map[string]struct {
				filter einmal.Filter
				want   func(einmal.Record) bool
			}{
				"one tenant":         {einmal.Filter{Tenant: &e.tenant}, ours},
				"another tenant":     {einmal.Filter{Tenant: &other.Tenant}, func(rec einmal.Record) bool { return rec.Tenant == other.Tenant }},
				"a tenant of nobody": {einmal.Filter{Tenant: &none}, func(einmal.Record) bool { return false }},
				"the empty tenant":   {einmal.Filter{Tenant: &empty, Operation: e.op}, func(einmal.Record) bool { return false }},
				"one operation":      {einmal.Filter{Operation: e.op}, func(rec einmal.Record) bool { return rec.Operation == e.op }},
				"an operation of a tenant": {
					einmal.Filter{Tenant: &e.tenant, Operation: another.Operation},
					func(rec einmal.Record) bool { return ours(rec) && rec.Operation == another.Operation },
				},
				"an owner": {
					einmal.Filter{Operation: e.op, Owner: "another@example.com"},
					func(rec einmal.Record) bool { return rec.Terms.Owner == "another@example.com" },
				},
				"one state": {
					einmal.Filter{Tenant: &e.tenant, States: []einmal.State{einmal.StateUnclear}},
					func(rec einmal.Record) bool { return ours(rec) && rec.State == einmal.StateUnclear },
				},
				"two states": {
					einmal.Filter{Tenant: &e.tenant, States: []einmal.State{einmal.StateCompleted, einmal.StateAccepted}},
					func(rec einmal.Record) bool {
						return ours(rec) && (rec.State == einmal.StateCompleted || rec.State == einmal.StateAccepted)
					},
				},
				"attention": {
					einmal.Filter{Tenant: &e.tenant, Attention: true},
					func(rec einmal.Record) bool { return rec.ID == flagged.ID },
				},
				"older ones": {
					einmal.Filter{Tenant: &e.tenant, OlderThan: time.Minute - slack},
					func(rec einmal.Record) bool {
						return ours(rec) && slices.IndexFunc(recs, func(r einmal.Record) bool { return r.ID == rec.ID }) < old
					},
				},
				"everything at once": {
					einmal.Filter{
						Tenant: &e.tenant, Operation: e.op, Owner: terms().Owner, States: []einmal.State{einmal.StateRunning}, Attention: true,
					},
					func(rec einmal.Record) bool { return rec.ID == flagged.ID },
				},
			} {
				var want []einmal.ID
				for _, rec := range recs {
					if try.want(rec) {
						want = append(want, rec.ID)
					}
				}
				slices.Sort(want)
				for _, limit := range []int{1, 0} {
					filter := try.filter
					filter.Limit = limit
					if got := e.list(e.b, filter); !slices.Equal(got, want) {
						e.see("%s, pages of %d: %v, want %v", name, limit, got, want)
					}
				}
			}
		},
	},
	{
		name: "a list leaves out the bodies and nothing else",
		rule: "List returns records as they stand without the bodies of results: a page of a thousand records must not be a gigabyte",
		check: func(e *env) {
			rec := e.running()
			unclear := to(rec, einmal.StateUnclear)
			unclear.Ends = []einmal.AttemptEnd{{Attempt: 1, End: einmal.EndRefused, Result: answer("refused")}, {Attempt: 2, End: einmal.EndUnknown}}
			e.apply(rec, unclear)
			rec = e.running()
			e.apply(rec, toCompleted(rec, answer("done")))
			page, _, err := e.b.List(e.ctx, einmal.Filter{Tenant: &e.tenant})
			e.must(err, "List")
			for _, listed := range page {
				want := e.get(e.a, listed.ID)
				strip := func(r *einmal.Result) {
					if r != nil {
						r.Body = nil
					}
				}
				strip(want.Result)
				for i := range want.Ends {
					strip(want.Ends[i].Result)
				}
				e.same("a listed record", listed, want)
				if listed.Seq != want.Seq || listed.Now.IsZero() || listed.At.Store == "" {
					e.see("a listed record has seq %d (want %d), Now %v, At %+v", listed.Seq, want.Seq, listed.Now, listed.At)
				}
			}
		},
	},
	{
		name: "a page holds a hundred records unless told, and never more than a thousand",
		rule: "Filter.Limit 0 is 100 and more than 1000 is 1000: nobody loads a whole store by mistake",
		check: func(e *env) {
			const n = 1001
			requests := make([]einmal.Reservation, n)
			for i := range requests {
				requests[i] = e.request()
			}
			var next atomic.Int64
			e.together(64, func(i int) error {
				for k := next.Add(1) - 1; k < n; k = next.Add(1) - 1 {
					if _, _, err := e.handle(i).Reserve(e.ctx, requests[k]); err != nil {
						return err
					}
				}
				return nil
			})
			for _, try := range []struct{ limit, want int }{{0, 100}, {1000, 1000}, {5000, 1000}} {
				page, cursor, err := e.a.List(e.ctx, einmal.Filter{Tenant: &e.tenant, Limit: try.limit})
				e.must(err, "List")
				if len(page) != try.want || cursor == "" {
					e.see("limit %d: a page of %d with the cursor %q, want %d of the %d and a cursor", try.limit, len(page), cursor, try.want, n)
				}
			}
			if got := e.list(e.b, einmal.Filter{Tenant: &e.tenant, Limit: 5000}); len(got) != n {
				e.see("all pages together: %d records, want %d", len(got), n)
			}
		},
	},
	{
		name: "a list stays whole while records are inserted",
		rule: "records that were there when paging began are returned exactly once, whatever is inserted and changed meanwhile",
		check: func(e *env) {
			var want []einmal.ID
			for range 20 {
				want = append(want, e.running().ID)
			}
			requests := make([]einmal.Reservation, 60)
			for i := range requests {
				requests[i] = e.request()
			}
			var mu sync.Mutex
			var lists [][]einmal.ID
			e.together(4, func(i int) error {
				if i < 2 {
					for k := i; k < len(requests); k += 2 {
						if _, _, err := e.handle(i).Reserve(e.ctx, requests[k]); err != nil {
							return err
						}
					}
					return nil
				}
				for range 5 {
					recs, err := listAll(e.ctx, e.handle(i), einmal.Filter{Tenant: &e.tenant, Limit: 3})
					if err != nil {
						return err
					}
					mu.Lock()
					lists = append(lists, idsOf(recs))
					mu.Unlock()
				}
				return nil
			})
			for _, ids := range lists {
				if len(ids) < len(want) || !slices.Equal(ids[:len(want)], want) || !slices.IsSorted(ids) || len(slices.Compact(slices.Clone(ids))) != len(ids) {
					e.fail("paging while others insert returned %v; the first %d must be %v, and none twice", ids, len(want), want)
				}
			}
		},
	},
	{
		name:  "an unreadable record is told and never guessed",
		needs: damage,
		rule: "a damaged record is ErrUnreadable to Reserve, Get and Apply, listed with the reason \"record unreadable\", and never claimed: " +
			"a guess could execute twice",
		check: func(e *env) {
			r := e.request()
			rec := e.reserve(r)
			whole := e.running()
			e.must(e.maker.Damage(rec.ID), "Maker.Damage")
			e.maker.Advance(lease + slack)
			for i, s := range []einmal.Store{e.a, e.b, e.open()} {
				_, created, err := s.Reserve(e.ctx, r)
				e.isError(fmt.Sprintf("handle %d: Reserve (created %t)", i+1, created), err, einmal.ErrUnreadable)
				_, err = s.Get(e.ctx, einmal.Ref{ID: rec.ID})
				e.isError("Get by ID", err, einmal.ErrUnreadable)
				_, err = s.Get(e.ctx, einmal.Ref{Identity: r.Identity})
				e.isError("Get by identity", err, einmal.ErrUnreadable)
				_, err = s.Apply(e.ctx, einmal.Change{ID: rec.ID, Kind: einmal.Note, Attention: true})
				e.isError("Apply", err, einmal.ErrUnreadable)
				page, err := listAll(e.ctx, s, einmal.Filter{})
				e.must(err, "List")
				at := slices.IndexFunc(page, func(listed einmal.Record) bool { return listed.ID == rec.ID })
				if at < 0 || page[at].Reason != "record unreadable" {
					e.see("the damaged record is not listed with the reason %q", "record unreadable")
				}
			}
			claimed, err := e.a.Claim(e.ctx, einmal.Claim{Operations: []string{e.op}, Limit: 10, Lease: lease})
			e.must(err, "Claim")
			if len(claimed) != 1 || claimed[0].ID != whole.ID {
				e.see("Claim of a damaged and a whole record that are due returned %d records", len(claimed))
			}
		},
	},
}

// everyState makes one record in each state that can be written.
func (e *env) everyState() []einmal.Record {
	recs := []einmal.Record{e.running()}
	for _, by := range []func(einmal.Record) einmal.Change{
		toUnclear, toNotApplied,
		func(rec einmal.Record) einmal.Change { return to(rec, einmal.StateAccepted) },
		func(rec einmal.Record) einmal.Change { return toCompleted(rec, answer("done")) },
	} {
		rec := e.running()
		recs = append(recs, e.apply(rec, by(rec)))
	}
	return recs
}

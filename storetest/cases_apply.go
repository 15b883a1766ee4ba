package storetest

import (
	"fmt"
	"time"

	"github.com/einmal-dev/einmal"
)

var applyCases = []testCase{
	{
		name: "every part of a guard counts, alone and combined",
		rule: "every part of a Guard that is set must hold, checked in the same atomic step as the write; a change whose guard does not hold gets a *StaleError " +
			"with the record as it is and writes nothing, no timeline entry either: guards are all that keeps two writers apart",
		check: func(e *env) {
			parts := guardParts()
			for held := range 1 << len(parts) {
				rec := e.running()
				rec = e.apply(rec, toUnclear(rec))
				rec = e.apply(rec, toRunning(rec)) // attempt 2, version 3
				e.maker.Advance(time.Minute)
				guard := einmal.Guard{}
				for i, part := range parts {
					if held&(1<<i) != 0 {
						part.hold(&guard, rec)
					}
				}
				for i, part := range parts {
					broken := guard
					part.fail(&broken, rec)
					c := toCompleted(rec, answer("refused"))
					c.Guard, c.Entry = broken, entry(rec, einmal.EventEvidence)
					before := e.get(e.a, rec.ID)
					_, err := e.handle(i).Apply(e.ctx, c)
					e.isStale("a change with a wrong "+part.name, rec, c, err)
					if after := e.get(e.b, rec.ID); after.Seq != before.Seq || after.Version != rec.Version {
						e.fail("a stale change was written: seq %d, then %d", before.Seq, after.Seq)
					}
				}
				if entries := e.timeline(e.b, rec.ID); len(entries) != 0 {
					e.fail("stale changes left %d timeline entries", len(entries))
				}
				c := toCompleted(rec, answer("applied"))
				c.Guard = guard
				e.apply(rec, c)
			}
		},
	},
	{
		name: "a lost lease is not revived",
		rule: "a lost lease must not be revived: Guard.LeaseHeld holds only while the lease is not over by the store's clock, however late the renewal was sent; " +
			"recovery may already have told the client that the outcome is unclear",
		check: func(e *env) {
			rec := e.running()
			e.maker.Advance(lease - 2*slack)
			c := renewal(rec)
			rec = e.apply(rec, c)
			e.maker.Advance(lease + 2*slack)
			_, err := e.b.Apply(e.ctx, c)
			e.isStale("a renewal after the lease was over", rec, c, err)
		},
	},
	{
		name: "a held lease is not taken over",
		rule: "Guard.LeaseLapsed holds only when the record is running and its lease is over by the store's clock: a renewed attempt is alive",
		check: func(e *env) {
			rec := e.running()
			lapse := toUnclear(rec)
			lapse.Guard.LeaseLapsed = true
			_, err := e.a.Apply(e.ctx, lapse)
			e.isStale("a takeover while the lease is held", rec, lapse, err)
			e.maker.Advance(lease - time.Minute)
			rec = e.apply(rec, renewal(rec))
			e.maker.Advance(2 * time.Minute)
			_, err = e.b.Apply(e.ctx, lapse)
			e.isStale("a takeover after a renewal", rec, lapse, err)
			e.maker.Advance(lease)
			rec = e.apply(rec, lapse)
			lapse = to(rec, einmal.StateUnclear)
			lapse.Guard.LeaseLapsed = true
			_, err = e.a.Apply(e.ctx, lapse)
			e.isStale("a takeover of a record that does not run", rec, lapse, err)
		},
	},
	{
		name: "the age of a record counts from its first reservation",
		rule: "Guard.MaxAge is held against Created, which no later attempt moves: the partner forgets the key so long after it first saw it",
		check: func(e *env) {
			rec := e.running()
			e.maker.Advance(lease + time.Minute)
			rec = e.apply(rec, toUnclear(rec))
			rec = e.apply(rec, toRunning(rec))
			c := toCompleted(rec, nil)
			c.Guard.MaxAge = lease
			_, err := e.a.Apply(e.ctx, c)
			e.isStale("a change of a record older than MaxAge", rec, c, err)
			c.Guard.MaxAge = lease + 2*time.Minute
			e.apply(rec, c)
		},
	},
	{
		name: "a transition writes its own fields and no others",
		rule: "a Transition writes State, Attempt, Ends, Verdict, Result, Reason, Attention and Nonce, and Changed; grows the version by one; uses LeaseFor, DueIn " +
			"and Recognise where they are not 0; takes the lease from what does not run and the due time from what is not open; restarts Escalations in another state",
		check: func(e *env) {
			rec := e.running()
			step := func(c einmal.Change) {
				e.maker.Advance(time.Minute)
				rec = e.apply(rec, c)
			}
			step(toUnclear(rec))
			step(einmal.Change{ID: rec.ID, Kind: einmal.Note, DueIn: time.Hour, Attention: true})

			same := to(rec, einmal.StateUnclear) // keeps due time, attention and escalations
			same.Reason, same.Nonce = "", einmal.Nonce{}
			step(same)

			again := toRunning(rec)
			again.Attention = false
			again.Recognise = 3 * window
			step(again)

			sooner := to(rec, einmal.StateRunning) // an earlier attempt's end: no lease, no due time, a shorter window
			sooner.Ends = withEnd(rec, einmal.AttemptEnd{Attempt: 1, End: einmal.EndOpen})
			sooner.Recognise = window
			step(sooner)

			shorter := to(rec, einmal.StateRunning)
			shorter.LeaseFor, shorter.DueIn = 2*time.Minute, time.Minute
			step(shorter)

			accepted := to(rec, einmal.StateAccepted)
			accepted.Attention = true
			step(accepted)
			step(toNotApplied(rec))
			step(toRunning(rec))

			done := toCompleted(rec, answer("done"))
			done.Recognise, done.LeaseFor, done.DueIn, done.Attention = keep, time.Hour, time.Hour, true
			done.Reason = "why"
			step(done)
		},
	},
	{
		name: "a renewal moves lease and due time and nothing else",
		rule: "a Renewal sets lease and due time to LeaseFor from now, forwards or backwards, and nothing else: not the version, which others are guarded by, " +
			"nor Changed, nonce or window",
		check: func(e *env) {
			rec := e.running()
			for _, d := range []time.Duration{lease, 5 * lease, lease / 2, lease / 2} {
				e.maker.Advance(time.Minute)
				c := renewal(rec)
				c.LeaseFor = d
				// None of these is a renewal's business.
				c.State, c.Attempt, c.Result, c.Verdict, c.Reason = einmal.StateCompleted, 9, answer("no"), einmal.VerdictApplied, "no"
				c.Nonce, c.Attention, c.Recognise, c.DueIn = nonce(), true, 9*window, 9*lease
				rec = e.apply(rec, c)
			}
		},
	},
	{
		name: "a note does not grow the version",
		rule: "a Note adds its timeline entry; with DueIn it sets the due time and adds one to Escalations, with Attention it raises the flag, and it touches " +
			"nothing else: an escalation must not make a person's resolution stale",
		check: func(e *env) {
			rec := e.running()
			rec = e.apply(rec, toUnclear(rec))
			version := rec.Version
			for _, c := range []einmal.Change{
				{Entry: entry(rec, einmal.EventEvidence)},
				{DueIn: time.Hour},
				{Attention: true, Entry: entry(rec, einmal.EventEscalated)},
				{DueIn: 2 * time.Hour, Entry: entry(rec, einmal.EventEscalated)}, // the flag stays
				{
					State: einmal.StateCompleted, Attempt: 7, Result: answer("no"), Verdict: einmal.VerdictApplied, Reason: "no", Nonce: nonce(),
					LeaseFor: lease, Recognise: 9 * window,
				},
			} {
				e.maker.Advance(time.Minute)
				c.ID, c.Kind, c.Guard = rec.ID, einmal.Note, einmal.Guard{State: einmal.StateUnclear, Version: version}
				rec = e.apply(rec, c)
			}
			if n := len(e.timeline(e.a, rec.ID)); n != 3 {
				e.fail("3 notes with an entry left %d in the timeline", n)
			}
			resolved := toCompleted(rec, nil)
			resolved.Guard = einmal.Guard{State: einmal.StateUnclear, Version: version}
			rec = e.apply(rec, resolved)
			e.apply(rec, evidence(rec))
		},
	},
	{
		name: "timeline entries commit with their change and keep their order",
		rule: "a change's Entry is stored with it, dated by the store, and returned oldest first; an ordinary transition stores none: " +
			"the timeline is what people judge an unclear outcome by",
		check: func(e *env) {
			rec, other := e.running(), e.running()
			var want []einmal.Entry
			for i := range 12 {
				e.maker.Advance(time.Minute)
				rec = e.get(e.a, rec.ID)
				c := evidence(rec)
				c.Entry.Reason = fmt.Sprintf("reason %d: ü, \x00, %s", i, "long "+string(make([]byte, 300*i)))
				c.Entry.From, c.Entry.To = einmal.States[i%len(einmal.States)], einmal.States[(i+1)%len(einmal.States)]
				c.Entry.Attempt, c.Entry.Actor, c.Entry.Link = i, einmal.Actor(i%4), fmt.Sprintf("https://example.com/%d", i)
				if i%3 == 0 {
					c.Entry.From, c.Entry.By, c.Entry.Link, c.Entry.Reason = 0, "", "", ""
				}
				c.Entry.At = rec.Now.Add(-100 * time.Hour) // the store's to set
				entry := *c.Entry
				rec, err := e.handle(i).Apply(e.ctx, c)
				e.must(err, "Apply")
				entry.At = rec.Now
				want = append(want, entry)
			}
			rec = e.apply(rec, toUnclear(rec))
			for i, s := range []einmal.Store{e.a, e.b, e.open()} {
				got := e.timeline(s, rec.ID)
				if len(got) != len(want) {
					e.fail("handle %d: %d entries, want %d", i+1, len(got), len(want))
				}
				for k := range got {
					e.equal(fmt.Sprintf("entry %d", k), got[k], want[k])
				}
			}
			if n := len(e.timeline(e.a, other.ID)); n != 0 {
				e.fail("another record's timeline has %d entries", n)
			}
		},
	},
	{
		name: "a record that is not there is not found",
		rule: "Apply, Get and Timeline of an unknown ID or identity are ErrNotFound",
		check: func(e *env) {
			unknown := e.running()
			unknown.ID += 1_000_000
			unknown.Key = "another"
			_, err := e.a.Apply(e.ctx, toCompleted(unknown, nil))
			e.isError("Apply", err, einmal.ErrNotFound)
			_, err = e.a.Get(e.ctx, einmal.Ref{ID: unknown.ID})
			e.isError("Get by ID", err, einmal.ErrNotFound)
			_, err = e.a.Get(e.ctx, einmal.Ref{Identity: unknown.Identity})
			e.isError("Get by identity", err, einmal.ErrNotFound)
			_, err = e.a.Timeline(e.ctx, unknown.ID)
			e.isError("Timeline", err, einmal.ErrNotFound)
		},
	},
	{
		name: "a start is refused by a restored store",
		rule: "a change with Guard.Start is ErrRestored when the node has seen more than the store knows; a change without goes through: " +
			"what is known must be recorded, nothing new may begin",
		check: func(e *env) {
			rec := e.running()
			rec = e.apply(rec, toNotApplied(rec))
			at := e.get(e.a, rec.ID).At
			for _, seen := range []einmal.Position{
				{Store: at.Store, Epoch: at.Epoch, Seq: at.Seq + 1000},
				{Store: at.Store, Epoch: at.Epoch + 1},
				{Store: at.Store + "-another", Epoch: at.Epoch},
			} {
				c := toRunning(rec)
				c.Seen = seen
				_, err := e.a.Apply(e.ctx, c)
				e.isError(fmt.Sprintf("a start by a node that has seen %+v of %+v", seen, at), err, einmal.ErrRestored)
				e.unchanged("after the refused start", rec)
				note := evidence(rec)
				note.Seen = seen
				rec = e.apply(rec, note)
			}
			c := toRunning(rec)
			c.Seen = e.get(e.a, rec.ID).At
			rec = e.apply(rec, c)
			done := toCompleted(rec, answer("done"))
			done.Seen = einmal.Position{Store: at.Store, Epoch: at.Epoch, Seq: at.Seq + 1000}
			e.apply(rec, done)
		},
	},
	{
		name: "a start is refused over the tenant's limits",
		rule: "a change with Guard.Start is ErrTooManyOpen while its Limits are reached, as a reservation is: they bound what runs, however it begins; " +
			"other changes have no limits",
		check: func(e *env) {
			waiting := e.running()
			waiting = e.apply(waiting, toNotApplied(waiting))
			running := e.running()
			start := toRunning(waiting)
			start.Limits = einmal.Limits{Open: 1}
			_, err := e.a.Apply(e.ctx, start)
			e.isError("a start over the limit", err, einmal.ErrTooManyOpen)
			e.unchanged("after the refused start", waiting)
			done := toCompleted(running, answer("done"))
			done.Limits = start.Limits
			e.apply(running, done)
			e.apply(waiting, start)
		},
	},
	{
		name: "a start is refused while paused",
		rule: "a change with Guard.Start is ErrStorePaused while a pause covers it; completions, renewals, takeovers and notes go through: " +
			"pausing stops what would begin and never the clearing up",
		check: func(e *env) {
			waiting := e.running()
			waiting = e.apply(waiting, toNotApplied(waiting))
			running, lapsing := e.running(), e.running()
			pause := einmal.Setting{Name: "pause", Tenant: e.tenant, Operation: e.op}
			e.settings(e.b, pause)
			_, err := e.a.Apply(e.ctx, toRunning(waiting))
			e.isError("a start while paused", err, einmal.ErrStorePaused)
			e.unchanged("after the refused start", waiting)
			waiting = e.apply(waiting, evidence(waiting))
			running = e.apply(running, renewal(running))
			e.apply(running, toCompleted(running, answer("done")))
			e.apply(lapsing, toUnclear(lapsing))
			pause.Delete = true
			e.settings(e.b, pause)
			e.apply(waiting, toRunning(waiting))
		},
	},
}

type guardPart struct {
	name string
	hold func(*einmal.Guard, einmal.Record)
	fail func(*einmal.Guard, einmal.Record)
}

// guardParts are those of a running record whose lease is held.
func guardParts() []guardPart {
	return []guardPart{
		{
			"state",
			func(g *einmal.Guard, rec einmal.Record) { g.State = rec.State },
			func(g *einmal.Guard, _ einmal.Record) { g.State = einmal.StateUnclear },
		},
		{
			"attempt",
			func(g *einmal.Guard, rec einmal.Record) { g.Attempt = rec.Attempt },
			func(g *einmal.Guard, rec einmal.Record) { g.Attempt = rec.Attempt - 1 },
		},
		{
			"version",
			func(g *einmal.Guard, rec einmal.Record) { g.Version = rec.Version },
			func(g *einmal.Guard, rec einmal.Record) { g.Version = rec.Version - 1 },
		},
		{
			"lease",
			func(g *einmal.Guard, _ einmal.Record) { g.LeaseHeld = true },
			func(g *einmal.Guard, _ einmal.Record) { g.LeaseLapsed = true },
		},
		{
			"age",
			func(g *einmal.Guard, _ einmal.Record) { g.MaxAge = time.Hour },
			func(g *einmal.Guard, _ einmal.Record) { g.MaxAge = 30 * time.Second },
		},
	}
}

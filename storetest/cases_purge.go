package storetest

import (
	"fmt"
	"time"

	"github.com/einmal-dev/einmal"
)

var purgeCases = []testCase{
	{
		name: "an open record is never purged",
		rule: "Purge never touches an open record, however old: running, accepted and unclear ones stay until somebody settles them, " +
			"or an operation whose outcome nobody knows would be forgotten and run again",
		check: func(e *env) {
			var open []einmal.Record
			for _, rec := range e.everyState() {
				if rec.State.Open() {
					open = append(open, rec)
				}
			}
			for range 3 {
				e.maker.Advance(window + tombstone)
				e.purge()
			}
			for _, rec := range open {
				e.unchanged(fmt.Sprintf("a record that is %v, after Purge", rec.State), rec)
			}
		},
	},
	{
		name: "a settled record is kept until its window is over",
		rule: "until RecognisedUntil a completed or not applied record stays with its result: every retry inside the window gets the recorded outcome",
		check: func(e *env) {
			e.purge()
			var settled []einmal.Record
			for _, rec := range e.everyState() {
				if !rec.State.Open() {
					settled = append(settled, rec)
				}
			}
			e.maker.Advance(window - 2*slack)
			e.purge()
			for _, rec := range settled {
				e.unchanged("inside the window, after Purge", rec)
			}
		},
	},
	{
		name: "what is over its window becomes a tombstone",
		rule: "Purge expires a completed or not applied record whose window is over: the state is expired, the answers are gone, the version has grown, and " +
			"fingerprint, principal, verdict and the rest stay, so that the key is still recognised and its reuse refused",
		check: func(e *env) {
			var settled []einmal.Record
			for _, rec := range e.everyState() {
				if !rec.State.Open() {
					settled = append(settled, rec)
				}
			}
			refused := e.running()
			c := toCompleted(refused, answer("refused"))
			c.Verdict = einmal.VerdictRefused
			c.Ends = []einmal.AttemptEnd{{Attempt: 1, End: einmal.EndRefused, Result: answer("refused")}}
			c.Entry = entry(refused, einmal.EventCompleted)
			settled = append(settled, e.apply(refused, c))
			withdrawn := e.running()
			c = toCompleted(withdrawn, nil)
			c.Verdict = einmal.VerdictWithdrawn
			settled = append(settled, e.apply(withdrawn, c))
			e.maker.Advance(window + slack)
			e.purge()
			for _, rec := range settled {
				got := e.get(e.b, rec.ID)
				e.withoutAnswers(got)
				got.Ends, rec.Ends = nil, nil // a tombstone may keep the ends or not
				e.same(fmt.Sprintf("the tombstone of a record that was %v", rec.State), got, expired(rec, got.Now))
			}
			if n := len(e.timeline(e.b, refused.ID)); n != 1 {
				e.see("the timeline of a tombstone has %d entries, and 1 was stored", n)
			}
		},
	},
	{
		name: "a tombstone is deleted when its time is over",
		rule: "Purge deletes an expired record when Terms.Tombstone after RecognisedUntil is over, not before, with its timeline: " +
			"then the key is new again, and the attempt numbers and the ID are not the old ones' continuation",
		check: func(e *env) {
			r := e.request()
			rec := e.reserve(r)
			c := toCompleted(rec, answer("done"))
			c.Entry = entry(rec, einmal.EventCompleted)
			e.apply(rec, c)
			const late = 30 * time.Minute // nobody purged for so long: the tombstone's time counts from the window's end all the same
			e.maker.Advance(window + late)
			e.purge()
			tomb := e.get(e.a, rec.ID)
			tomb = e.apply(tomb, evidence(tomb))
			e.maker.Advance(tombstone - late - 2*slack)
			e.purge()
			e.unchanged("before the tombstone's time is over", tomb)
			e.maker.Advance(4 * slack)
			e.purge()
			_, err := e.b.Get(e.ctx, einmal.Ref{ID: rec.ID})
			e.isError("Get of a deleted record", err, einmal.ErrNotFound)
			_, err = e.b.Timeline(e.ctx, rec.ID)
			e.isError("Timeline of a deleted record", err, einmal.ErrNotFound)
			_, err = e.b.Apply(e.ctx, evidence(tomb))
			e.isError("Apply to a deleted record", err, einmal.ErrNotFound)
			e.noRow("a deleted record", r.Identity)
			anew := e.reserve(r)
			if anew.ID <= rec.ID {
				e.see("the new record has ID %d, the deleted one had %d", anew.ID, rec.ID)
			}
			if n := len(e.timeline(e.b, anew.ID)); n != 0 {
				e.see("the new record has %d timeline entries of the deleted one", n)
			}
		},
	},
	{
		name: "a result is kept for its minimum after completion",
		rule: "Change.Recognise extends RecognisedUntil to at least so long from now, and never shortens it: " +
			"an answer that comes at the window's end can still be fetched",
		check: func(e *env) {
			rec := e.running()
			e.maker.Advance(window - time.Minute)
			c := toCompleted(rec, answer("late"))
			c.Recognise = keep
			late := e.apply(rec, c)
			e.maker.Advance(keep - 2*slack)
			e.purge()
			e.unchanged("inside the minimum after completion", late)
			e.maker.Advance(4 * slack)
			e.purge()
			if got := e.get(e.b, late.ID); got.State != einmal.StateExpired {
				e.see("after the minimum the record is %v", got.State)
			}

			rec = e.running()
			c = toCompleted(rec, answer("early"))
			c.Recognise = keep
			early := e.apply(rec, c)
			e.maker.Advance(keep + slack)
			e.purge()
			e.unchanged("inside the window, when the minimum after completion is over", early)
		},
	},
	{
		name: "one purge touches no more than its limit",
		rule: "Purge expires up to limit records and deletes up to limit others, tells how many it touched, and goes on with the next call: " +
			"a long purge would hold up every writer",
		check: func(e *env) {
			for range 3 { // what other cases left
				e.maker.Advance(window + tombstone)
				e.purge()
			}
			const n = 7
			left := map[einmal.ID]bool{}
			for range n {
				rec := e.running()
				e.apply(rec, toCompleted(rec, answer("done")))
				left[rec.ID] = true
			}
			gone := func(is func(einmal.ID) bool) (count int) {
				for id := range left {
					if is(id) {
						count++
					}
				}
				return count
			}
			for _, round := range []struct {
				after time.Duration
				is    func(einmal.ID) bool
			}{
				{window + slack, func(id einmal.ID) bool { return e.get(e.b, id).State == einmal.StateExpired }},
				{tombstone, func(id einmal.ID) bool { _, err := e.b.Get(e.ctx, einmal.Ref{ID: id}); return err != nil }},
			} {
				e.maker.Advance(round.after)
				for done := 0; done < n; {
					touched, err := e.a.Purge(e.ctx, 3)
					e.must(err, "Purge")
					now := gone(round.is)
					if want := min(3, n-done); touched != want || now-done != want {
						e.fail("Purge(3) with %d left: says it touched %d, and %d were: want %d", n-done, touched, now-done, want)
					}
					done = now
				}
				if touched, err := e.a.Purge(e.ctx, 3); err != nil || touched != 0 {
					e.fail("Purge with nothing left: touched %d, error %v", touched, err)
				}
			}
		},
	},
}

// withoutAnswers checks that a tombstone holds no answer.
func (e *env) withoutAnswers(tomb einmal.Record) {
	for _, end := range tomb.Ends {
		if end.Result != nil {
			e.see("the tombstone still holds the answer of attempt %d", end.Attempt)
		}
	}
}

package storetest

import (
	"errors"
	"time"

	"github.com/einmal-dev/einmal"
)

// clockCases set the storage's clock and put it right again. They come last.
var clockCases = []testCase{
	{
		name:  "the store's time never goes back behind its mark",
		rule:  "instants are never below the persisted high-water mark, which Purge moves: a clock that is set back a little must not bring a lease back to life",
		needs: jump,
		check: func(e *env) {
			rec := e.running()
			e.maker.Advance(lease - time.Minute)
			e.purge()
			mark := e.get(e.a, rec.ID).Now
			e.maker.Jump(-3 * time.Minute)
			defer e.accept()
			defer e.maker.Jump(3 * time.Minute)
			for i, s := range []einmal.Store{e.a, e.b, e.open()} {
				if now := e.get(s, rec.ID).Now; now.Before(mark.Add(-time.Second)) {
					e.see("handle %d: the clock was set back by 3m and Now is %v, below the mark by %v", i+1, now, mark.Sub(now))
				}
			}
			if _, err := e.a.Purge(e.ctx, 1); err != nil {
				e.see("a step back by 3m is no jump, and Purge says: %v", err)
			}
		},
	},
	{
		name:  "after a jump of the clock nothing is purged or re-run until it is accepted",
		needs: jump,
		rule: "a live handle sees a step of more than einmal.MaxClockStep that the monotonic reading does not share: Purge and starts with MaxAge are " +
			"ErrClockJumped over every handle until \"clock\" is accepted, since a wrong clock would forget keys and repeat effects",
		check: func(e *env) {
			for _, step := range []time.Duration{einmal.MaxClockStep + time.Minute, -einmal.MaxClockStep - time.Minute, 1000 * time.Hour, -1000 * time.Hour} {
				e.jumped(step)
			}
		},
	},
	{
		name:  "a start is the first to notice a jump",
		rule:  "a start with MaxAge is refused after a jump, even when no Purge has noticed it yet",
		needs: jump,
		check: func(e *env) {
			rec := e.running()
			rec = e.apply(rec, toUnclear(rec))
			e.touch()
			e.maker.Jump(time.Hour)
			defer e.accept()
			defer e.maker.Jump(-time.Hour)
			c := toRunning(rec)
			c.Guard.MaxAge = 2000 * time.Hour
			_, err := e.a.Apply(e.ctx, c)
			e.isError("a start with MaxAge right after a jump", err, einmal.ErrClockJumped)
		},
	},
	{
		name:  "a small step of the clock is no jump",
		rule:  "a step within einmal.MaxClockStep is what clocks do, and does not stop purging",
		needs: jump,
		check: func(e *env) {
			e.touch()
			defer e.accept()
			for _, step := range []time.Duration{4 * time.Minute, -4 * time.Minute} {
				e.maker.Jump(step)
				if _, err := e.a.Purge(e.ctx, 1); err != nil {
					e.see("a step of %v: %v", step, err)
				}
				if _, err := e.b.Purge(e.ctx, 1); err != nil {
					e.see("a step of %v, the other handle: %v", step, err)
				}
			}
		},
	},
	{
		name: "time that passes is no jump",
		rule: "hours that pass while a handle is open, by its monotonic reading too, are no jump: a quiet week must not stop purging",
		check: func(e *env) {
			e.touch()
			e.maker.Advance(7 * 24 * time.Hour)
			for i, s := range []einmal.Store{e.a, e.b} {
				if _, err := s.Purge(e.ctx, 1); err != nil {
					e.fail("handle %d after a week: %v", i+1, err)
				}
			}
		},
	},
	{
		name:  "a fresh handle takes a day's absence and no more",
		needs: jump,
		rule: "a handle that was just opened has only the persisted mark: up to einmal.MaxClockStepFresh after it is a night switched off, more is a jump, " +
			"and so is more than einmal.MaxClockStep before it",
		check: func(e *env) {
			defer e.accept()
			for _, absence := range []struct {
				of     time.Duration
				jumped bool
			}{
				{einmal.MaxClockStepFresh - time.Hour, false},
				{einmal.MaxClockStepFresh + time.Hour, true},
				{-4 * time.Minute, false},
				{-einmal.MaxClockStep - time.Minute, true},
			} {
				e.accept()
				e.close()
				e.maker.Jump(absence.of)
				e.a = e.open()
				_, err := e.a.Purge(e.ctx, 1)
				if absence.jumped != errors.Is(err, einmal.ErrClockJumped) || !absence.jumped && err != nil {
					e.see("%v after the mark: Purge says %v", absence.of, err)
				}
			}
		},
	},
	{
		name:  "a jump does not move the mark",
		rule:  "time that a jumped clock shows is not believed: the mark stays where it was, and once the clock is right again so is the store's time",
		needs: jump,
		check: func(e *env) {
			rec := e.running()
			e.touch()
			e.maker.Jump(100 * time.Hour)
			defer e.accept()
			for _, s := range []einmal.Store{e.a, e.b} {
				if _, err := s.Purge(e.ctx, 1); !errors.Is(err, einmal.ErrClockJumped) {
					e.see("after a jump of 100h Purge says %v", err)
				}
			}
			e.maker.Jump(-100 * time.Hour)
			right := func(when string) {
				for _, s := range e.handles() {
					if now := e.get(s, rec.ID).Now; now.Sub(rec.Now).Abs() > slack {
						e.see("the clock jumped by 100h and back, and %s Now is off by %v", when, now.Sub(rec.Now))
					}
				}
			}
			e.open()
			right("before it is accepted")
			e.accept()
			right("after it was accepted")
		},
	},
	{
		name: "accepting the epoch accepts the gap",
		rule: "after \"epoch\" is accepted nodes that had seen more of the old epoch may start again, and those that saw the new epoch are held to it: " +
			"a person has taken the lost records on",
		check: func(e *env) {
			before := e.running().At
			ahead := einmal.Position{Store: before.Store, Epoch: before.Epoch, Seq: before.Seq + 1000}
			r := e.request()
			r.Seen = ahead
			_, _, err := e.a.Reserve(e.ctx, r)
			e.isError("Reserve before the gap is accepted", err, einmal.ErrRestored)
			e.settings(e.b, einmal.Setting{Name: "epoch", Value: "accept"})
			rec := e.reserve(r)
			if rec.At.Epoch != before.Epoch+1 || rec.At.Store != before.Store || rec.At.Seq <= before.Seq {
				e.fail("the position was %+v and is %+v: want the epoch one higher, the same store, and a growing seq", before, rec.At)
			}
			if at := e.get(e.open(), rec.ID).At; at.Epoch != rec.At.Epoch {
				e.see("a new handle says epoch %d", at.Epoch)
			}
			r = e.request()
			r.Seen = einmal.Position{Store: before.Store, Epoch: rec.At.Epoch, Seq: rec.At.Seq + 1000}
			_, _, err = e.a.Reserve(e.ctx, r)
			e.isError("Reserve by a node that has seen more of the new epoch", err, einmal.ErrRestored)
			rec = e.apply(rec, toNotApplied(rec))
			c := toRunning(rec)
			c.Seen = ahead
			e.apply(rec, c)
		},
	},
}

// touch makes both handles live: they have read the clock.
func (e *env) touch() {
	for _, s := range []einmal.Store{e.a, e.b} {
		_, err := s.Purge(e.ctx, 1)
		e.must(err, "Purge")
	}
}

// accept lets every handle notice a jump and then accepts the clock.
func (e *env) accept() {
	for _, s := range e.handles() {
		_, _ = s.Purge(e.ctx, 1)
	}
	e.settings(e.handles()[0], einmal.Setting{Name: "clock", Value: "accept"})
	for _, s := range e.handles() {
		if _, err := s.Purge(e.ctx, 1); err != nil {
			e.see("Purge after the clock was accepted: %v", err)
		}
	}
}

// jumped lets the clock jump, and looks at what must stop and what must go on until it is accepted.
func (e *env) jumped(step time.Duration) {
	settled, unclear := e.running(), e.running()
	settled = e.apply(settled, toNotApplied(settled))
	unclear = e.apply(unclear, toUnclear(unclear))
	e.touch()
	e.maker.Advance(window + slack)
	completing, renewing, restarting := e.running(), e.running(), e.running()
	restarting = e.apply(restarting, toNotApplied(restarting))
	e.maker.Jump(step)
	defer e.accept()
	defer e.maker.Jump(-step)

	rerun := toRunning(unclear)
	rerun.Guard.MaxAge = 3000 * time.Hour
	refused := func(when string, s einmal.Store) {
		_, err := s.Purge(e.ctx, 10)
		e.isError(when+": Purge", err, einmal.ErrClockJumped)
		_, err = s.Apply(e.ctx, rerun)
		e.isError(when+": a start with MaxAge", err, einmal.ErrClockJumped)
		if got := find(e.settings(s), einmal.Setting{Name: "clock"}); got == nil || got.Value != "jumped" {
			e.see("%s: the setting is %s", when, showSetting(got))
		}
	}
	refused("after a jump", e.a)
	refused("over the other handle", e.b)
	refused("the second time", e.a)
	refused("over a new handle", e.open())
	e.unchanged("a record whose window is over, after a jump", settled)

	_, created, err := e.a.Reserve(e.ctx, e.request())
	e.must(err, "Reserve after a jump (created %t)", created)
	_, err = e.a.Apply(e.ctx, toCompleted(completing, answer("done")))
	e.must(err, "a completion after a jump")
	renew := renewal(renewing)
	renew.Guard.LeaseHeld = false // by the new clock it may be over
	_, err = e.b.Apply(e.ctx, renew)
	e.must(err, "a renewal after a jump")
	_, err = e.b.Apply(e.ctx, toRunning(restarting))
	e.must(err, "a start without MaxAge after a jump")

	e.accept()
	if got := find(e.settings(e.b), einmal.Setting{Name: "clock"}); got == nil || got.Value != "ok" {
		e.see("after it was accepted: %s", showSetting(got))
	}
	_, err = e.b.Apply(e.ctx, rerun)
	e.must(err, "a start with MaxAge after the clock was accepted")
}

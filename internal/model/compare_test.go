package model_test

import (
	"errors"
	"fmt"
	"strings"

	"github.com/einmal-dev/einmal"
	"github.com/einmal-dev/einmal/contract"
	"github.com/einmal-dev/einmal/internal/model"
)

// told compares what a caller got with what the model says; of is the caller's own attempt, 0 for a duplicate.
func told(e *model.Edge, h heard, of uint8) error {
	fail := func() error {
		op := &h.out.Operation
		return fmt.Errorf("the caller got own %v, state %v %v, result %+v, error %v", h.out.Own, op.State, op.Verdict, op.Result, h.err)
	}
	var p *einmal.Problem
	switch {
	case errors.As(h.err, &p):
		kinds := map[model.Tell]contract.Kind{
			model.InProgress: contract.InProgress, model.IsUnclear: contract.OutcomeUnclear, model.KeyExpired: contract.KeyExpired,
			model.NothingDone: contract.InProgress, model.TheAnswer: contract.Withdrawn,
		}
		if p.Kind != kinds[e.Tell] || e.Tell == model.TheAnswer && e.Answer.Verdict != model.Withdrawn || e.Tell == model.NothingDone && p.Next != contract.NextRetry {
			return fail()
		}
	case h.err != nil, !h.out.Recorded:
		return fail()
	case h.out.Own && of == 0:
		return fail()
	case h.out.Own && e.Tell == model.TheAnswer:
		if e.Answer.From != of {
			return fail()
		}
	case h.out.Own: // it hears its own word, which claims nothing that the record does not say
		if e.Tell == model.KeyExpired || e.To.Record.Status == model.Completed {
			return fail()
		}
	default:
		got, err := answerOf(h.out.Operation.Verdict, h.out.Operation.Result)
		if err != nil || e.Tell != model.TheAnswer || got != e.Answer {
			return fail()
		}
	}
	return nil
}

// compare holds the record against the model's.
func (k *walk) compare(before *einmal.Record) error {
	want := &k.state.Record
	rec, err := k.record()
	if want.Status == model.Absent || want.Status == model.Deleted {
		if !errors.Is(err, einmal.ErrNotFound) {
			return fmt.Errorf("the record is there: %v, %w", rec.State, err)
		}
		return nil
	}
	if err != nil {
		return err
	}
	var wrong []string
	differs := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	if states[want.Status] != rec.State {
		differs("state %v", rec.State)
	}
	if int(want.Attempt) != rec.Attempt {
		differs("attempt %d", rec.Attempt)
	}
	if want.Lapsed != rec.Lapsed() {
		differs("lapsed %v", rec.Lapsed())
	}
	if rec.Version < before.Version {
		differs("version %d after %d", rec.Version, before.Version)
	}
	answer, err := answerOf(rec.Verdict, rec.Result)
	if err != nil {
		differs("%v", err)
	}
	expected := want.Answer
	if want.Status == model.Expired {
		expected.From = 0 // the result is gone
	}
	if answer != expected {
		differs("answer %v", answer)
	}
	if len(rec.Ends) > 0 || rec.Attempt > 1 || rec.Verdict == einmal.NoVerdict { // otherwise the verdict tells the only end
		for n := uint8(1); n <= want.Attempt; n++ {
			if is := endOf(&rec, n); !sameEnd(*want.EndOf(n), is, rec.State) {
				differs("attempt %d ended %v by %v with %+v", n, is.End, is.By, is.Result)
			}
		}
	}
	if len(wrong) > 0 {
		return fmt.Errorf("the record has %s", strings.Join(wrong, ", "))
	}
	return nil
}

var states = map[model.Status]einmal.State{
	model.Running: einmal.StateRunning, model.Unclear: einmal.StateUnclear, model.NotApplied: einmal.StateNotApplied,
	model.Completed: einmal.StateCompleted, model.Expired: einmal.StateExpired,
}

// endOf is the end of attempt n; one that is left out certified "no effect" itself.
func endOf(rec *einmal.Record, n uint8) einmal.AttemptEnd {
	for _, e := range rec.Ends {
		if e.Attempt == int(n) {
			return e
		}
	}
	return einmal.AttemptEnd{Attempt: int(n), End: einmal.EndNoEffect}
}

func sameEnd(want model.End, is einmal.AttemptEnd, state einmal.State) bool {
	ends := map[model.Word]einmal.End{
		model.Silent: einmal.EndNone, model.Unknown: einmal.EndUnknown, model.Open: einmal.EndOpen, model.NoEffect: einmal.EndNoEffect,
		model.Refused: einmal.EndRefused, model.Success: einmal.EndSuccess,
	}
	if ends[want.Word] != is.End {
		return false
	}
	by := map[model.By]einmal.Actor{model.Itself: einmal.ActorAttempt, model.Recovery: einmal.ActorRecovery, model.Person: einmal.ActorPerson}
	if want.By != model.Key && by[want.By] != is.By {
		return false
	}
	if want.Word != model.Refused || !state.Open() && state != einmal.StateNotApplied {
		return true
	}
	answer, err := answerOf(einmal.VerdictRefused, is.Result)
	return err == nil && answer.From == want.Answer
}

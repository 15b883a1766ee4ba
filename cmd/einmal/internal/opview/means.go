// Package opview shows operations to the people in charge of them: as text for terminals and as JSON for pipes.
package opview

import (
	"fmt"
	"time"

	"github.com/einmal-dev/einmal"
	"github.com/einmal-dev/einmal/cmd/einmal/internal/term"
)

// Means is one sentence about what an operation's state says.
func Means(op *einmal.Operation) string {
	switch op.State {
	case einmal.StateAccepted:
		return "It is durably taken and not started yet."
	case einmal.StateRunning:
		if op.Lapsed() {
			return fmt.Sprintf("Attempt %d has been silent for too long. Recovery or the next request marks it unclear.", op.Attempt)
		}
		return fmt.Sprintf("Attempt %d is running. By %s at the latest it has ended or is unclear.", op.Attempt, term.Clock(op.InFlightUntil(), op.Now))
	case einmal.StateUnclear:
		if wait, ok := op.MayRunAgain(); ok {
			from := "now"
			if wait > 0 {
				from = "from " + term.Clock(op.Now.Add(wait), op.Now) + " on"
			}
			return "Nobody knows whether the effect happened. The caller's next request may run it again (" + from + "), with the same partner key."
		}
		if op.Terms.Class == einmal.ClassKeyed {
			return "Nobody knows whether the effect happened, and it cannot run again: its attempts or the partner's window are used up. It waits for a person."
		}
		return "Nobody knows whether the effect happened. It is not repeated on its own and waits for a person."
	case einmal.StateNotApplied:
		return "It certainly had no effect. The caller's next request runs it."
	case einmal.StateCompleted:
		return completed(op)
	case einmal.StateExpired:
		return "Its window is over and its result is gone; the key is still recognised."
	}
	return "This version does not know the state: use the einmal that wrote it."
}

func completed(op *einmal.Operation) string {
	switch op.Verdict {
	case einmal.VerdictWithdrawn:
		return "A person settled that it did not happen and shall not happen."
	case einmal.VerdictRefused:
		return "It was refused, without an effect. That is its final answer."
	}
	switch {
	case op.Result == nil || op.Result.Kept == einmal.KeptUnknown:
		return "The effect happened; its answer is not known."
	case op.Result.Kept == einmal.KeptTooLarge:
		return "The effect happened; its answer was too large to store."
	}
	return "The effect happened, and its answer is stored."
}

// Callers is one sentence about what a caller gets who sends the request again from now on.
func Callers(op *einmal.Operation) string {
	switch op.State {
	case einmal.StateAccepted, einmal.StateRunning:
		return "409 in-progress, and nothing runs."
	case einmal.StateUnclear:
		if _, ok := op.MayRunAgain(); ok {
			return "the operation's answer, after it ran again."
		}
		return "409 outcome-unclear, and nothing runs."
	case einmal.StateNotApplied:
		return "the operation runs again, and its answer."
	case einmal.StateExpired:
		return "422 key-expired, and nothing runs."
	case einmal.StateCompleted:
		switch {
		case op.Verdict == einmal.VerdictWithdrawn:
			return "410 withdrawn, and nothing runs."
		case op.Result == nil || op.Result.Kept == einmal.KeptUnknown:
			return "303 to the operation's status resource, and nothing runs."
		case op.Result.Kept == einmal.KeptTooLarge && op.Result.Status < 400:
			return "303 to the operation's status resource, and nothing runs."
		case op.Result.Kept == einmal.KeptTooLarge:
			return fmt.Sprintf("%d without the answer's body, and nothing runs.", op.Result.Status)
		}
		return fmt.Sprintf("the stored answer, %d with Idempotent-Replayed: true, and nothing runs.", op.Result.Status)
	}
	return "what the einmal that wrote it gives."
}

// Resolvable reports whether a person may resolve an operation now.
func Resolvable(op *einmal.Operation) bool {
	return op.State == einmal.StateUnclear || op.State == einmal.StateNotApplied
}

func tenant(s string) string {
	if s == "" {
		return "-"
	}
	return term.Safe(s)
}

func stateWord(op *einmal.Operation) string {
	if op.State == einmal.StateCompleted && op.Verdict != einmal.VerdictApplied {
		return op.Verdict.String()
	}
	return op.State.String()
}

// tint colours a state as it matters: what waits for a person is to be seen first.
func tint(o term.Out, op *einmal.Operation, s string) string {
	switch {
	case op.Attention:
		return o.Red(s)
	case op.State == einmal.StateUnclear:
		return o.Yellow(s)
	case op.State == einmal.StateCompleted && op.Verdict == einmal.VerdictApplied:
		return o.Green(s)
	}
	return s
}

func rfc3339(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

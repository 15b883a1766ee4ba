package einmal

import "fmt"

// State is where an operation stands. Its numbers are stored.
type State uint8

const (
	StateAccepted   State = 1 // durably taken, not started
	StateRunning    State = 2 // an attempt holds the lease
	StateUnclear    State = 3 // an attempt ended and nobody knows whether the effect happened
	StateNotApplied State = 4 // certainly no effect; the next request runs it
	StateCompleted  State = 5 // settled; the answer never changes
	StateExpired    State = 6 // tombstone: the window is over, the key is still recognised
)

var stateNames = [...]string{"", "accepted", "running", "unclear", "not_applied", "completed", "expired"}

// States are all states, in the order of their numbers.
var States = []State{StateAccepted, StateRunning, StateUnclear, StateNotApplied, StateCompleted, StateExpired}

func (s State) String() string {
	if s == 0 || int(s) >= len(stateNames) {
		return fmt.Sprintf("State(%d)", uint8(s))
	}
	return stateNames[s]
}

// Open reports whether the state is open: such a record never expires and is never purged.
func (s State) Open() bool {
	return s == StateAccepted || s == StateRunning || s == StateUnclear
}

// ParseState is the inverse of String.
func ParseState(name string) (State, error) {
	for _, s := range States {
		if s.String() == name {
			return s, nil
		}
	}
	return 0, fmt.Errorf("einmal: unknown state %q (one of %v)", name, States)
}

// End is how an attempt ended. Its numbers are stored.
type End uint8

const (
	EndNone     End = 0 // still running
	EndUnknown  End = 1 // its lease was lost and it has not spoken
	EndOpen     End = 2 // it spoke, but does not know
	EndNoEffect End = 3 // certified: nothing happened
	EndRefused  End = 4 // a final refusal, with its answer
	EndSuccess  End = 5
)

var endNames = [...]string{"running", "unknown", "open", "no_effect", "refused", "success"}

func (e End) String() string {
	if int(e) >= len(endNames) {
		return fmt.Sprintf("End(%d)", uint8(e))
	}
	return endNames[e]
}

// Certain reports whether the end says for sure whether the effect happened.
func (e End) Certain() bool { return e >= EndNoEffect }

// Actor is the kind of party that a statement comes from. Its numbers are stored.
type Actor uint8

const (
	ActorAttempt  Actor = 0 // the attempt itself
	ActorRecovery Actor = 1 // the engine that found the lease lost
	ActorPerson   Actor = 2
	ActorAsk      Actor = 3 // the partner, asked
)

var actorNames = [...]string{"attempt", "recovery", "person", "ask"}

func (a Actor) String() string {
	if int(a) >= len(actorNames) {
		return fmt.Sprintf("Actor(%d)", uint8(a))
	}
	return actorNames[a]
}

// AttemptEnd is one attempt and how it ended.
//
// An attempt that certified "no effect" itself needs no entry: a missing attempt below Record.Attempt is one that did.
type AttemptEnd struct {
	Attempt int
	End     End
	By      Actor   // whose word End is
	Holder  Holder  // who runs it; zero once the attempt has spoken itself, since it is over then
	Result  *Result // a refusal's answer, while it is not the record's
}

// Verdict is what a completed record says of its operation. Its numbers are stored.
type Verdict uint8

const (
	NoVerdict        Verdict = 0 // not completed
	VerdictApplied   Verdict = 1 // the effect happened
	VerdictRefused   Verdict = 2 // every attempt certainly had no effect, and the newest refusal is the answer
	VerdictWithdrawn Verdict = 3 // a person settled: did not happen, shall not happen
)

var verdictNames = [...]string{"", "applied", "refused", "withdrawn"}

func (v Verdict) String() string {
	if int(v) >= len(verdictNames) {
		return fmt.Sprintf("Verdict(%d)", uint8(v))
	}
	return verdictNames[v]
}

// verdictOver is the statement about the operation that all its ends allow, once no attempt is running: any success, completed; else any open or
// unknown end, unclear; else any refusal, completed with the newest; else not applied.
func verdictOver(ends []AttemptEnd) (State, Verdict, *Result) {
	state, verdict := StateNotApplied, NoVerdict
	var newest *AttemptEnd
	for i := range ends {
		switch e := &ends[i]; e.End {
		case EndSuccess:
			return StateCompleted, VerdictApplied, e.Result
		case EndNone, EndUnknown, EndOpen:
			state = StateUnclear
		case EndRefused:
			if newest == nil || e.Attempt > newest.Attempt {
				newest = e
			}
		case EndNoEffect:
		}
	}
	if state == StateUnclear || newest == nil {
		return state, verdict, nil
	}
	return StateCompleted, VerdictRefused, newest.Result
}

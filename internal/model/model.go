// Package model is the protocol of one operation as a finite machine: the record, three attempts with their bytes on the way to the partner, the partner,
// and a person who resolves. Explore visits every state that can be reached and checks what Einmal promises in each.
//
// The rules are written here a second time, on purpose, from the design and not from the engine: the oracle test drives the real engine along the
// model's own edges and compares. docs/states.md says what the model covers and what it shows.
package model

import "fmt"

// Class is the operation's effect class.
type Class uint8

const (
	Opaque Class = iota + 1 // the partner does whatever arrives
	Keyed                   // the partner deduplicates on the partner key until its window is over
)

func (c Class) String() string { return [...]string{"", "opaque", "keyed"}[c] }

// Attempts is how many attempts a run of the model has, each with a worker of its own that may crash. Two of them are takeovers.
const Attempts = 3

// Status is where the record stands.
type Status uint8

const (
	Absent Status = iota // no record
	Running
	Unclear
	NotApplied
	Completed
	Expired
	Deleted // the tombstone is gone too, and with it the promise
)

var statusNames = [...]string{"absent", "running", "unclear", "not_applied", "completed", "expired", "deleted"}

func (s Status) String() string { return statusNames[s] }

// Word is what is known of an attempt's end.
type Word uint8

const (
	Silent  Word = iota // it runs, or never began
	Unknown             // its lease was lost and it has not spoken
	Open                // it does not know
	NoEffect
	Refused
	Success
)

var wordNames = [...]string{"-", "unknown", "open", "no effect", "refused", "success"}

func (w Word) String() string { return wordNames[w] }

func (w Word) certain() bool { return w >= NoEffect }

// By is whose word an end is.
type By uint8

const (
	Itself By = iota
	Recovery
	Person
	Key // another attempt's refusal, which the partner keeps under the partner key
)

// End is how one attempt ended.
type End struct {
	Word   Word
	By     By
	Answer uint8 // the attempt whose answer a refusal is
}

func (e End) String() string {
	if e.By == Itself {
		return e.Word.String()
	}
	return fmt.Sprintf("%v by %s", e.Word, [...]string{"", "recovery", "person", "key"}[e.By])
}

// Verdict is what a completed record says.
type Verdict uint8

const (
	NoVerdict Verdict = iota
	Applied
	Rejected // every attempt certainly had no effect, and a refusal is the answer
	Withdrawn
)

func (v Verdict) String() string { return [...]string{"", "applied", "refused", "withdrawn"}[v] }

// Answer is a stored result: the verdict and the attempt that it came from, 0 for a person.
type Answer struct {
	Verdict Verdict
	From    uint8
}

func (a Answer) String() string {
	if a.From == 0 {
		return fmt.Sprintf("%v (a person's)", a.Verdict)
	}
	return fmt.Sprintf("%v (attempt %d's)", a.Verdict, a.From)
}

// Record is the record. Its version is left out: a person's statement is either on the record as it is, or the record has changed since (see State.Stale),
// and nothing else looks at versions.
type Record struct {
	Status  Status
	Attempt uint8         // the newest; the fencing token
	Lapsed  bool          // running only: the lease is over and nobody has acted on it
	Ends    [Attempts]End // Ends[0] is attempt 1's
	Answer  Answer        // of a completed record, and its verdict is kept in the tombstone
}

// EndOf is the end of an attempt, counted from 1.
func (r *Record) EndOf(attempt uint8) *End { return &r.Ends[attempt-1] }

// Doing is what an attempt does.
type Doing uint8

const (
	Nothing Doing = iota // not begun
	Begun                // holds a reservation, has sent nothing
	Waiting              // has sent its bytes
	Holding              // knows how it ended, the record does not yet
	Over                 // has spoken or is dead: it never speaks or sends again
)

// Bytes is where an attempt's request bytes are. One attempt is one wire attempt.
type Bytes uint8

const (
	NoBytes  Bytes = iota // not sent, arrived, or lost
	UnderWay              // may arrive at any moment
	Overdue               // under way since before the partner's window was over, longer than anything promised
)

// Attempt is one worker's side of an attempt, which nobody sees but itself.
type Attempt struct {
	Doing Doing
	Holds Word  // while Holding
	Bound bool  // the refusal it holds is one that the partner keeps under the key
	Ends  bool  // keyed: its context ends before the partner's window does
	Bytes Bytes // outlive the worker
}

// Phase is the time of a keyed operation, counted from the first reservation. It only grows.
type Phase uint8

const (
	Early  Phase = iota // age + deadline + lease fit into the partner's window: an open attempt may run again
	Closed              // they do not fit any more, but the partner still knows the key
	Past                // the partner's window is over: it may forget the key at any arrival
)

func (p Phase) String() string { return [...]string{"early", "closed", "past"}[p] }

// Statement is what a person says of the operation.
type Statement uint8

const (
	SaysNothing    Statement = iota
	SaysApplied              // it happened
	SaysNotApplied           // it did not happen and may run again
	SaysWithdrawn            // it did not happen and shall not
)

var statementNames = [...]string{"nothing", "applied", "not applied", "withdrawn"}

func (s Statement) String() string { return statementNames[s] }

// Lie says how far a person's wrong statement has come.
type Lie uint8

const (
	NoLie     Lie = iota
	Lied          // a person said that nothing happened, and it had happened or still could
	LiedReRun     // and then another attempt ran
)

// State is everything. It is comparable, and two equal states have the same future.
type State struct {
	Record   Record
	Attempts [Attempts]Attempt

	Effects uint8 // how often the partner did it; 2 is "more than once"
	Stores  bool  // keyed: the partner keeps a refusal under the key
	Phase   Phase // keyed

	Says   Statement // what the person who has looked is about to say
	Honest bool      // it was the truth when it was looked up
	Stale  bool      // the record has changed since; seen only with a bug, for otherwise the statement is refused and the person looks again

	Told  Answer // the answer that callers have been given
	Lie   Lie
	False bool // a person said "applied" and nothing had happened
	Late  bool // an effect was done by overdue bytes
}

func (s *State) at(attempt uint8) *Attempt { return &s.Attempts[attempt-1] }

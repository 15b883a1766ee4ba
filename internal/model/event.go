package model

import "fmt"

// Kind is a kind of event.
type Kind uint8

const (
	Requests  Kind = iota // a request with the right parameters arrives, and any backoff is over
	Hurries               // one arrives before the backoff is over
	Sends                 // the attempt's bytes go out
	NoLink                // no connection was obtained: certified, nothing was sent
	GivesUp               // panic, deadline, connection lost: the attempt does not know; its bytes may still be under way
	Arrives               // the attempt's bytes arrive at the partner, or are lost
	Reports               // the attempt's word is recorded and its caller answered
	Offers                // its word is recorded but the engine does not learn of it, and will offer it again
	Crashes               // the worker dies; bytes under way are not affected
	Renews                // the worker renews its lease, or tries to
	LeaseEnds             // the lease is over
	Recovers              // the loop finds the lapsed lease
	TimeGoes              // a keyed operation comes into its next phase
	Looks                 // a person looks, and makes up a statement
	Resolves              // and says it
	Purges                // the window, or the tombstone's time, is over
	Blurts                // only with AnswerBeforeCommit: the caller gets an answer that is not recorded
)

var kindNames = [...]string{
	"Requests", "Hurries", "Sends", "NoLink", "GivesUp", "Arrives", "Reports", "Offers", "Crashes", "Renews", "LeaseEnds", "Recovers", "TimeGoes", "Looks",
	"Resolves", "Purges", "Blurts",
}

func (k Kind) String() string { return kindNames[k] }

// Reply is what happens to bytes that arrive.
type Reply uint8

const (
	Lost          Reply = iota // they never arrive, or nothing happens and nothing useful is answered
	Does                       // the effect happens, its answer arrives
	DoesMutely                 // the effect happens, its answer is lost
	Refuses                    // a final refusal, no effect
	TurnsAway                  // a status that certifies no effect
	RefusesKey                 // keyed: a final refusal, kept under the key
	RefusesMutely              // the same, its answer is lost
	Repeats                    // keyed: the key is known, the stored success is answered
	RepeatsNo                  // keyed: the key is known, the stored refusal is answered
)

var replyNames = [...]string{
	"are lost", "arrive: effect", "arrive: effect, the answer is lost", "arrive: refused", "arrive: turned away", "arrive: refused, kept under the key",
	"arrive: refused, kept under the key, the answer is lost", "arrive: the key's success is repeated", "arrive: the key's refusal is repeated",
}

func (r Reply) effect() bool { return r == Does || r == DoesMutely }

// word is what the waiting worker learns.
func (r Reply) word() (word Word, bound bool) {
	switch r {
	case Does, Repeats:
		return Success, false
	case Refuses:
		return Refused, false
	case RefusesKey, RepeatsNo:
		return Refused, true
	case TurnsAway:
		return NoEffect, false
	}
	return Open, false
}

// Event is one step of the world.
type Event struct {
	Kind      Kind
	Attempt   uint8
	Reply     Reply
	Statement Statement
}

func (e Event) String() string {
	switch e.Kind {
	case Requests:
		return "a request arrives"
	case Hurries:
		return "a request arrives before the backoff is over"
	case Sends:
		return fmt.Sprintf("attempt %d sends", e.Attempt)
	case NoLink:
		return fmt.Sprintf("attempt %d gets no connection", e.Attempt)
	case GivesUp:
		return fmt.Sprintf("attempt %d gives up", e.Attempt)
	case Arrives:
		return fmt.Sprintf("attempt %d's bytes %s", e.Attempt, replyNames[e.Reply])
	case Reports:
		return fmt.Sprintf("attempt %d reports", e.Attempt)
	case Offers:
		return fmt.Sprintf("attempt %d reports, unheard", e.Attempt)
	case Crashes:
		return fmt.Sprintf("attempt %d's worker crashes", e.Attempt)
	case Renews:
		return fmt.Sprintf("attempt %d renews its lease", e.Attempt)
	case LeaseEnds:
		return "the lease ends"
	case Recovers:
		return "the loop recovers"
	case TimeGoes:
		return "time goes on"
	case Looks:
		return fmt.Sprintf("a person looks, to say %q", statementNames[e.Statement])
	case Resolves:
		return fmt.Sprintf("the person says %q", statementNames[e.Statement])
	case Purges:
		return "purging"
	}
	return fmt.Sprintf("attempt %d's caller is answered at once", e.Attempt)
}

// Tell is what a caller is told.
type Tell uint8

const (
	NotTold     Tell = iota
	TheAnswer        // the recorded answer
	InProgress       // wait
	IsUnclear        // nobody knows
	NothingDone      // the attempt certainly did nothing; the same key may be sent again
	KeyExpired       // the window is over
)

var tellNames = [...]string{"", "the answer", "in progress", "unclear", "nothing happened", "key expired"}

func (t Tell) String() string { return tellNames[t] }

// Edge is an event with what it leads to.
type Edge struct {
	Event
	To     State
	Tell   Tell
	Answer Answer // what TheAnswer said
	Alarm  bool
}

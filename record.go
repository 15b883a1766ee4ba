package einmal

import (
	"time"

	"github.com/einmal-dev/einmal/fingerprint"
)

// ID names a record inside one store. The store gives it, growing, and never gives one twice. People and clients see it only as the opaque
// Operation.ID.
type ID int64

// Identity is what an operation is found by. Its parts are kept apart and never joined by a separator.
type Identity struct {
	Tenant    string // "" where there is one tenant only
	Operation string // the policy's name
	Key       string // the client's idempotency key
}

// Caller is who sends a request: the tenant whose keys it uses, and the principal that must be the same for every retry.
type Caller struct{ Tenant, Principal string }

// Nonce marks one write, so that a writer that got no answer can find out whether the write is its own.
type Nonce [16]byte

// Holder is the process that runs an attempt. It is over when its operating-system lock is free on the same host, or that host was booted again.
type Holder struct {
	Incarnation string // names the lock file
	Host, Boot  string
}

// Terms are the promises of the policy as they were at reservation. They live in the record, so recovery needs no policy. Terms are comparable; few
// different ones are in use, and a store may keep each once.
type Terms struct {
	Owner           string
	Class           Class
	Deadline        time.Duration // longest run of one attempt
	Lease           time.Duration // how long it may stay silent; in flight at most Deadline + Lease
	Window          time.Duration // recognition after the reservation
	KeepResult      time.Duration // and at least so long after completion
	Tombstone       time.Duration // recognition without the result, after that
	UnclearDeadline time.Duration // from unclear to the first escalation
	PartnerWindow   time.Duration // keyed: how long the partner deduplicates, from the first reservation
	Backoff         time.Duration // between attempts on an unclear record; doubles with each
	MaxAttempts     int           // on an unclear record
}

// Result is a stored answer.
type Result struct {
	Status int
	Header []Field // allowed ones only, in order
	Body   []byte
	Kept   Kept
}

// Field is one header field line.
type Field struct{ Name, Value string }

// Kept says how much of an answer is stored. Its numbers are stored.
type Kept uint8

const (
	KeptWhole    Kept = 0
	KeptUnknown  Kept = 1 // the effect happened, its answer is not known
	KeptTooLarge Kept = 2 // status and header only
)

// Position is how far into a store's history somebody has seen. A store whose own position is lower than what a node has seen was restored from an
// older state.
type Position struct {
	Store string // the store's own id, made at creation
	Epoch int64  // grows when an operator accepts a gap
	Seq   int64  // grows with every write
}

// Record is what a store keeps of an operation. All times are the store's.
type Record struct {
	ID ID
	Identity
	Principal   string
	Fingerprint fingerprint.Sum
	PartnerKey  string // "" when the class sends none
	Terms       Terms

	State   State
	Verdict Verdict      // when completed, and kept in the tombstone (NoVerdict: it was not applied)
	Result  *Result      // when completed, until expired
	Attempt int          // the newest attempt; never resets: the fencing token
	Version int64        // grows with every transition
	Nonce   Nonce        // of the last transition
	Ends    []AttemptEnd // see AttemptEnd for what may be left out
	Reason  string       // why it is in this state, where that needs saying

	Escalations int
	Attention   bool

	Created         time.Time // the first reservation
	Changed         time.Time // the last transition
	LeaseUntil      time.Time // running only
	Due             time.Time // open only: when somebody has to look at it
	RecognisedUntil time.Time // the window's end, fixed at reservation, never shortened

	Seq int64     // of the last write to the record
	Now time.Time // the store's clock when the record was read
	At  Position  // the store's position when the record was read
}

// Lapsed reports whether a running attempt's lease is over by the store's clock.
func (r *Record) Lapsed() bool { return r.State == StateRunning && !r.LeaseUntil.After(r.Now) }

package einmal

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/einmal-dev/einmal/fingerprint"
)

// Store keeps records. It knows facts of storage and decides nothing: what is written and under which conditions comes from the Engine.
//
// Every method is safe for concurrent use, by several handles on the same storage too. A write is durable when its method returns nil. Instants come
// from the store's clock only, never below its persisted high-water mark; callers give durations. The context is detached from any request: it bounds
// waiting, and a write that was begun may still happen after it ended. An error that is none of the sentinels below means that the write's fate is
// unknown; Get and the nonce tell it.
//
// storetest.Run is the contract in executable form.
type Store interface {
	// Reserve inserts a running record with attempt 1 and version 1 unless the identity has a record, in one atomic step, and returns whichever is
	// there; created says which. A found record is returned whatever the reservation carries. Otherwise, and before anything is inserted:
	// ErrRestored, ErrStorePaused, ErrTooManyOpen, ErrKeyTooOld, ErrKeyFromFuture; these leave no row. ErrUnreadable: a record is there but damaged.
	Reserve(context.Context, Reservation) (rec Record, created bool, err error)

	// Apply makes one change if its guard holds, together with its timeline entry, and returns the record after it. A guard that does not hold:
	// *StaleError with the record as it is. ErrNotFound, ErrUnreadable; for a change with Guard.Start also ErrRestored, ErrStorePaused,
	// ErrTooManyOpen and ErrClockJumped.
	Apply(context.Context, Change) (Record, error)

	// Get returns one record as it stands, by ID or, with ID 0, by identity. ErrNotFound, ErrUnreadable.
	Get(context.Context, Ref) (Record, error)

	// Timeline returns the stored entries of a record, oldest first; ordinary transitions have none (see Engine.Timeline). ErrNotFound.
	Timeline(context.Context, ID) ([]Entry, error)

	// List returns records in the order of their IDs without the results' bodies, and the cursor of the next page, "" at the end. Unreadable records
	// are listed with what can be read and the Reason "record unreadable".
	List(context.Context, Filter) (page []Record, next string, err error)

	// Claim returns open records that are due and puts each one's due time off by Claim.Lease, so that no other claimer gets it meanwhile. The
	// version does not grow. Unreadable records are never claimed.
	Claim(context.Context, Claim) ([]Record, error)

	// Purge expires up to limit records that are completed or not applied and whose RecognisedUntil is over, dropping the result; deletes up to limit
	// expired ones whose Terms.Tombstone after that is over, with their timeline; and returns how many it touched. It moves the clock's high-water
	// mark. It never touches an open record. ErrClockJumped: nothing was purged (see ClockGuard).
	Purge(ctx context.Context, limit int) (int, error)

	// Settings writes the given settings in one transaction and returns all that are there. See Setting.
	Settings(context.Context, ...Setting) ([]Setting, error)

	// Close releases the handle. Calls under way end first; later ones fail with an error.
	Close() error
}

// Reservation asks for a new record.
type Reservation struct {
	Identity
	Principal   string
	Fingerprint fingerprint.Sum
	PartnerKey  string
	Terms       Terms
	Nonce       Nonce
	Holder      Holder
	Seen        Position // Seen.Store "": nothing seen yet
	Limits      Limits

	// KeyTime is the time that the key itself claims, zero where keys tell none. Without a record, a key older than Terms.Window is ErrKeyTooOld and
	// one more than MaxKeySkew in the future ErrKeyFromFuture, by the store's clock.
	KeyTime time.Time
}

// MaxKeySkew is how far a key's own time may lie in the future.
const MaxKeySkew = 5 * time.Minute

// Limits bound a tenant's open records; 0 is no limit. Running and accepted records count as Open, unclear ones as Unclear.
type Limits struct{ Open, Unclear int }

// ChangeKind says which part of a record a change writes.
type ChangeKind uint8

const (
	// Transition writes State, Attempt, Ends, Verdict, Result, Reason, Attention and Nonce, sets Changed, and grows the version by one. Escalations go
	// back to 0 unless the state stays the same. LeaseFor, DueIn and Recognise are used where they are not 0. A record that is no longer running loses
	// its lease, one that is no longer open its due time.
	Transition ChangeKind = 1
	// Renewal sets the lease to end LeaseFor from now, and the due time to the same, and nothing else.
	Renewal ChangeKind = 2
	// Note adds the timeline entry; with DueIn it sets the due time and adds one to Escalations, and with Attention it raises that flag. The version
	// does not grow.
	Note ChangeKind = 3
)

// Change is one conditional write to a record.
type Change struct {
	ID     ID
	Kind   ChangeKind
	Guard  Guard
	Seen   Position
	Limits Limits // with Guard.Start
	Nonce  Nonce

	State   State
	Attempt int
	Ends    []AttemptEnd
	Verdict Verdict
	Result  *Result
	Reason  string

	LeaseFor  time.Duration // the lease ends so long from now
	DueIn     time.Duration // due so long from now
	Recognise time.Duration // RecognisedUntil is at least so long from now
	Attention bool

	Entry *Entry // the timeline entry to store, nil for an ordinary transition
}

// Guard is the condition of a change; every part that is set must hold, checked in the same atomic step as the write.
type Guard struct {
	State       State
	Attempt     int
	Version     int64
	LeaseHeld   bool          // the lease is not over: a renewal never revives a lost one
	LeaseLapsed bool          // the lease is over
	MaxAge      time.Duration // now - Created <= MaxAge
	Start       bool          // the change starts an attempt: not restored, not paused, and with MaxAge no clock jump
}

// Ref names a record.
type Ref struct {
	ID ID // 0: by Identity
	Identity
}

// Entry is one line of a record's timeline.
type Entry struct {
	At      time.Time // set by the store
	Event   string    // one of the Event… constants
	From    State     // 0 for the first
	To      State
	Attempt int
	Actor   Actor
	By      string // the person, where there is one
	Reason  string
	Link    string // evidence
}

// Claim asks for due records.
type Claim struct {
	Operations []string // nil: all
	Limit      int
	Lease      time.Duration
}

// Filter selects records. Zero fields select all.
type Filter struct {
	States    []State
	Tenant    *string
	Operation string
	Owner     string
	Attention bool
	OlderThan time.Duration // changed at least so long ago
	After     string        // the cursor of the page before
	Limit     int           // 0: 100; at most 1000
}

// Setting is a named value that lives in the store and is shared by all nodes.
//
// Names with a meaning to the store: "pause" refuses every start in its scope while it exists, and Tenant or Operation "*" means all; "clock" with the
// value "accept" accepts the clock as it is after a jump; "epoch" with the value "accept" accepts the gap of a restored store by growing the epoch.
// "id", "epoch", "seq" and "clock" ("ok" or "jumped") are always among the returned ones and can otherwise not be written.
// Every other name is the engine's.
type Setting struct {
	Name              string
	Tenant, Operation string
	Value             string
	For               time.Duration // written with it: gone so long after; 0: stays
	Until             time.Time     // returned: when it goes, zero: stays
	IfAbsent          bool          // written only where there is none; the returned list tells whose value won
	Delete            bool
}

// Errors of a Store, for errors.Is.
var (
	ErrNotFound      = errors.New("einmal: no such record")
	ErrStale         = errors.New("einmal: the record has changed")
	ErrRestored      = errors.New("einmal: the store was restored from an older state")
	ErrStorePaused   = errors.New("einmal: starts are paused")
	ErrTooManyOpen   = errors.New("einmal: too many open operations")
	ErrKeyTooOld     = errors.New("einmal: the key is older than the window")
	ErrKeyFromFuture = errors.New("einmal: the key claims a time in the future")
	ErrUnreadable    = errors.New("einmal: record unreadable")
	ErrClockJumped   = errors.New("einmal: the store's clock jumped")
	ErrStoreClosed   = errors.New("einmal: store closed")
)

// StaleError is ErrStale with the record as it is. Tried tells the guard that did not hold.
type StaleError struct {
	Record Record
	Tried  Guard
}

func (e *StaleError) Error() string {
	return fmt.Sprintf("%v: tried on %+v, is %v, attempt %d, version %d", ErrStale, e.Tried, e.Record.State, e.Record.Attempt, e.Record.Version)
}

// Is makes errors.Is(err, ErrStale) true.
func (e *StaleError) Is(target error) bool { return target == ErrStale }

// Holds reports whether the guard holds for a record at the store's time in rec.Now, as far as the record alone can tell; Start is the store's to
// check. Stores that check in their own language check the same.
func (g Guard) Holds(rec *Record) bool {
	switch {
	case g.State != 0 && g.State != rec.State,
		g.Attempt != 0 && g.Attempt != rec.Attempt,
		g.Version != 0 && g.Version != rec.Version,
		g.LeaseHeld && rec.Lapsed(),
		g.LeaseLapsed && !rec.Lapsed(),
		g.MaxAge != 0 && rec.Now.Sub(rec.Created) > g.MaxAge:
		return false
	}
	return true
}

// Write makes the change on a record whose guard holds, at the store's time; Seq and the timeline entry are the store's. Stores that write in their own
// language write the same. The record shares the change's Ends and Result afterwards. The error says that the kind is unknown, and nothing was written.
func (c *Change) Write(rec *Record, now time.Time) error {
	switch c.Kind {
	case Transition:
		if c.State != rec.State {
			rec.Escalations = 0
		}
		rec.State, rec.Attempt, rec.Verdict, rec.Reason, rec.Attention = c.State, c.Attempt, c.Verdict, c.Reason, c.Attention
		rec.Ends, rec.Result = c.Ends, c.Result
		rec.Nonce, rec.Changed = c.Nonce, now
		rec.Version++
		if c.LeaseFor != 0 {
			rec.LeaseUntil = now.Add(c.LeaseFor)
		}
		if c.DueIn != 0 {
			rec.Due = now.Add(c.DueIn)
		}
		if until := now.Add(c.Recognise); c.Recognise != 0 && until.After(rec.RecognisedUntil) {
			rec.RecognisedUntil = until
		}
		if rec.State != StateRunning {
			rec.LeaseUntil = time.Time{}
		}
		if !rec.State.Open() {
			rec.Due = time.Time{}
		}
	case Renewal:
		rec.LeaseUntil, rec.Due = now.Add(c.LeaseFor), now.Add(c.LeaseFor)
	case Note:
		if c.DueIn != 0 {
			rec.Due = now.Add(c.DueIn)
			rec.Escalations++
		}
		rec.Attention = rec.Attention || c.Attention
	default:
		return fmt.Errorf("einmal: unknown kind of change %d", c.Kind)
	}
	return nil
}

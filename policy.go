package einmal

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Class is how an operation's effect relates to its record. Its numbers are stored. Classes 2, 4 and 5 are kept for atomic, queryable and stepped.
type Class uint8

const (
	ClassOpaque Class = 1 // nothing is known about the effect: an open attempt stays unclear until somebody resolves it
	ClassKeyed  Class = 3 // a partner deduplicates on the key that it is sent: an open attempt may run again inside the partner's window
)

func (c Class) String() string {
	switch c {
	case ClassOpaque:
		return "opaque"
	case ClassKeyed:
		return "keyed"
	}
	return fmt.Sprintf("Class(%d)", uint8(c))
}

// Effect is an effect class with what it needs. The zero Effect is Opaque.
type Effect struct {
	class         Class
	partnerWindow time.Duration
}

// Opaque is the effect of which nothing is known. At most once.
func Opaque() Effect { return Effect{class: ClassOpaque} }

// Keyed is an effect by a partner that deduplicates on the key it is sent, for partnerWindow from the first time it sees the key. Exactly once, if the
// client retries inside that window. The handler must send PartnerKey(ctx).
func Keyed(partnerWindow time.Duration) Effect {
	return Effect{class: ClassKeyed, partnerWindow: partnerWindow}
}

// Class returns the effect's class.
func (e Effect) Class() Class {
	if e.class == 0 {
		return ClassOpaque
	}
	return e.class
}

// PartnerWindow returns how long the partner of a keyed effect deduplicates, 0 for any other class.
func (e Effect) PartnerWindow() time.Duration { return e.partnerWindow }

// KeyAge says whether keys tell their own age.
type KeyAge uint8

const (
	KeyAgeNone   KeyAge = 0 // never read from a key
	KeyAgeUUIDv7 KeyAge = 1 // the key is a UUID version 7 (RFC 9562, section 5.7) made when the operation was first sent
)

// Policy is the rules for one operation name. Durations of 0 are the defaults.
type Policy struct {
	Name        string // 1 to 128 bytes of letters, digits, '-', '_', '.', '/'
	Owner       string // required: who is told when an outcome is unclear
	Effect      Effect
	KeyOptional bool          // a request without a key passes as no operation
	Window      time.Duration // 24h: how long recognition is promised, from the reservation
	Deadline    time.Duration // 30s: the hard end of an attempt
	Lease       time.Duration // 10s: how long an attempt may stay silent
	KeyAge      KeyAge
	Rules       *Rules // nil: the published defaults
}

// Rules are what few policies change. Zero fields are the defaults.
type Rules struct {
	MaxAttempts     int           // 5: attempts on an unclear keyed operation
	Backoff         time.Duration // 1s, doubling: between them
	UnclearDeadline time.Duration // 15m: from unclear to its first escalation
	Tombstone       time.Duration // 30 windows: how long an expired key is still recognised
	KeepResult      time.Duration // 1h, at most the window: how long a result is kept at least after completion

	Statuses            map[int]End // overrides of the table in ends.go
	RefusesBeforeEffect []int       // nil: 401, 403, 421, 425, 429, 431; empty: none
	BoundToKey          []int       // keyed: statuses that the partner stores under the key

	Headers   []string // further request fields that are parameters
	MaxBody   int64    // 1 MiB: of a request, in bytes
	MaxResult int64    // 1 MiB, at most 16 MiB: of a stored answer's body, in bytes
	Limits    Limits   // of one tenant's open operations
}

// Defaults of a policy.
const (
	DefaultWindow          = 24 * time.Hour
	DefaultDeadline        = 30 * time.Second
	DefaultLease           = 10 * time.Second
	DefaultMaxAttempts     = 5
	DefaultBackoff         = time.Second
	DefaultUnclearDeadline = 15 * time.Minute
	DefaultKeepResult      = time.Hour
	DefaultMaxBody         = 1 << 20
	DefaultMaxResult       = 1 << 20
	mostMaxResult          = 16 << 20
	tombstoneWindows       = 30
	maxNameLength          = 128
)

var defaultRefusesBeforeEffect = []int{401, 403, 421, 425, 429, 431}

func or[T comparable](v, otherwise T) T {
	var zero T
	if v == zero {
		return otherwise
	}
	return v
}

// withDefaults returns the policy with every default filled in.
func (p Policy) withDefaults() Policy {
	p.Window = or(p.Window, DefaultWindow)
	p.Deadline = or(p.Deadline, DefaultDeadline)
	p.Lease = or(p.Lease, DefaultLease)
	p.Effect.class = p.Effect.Class()
	var r Rules
	if p.Rules != nil {
		r = *p.Rules
	}
	r.MaxAttempts = or(r.MaxAttempts, DefaultMaxAttempts)
	r.Backoff = or(r.Backoff, DefaultBackoff)
	r.UnclearDeadline = or(r.UnclearDeadline, DefaultUnclearDeadline)
	r.Tombstone = or(r.Tombstone, tombstoneWindows*p.Window)
	r.KeepResult = or(r.KeepResult, min(DefaultKeepResult, p.Window))
	r.MaxBody = or(r.MaxBody, DefaultMaxBody)
	r.MaxResult = or(r.MaxResult, DefaultMaxResult)
	if r.RefusesBeforeEffect == nil {
		r.RefusesBeforeEffect = defaultRefusesBeforeEffect
	}
	p.Rules = &r
	return p
}

// validate checks a policy that has its defaults; the error names the cause and the cure.
func (p Policy) validate() error {
	fail := func(format string, args ...any) error {
		return fmt.Errorf("einmal: policy %q: "+format, append([]any{p.Name}, args...)...)
	}
	if err := checkName(p.Name); err != nil {
		return fmt.Errorf("einmal: policy %q: name: %w", p.Name, err)
	}
	r := p.Rules
	inFlight := p.Deadline + p.Lease
	switch {
	case p.Owner == "":
		return fail("no Owner: name who is told when an outcome is unclear")
	case p.Window < 0 || p.Deadline < 0 || p.Lease < 0 || r.Backoff < 0 || r.UnclearDeadline < 0 || r.Tombstone < 0 || r.KeepResult < 0:
		return fail("a duration is negative")
	case p.Window < inFlight:
		return fail("Window %v is shorter than Deadline %v + Lease %v: a key could be forgotten while its first attempt runs", p.Window, p.Deadline, p.Lease)
	case p.Effect.class == ClassKeyed && p.Effect.partnerWindow <= inFlight:
		return fail("partner window %v is not longer than Deadline %v + Lease %v: no second attempt would fit", p.Effect.partnerWindow, p.Deadline, p.Lease)
	case p.Effect.class != ClassKeyed && len(r.BoundToKey) > 0:
		return fail("BoundToKey is for keyed effects only")
	case r.MaxAttempts < 1, r.MaxBody < 1, r.MaxResult < 1, r.Limits.Open < 0, r.Limits.Unclear < 0:
		return fail("MaxAttempts, MaxBody and MaxResult must be positive, and Limits not negative")
	case r.MaxResult > mostMaxResult:
		return fail("MaxResult %d is over %d: larger answers are for a resource of their own", r.MaxResult, int64(mostMaxResult))
	case p.KeyAge != KeyAgeNone && r.Tombstone < MaxKeySkew:
		return fail("Tombstone %v is shorter than %v: a key whose own time lies that far ahead would be new again before it is old", r.Tombstone, MaxKeySkew)
	case p.KeyAge > KeyAgeUUIDv7:
		return fail("unknown KeyAge %d", p.KeyAge)
	}
	for status, end := range r.Statuses {
		if status < 200 || status > 599 || end < EndOpen || end > EndSuccess {
			return fail("Statuses: %d to %v: want a final status and open, no_effect, refused or success", status, end)
		}
	}
	for _, status := range slices.Concat(r.RefusesBeforeEffect, r.BoundToKey) {
		if status < 400 || status > 599 {
			return fail("status %d in RefusesBeforeEffect or BoundToKey is no error status", status)
		}
	}
	return nil
}

func checkName(name string) error {
	if name == "" || len(name) > maxNameLength {
		return fmt.Errorf("want 1 to %d bytes", maxNameLength)
	}
	bad := strings.IndexFunc(name, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./", r))
	})
	if bad >= 0 {
		return fmt.Errorf("%q is not allowed: letters, digits, '-', '_', '.', '/'", name[bad:bad+1])
	}
	return nil
}

// terms are what the policy's records carry.
func (p Policy) terms() Terms {
	return Terms{
		Owner: p.Owner, Class: p.Effect.class, Deadline: p.Deadline, Lease: p.Lease, Window: p.Window,
		KeepResult: p.Rules.KeepResult, Tombstone: p.Rules.Tombstone, UnclearDeadline: p.Rules.UnclearDeadline,
		PartnerWindow: p.Effect.partnerWindow, Backoff: p.Rules.Backoff, MaxAttempts: p.Rules.MaxAttempts,
	}
}

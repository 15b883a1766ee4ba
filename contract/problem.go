package contract

import (
	"encoding/json"
	"strconv"
	"time"
)

// Next tells a machine what to do after a refusal.
type Next string

const (
	NextWait    Next = "wait"    // the same key again, after Retry-After
	NextRetry   Next = "retry"   // the same key again, now
	NextFix     Next = "fix"     // correct the request first
	NextResolve Next = "resolve" // learn the outcome first; no new key
)

// Kind names a situation. It is the last part of a problem's type URL.
type Kind string

const (
	KeyMissing       Kind = "key-missing"
	KeyInvalid       Kind = "key-invalid"
	NotYours         Kind = "not-yours"
	KeyReused        Kind = "key-reused"
	ResultNotStored  Kind = "result-not-stored"
	Withdrawn        Kind = "withdrawn"
	InProgress       Kind = "in-progress"
	OutcomeUnclear   Kind = "outcome-unclear"
	KeyExpired       Kind = "key-expired"
	Paused           Kind = "paused"
	Stopping         Kind = "stopping"
	StoreUnavailable Kind = "store-unavailable"
	StoreRestored    Kind = "store-restored"
	RecordUnreadable Kind = "record-unreadable"
	TooManyOpen      Kind = "too-many-open"
	BodyTooLarge     Kind = "body-too-large"
	BodyIncomplete   Kind = "body-incomplete"
	NotKnown         Kind = "not-known"
	ResultUnknown    Kind = "result-unknown"
)

// Situation is what the contract says of a Kind.
type Situation struct {
	Kind   Kind   `json:"kind"`
	Status int    `json:"status"` // of the answer, where it is not the handler's own or the stored one
	Title  string `json:"title"`  // one line, the same for every occurrence
	Next   Next   `json:"next"`
	Means  string `json:"means"` // what happened and what did not, for the contract page
	Do     string `json:"do"`    // the client's next step
}

// Situations is the whole list, in the order of the contract page.
var Situations = []Situation{
	{
		KeyMissing, 400, "This operation needs an Idempotency-Key", NextFix,
		"The request carried no key, and this operation requires one. Nothing was executed.",
		"Send the request with an Idempotency-Key of your own making, and keep the key for retries.",
	},
	{
		KeyInvalid, 400, "The Idempotency-Key cannot be used", NextFix,
		"The key was malformed, too long, sent twice, or claims a time in the future. Nothing was executed.",
		"Send one key: a quoted string, or a bare value of printable ASCII without space, quote, comma, semicolon and backslash; at most 255 bytes.",
	},
	{
		BodyTooLarge, 413, "The request body is too large for this operation", NextFix,
		"The body is over the operation's limit. Nothing was executed.",
		"Send a smaller body.",
	},
	{
		BodyIncomplete, 400, "The request body did not arrive whole", NextRetry,
		"The connection ended or failed before the whole body was here. Nothing was reserved and nothing was executed.",
		"Send the same request with the same key again.",
	},
	{
		NotYours, 403, "This key belongs to another principal", NextResolve,
		"Another principal of the same tenant used this key for this operation. Nothing was executed for you, and nothing of theirs is shown.",
		"Make sure that you use your own keys. If you changed your credentials, ask for the outcome with the old ones before you send anything again.",
	},
	{
		KeyReused, 422, "This key was used with other parameters", NextResolve,
		"The key names an operation with other parameters. Nothing was executed for this request.",
		"Find out what the first request was. If this is a new operation, give it a key of its own.",
	},
	{
		InProgress, 409, "The operation is still running", NextWait,
		"An attempt is running. This request executed nothing.",
		"Send the same request with the same key after Retry-After, or read the status resource.",
	},
	{
		OutcomeUnclear, 409, "Whether the operation took effect is not known", NextResolve,
		"An attempt ended without a word about its effect. It may have happened. It is never repeated on its own, and somebody owns it.",
		"Keep the key. Read the status resource or ask the operation's owner. Do not send the request with a new key.",
	},
	{
		ResultNotStored, 303, "The operation is completed; its answer was too large to store", NextResolve,
		"The operation took place once and its answer went to the first caller. Only status and size were kept.",
		"Follow the status resource, and read the effect's own resource.",
	},
	{
		ResultUnknown, 303, "The operation took effect; its answer is not known", NextResolve,
		"The operation was settled as applied, without the answer that the first caller would have got.",
		"Follow the status resource, and read the effect's own resource.",
	},
	{
		Withdrawn, 410, "The operation did not happen and shall not happen", NextFix,
		"A person settled that the operation had no effect, and closed it for ever.",
		"If you still want it, send it as a new operation with a new key.",
	},
	{
		KeyExpired, 422, "The time in which this key is recognised is over", NextResolve,
		"The key is too old for its outcome to be told. With known: true it was used; with known: false nothing of it is known any more. Nothing was executed.",
		"Find out from the effect's own resource whether the operation took place before you send it with a new key.",
	},
	{
		NotKnown, 404, "No operation of yours has this key", NextRetry,
		"Nothing is known of such an operation. That is no proof that a request with this key will not arrive later.",
		"Send the request with the same key.",
	},
	{
		Paused, 503, "This operation is paused", NextWait,
		"Somebody paused new starts. Nothing was executed. Replays and status still work.",
		"Send the same request with the same key after Retry-After.",
	},
	{
		TooManyOpen, 429, "Too many operations of this tenant are open", NextWait,
		"The tenant reached its limit of operations that are running or unclear. Nothing was executed.",
		"Send the same request with the same key after Retry-After.",
	},
	{
		Stopping, 503, "The server is stopping", NextWait,
		"The server takes no new work. Nothing was executed.",
		"Send the same request with the same key after Retry-After.",
	},
	{
		StoreUnavailable, 503, "The record store cannot be reached", NextWait,
		"Without the store nothing can be promised, so nothing was executed.",
		"Send the same request with the same key after Retry-After.",
	},
	{
		StoreRestored, 503, "The record store was restored from an older state", NextWait,
		"Records after the restored state are gone, so an unknown key may be a known one. Nothing was executed.",
		"Send the same request with the same key after Retry-After. An operator has to accept the gap first.",
	},
	{
		RecordUnreadable, 500, "The record of this operation cannot be read", NextResolve,
		"The record is damaged, so its outcome cannot be told. Nothing was executed.",
		"Keep the key, and ask the operation's owner.",
	},
}

var situations = func() map[Kind]*Situation {
	m := make(map[Kind]*Situation, len(Situations))
	for i := range Situations {
		m[Situations[i].Kind] = &Situations[i]
	}
	return m
}()

// Lookup returns what the contract says of a kind, and false for an unknown one.
func Lookup(k Kind) (Situation, bool) {
	s, ok := situations[k]
	if !ok {
		return Situation{}, false
	}
	return *s, true
}

// Problem is a refusal: the body of an application/problem+json answer (RFC 9457), and the error that Go callers get.
// Two problems are the same to errors.Is when their Kind is.
type Problem struct {
	Kind       Kind
	Title      string
	Status     int
	Detail     string
	Next       Next
	RetryAfter time.Duration // 0: not said
	ID         string        // the operation's public ID, "" where it must not be told
	Known      *bool         // of key-expired only
	Cause      error         // for logs; never sent
}

// NewProblem returns the problem of a kind with the contract's status, title and next. It panics on an unknown kind.
func NewProblem(k Kind, detail string) *Problem {
	s, ok := situations[k]
	if !ok {
		panic("contract: unknown problem kind " + string(k))
	}
	return &Problem{Kind: k, Title: s.Title, Status: s.Status, Next: s.Next, Detail: detail}
}

func (p *Problem) Error() string {
	s := "einmal: " + string(p.Kind) + ": " + p.Title
	if p.Detail != "" {
		s += ": " + p.Detail
	}
	if p.Cause != nil {
		s += ": " + p.Cause.Error()
	}
	return s
}

// Is reports whether target is a problem of the same kind.
func (p *Problem) Is(target error) bool {
	t, ok := target.(*Problem)
	return ok && t.Kind == p.Kind
}

// Unwrap returns the cause.
func (p *Problem) Unwrap() error { return p.Cause }

// RetryAfterSeconds is the Retry-After field's value: whole seconds, rounded up, "" for none.
func (p *Problem) RetryAfterSeconds() string {
	if p.RetryAfter <= 0 {
		return ""
	}
	return strconv.FormatInt(wholeSeconds(p.RetryAfter), 10)
}

// wholeSeconds rounds up: a client that waits so long never comes too early.
func wholeSeconds(d time.Duration) int64 {
	seconds := int64(d / time.Second)
	if d%time.Second > 0 {
		seconds++
	}
	return seconds
}

// Document renders the problem as RFC 9457 JSON. typeBase is what stands before the kind in the type URL, statusURL the operation's status
// resource or "".
func (p *Problem) Document(typeBase, statusURL string) []byte {
	doc := struct {
		Type       string `json:"type"`
		Title      string `json:"title"`
		Status     int    `json:"status"`
		Detail     string `json:"detail,omitempty"`
		Next       Next   `json:"next"`
		RetryAfter int64  `json:"retry_after,omitempty"`
		Operation  string `json:"operation,omitempty"`
		StatusURL  string `json:"status_url,omitempty"`
		Known      *bool  `json:"known,omitempty"`
	}{typeBase + string(p.Kind), p.Title, p.Status, p.Detail, p.Next, 0, p.ID, statusURL, p.Known}
	if p.RetryAfter > 0 {
		doc.RetryAfter = wholeSeconds(p.RetryAfter)
	}
	b, err := json.Marshal(doc)
	if err != nil {
		panic("contract: problem: " + err.Error()) // strings and numbers only
	}
	return append(b, '\n')
}

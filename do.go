package einmal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/einmal-dev/einmal/contract"
	"github.com/einmal-dev/einmal/fingerprint"
)

// Call is one request for an operation that does not come over HTTP: a message of a queue, a webhook's event.
type Call struct {
	Caller
	Key   string
	Input any           // []byte and json.RawMessage count as they are, anything else as canonical JSON with literal numbers
	Wait  time.Duration // how long a duplicate waits for a running attempt
}

// Refusal is a final "no" with its answer: what Final stores and every retry gets again, with errors.As.
type Refusal struct {
	Code    string          `json:"code,omitempty"`
	Message string          `json:"message"`
	Detail  json.RawMessage `json:"detail,omitempty"`
}

func (r *Refusal) Error() string {
	if r.Code != "" {
		return r.Code + ": " + r.Message
	}
	return r.Message
}

// ErrResultUnknown is what Do returns when the effect happened, but its result could not be stored or is not known.
var ErrResultUnknown error = contract.NewProblem(contract.ResultUnknown, "")

type endError struct {
	end End
	err error
}

func (e *endError) Error() string { return e.err.Error() }
func (e *endError) Unwrap() error { return e.err }

// Final marks an error of a handler as a final refusal: nothing happened, and every retry gets the same answer. A *Refusal in err's chain is stored as it
// is, any other error as a Refusal with its text.
func Final(err error) error { return &endError{EndRefused, err} }

// NoEffect marks an error of a handler as certified: nothing happened, and the next request may run the operation again.
func NoEffect(err error) error { return &endError{EndNoEffect, err} }

// EndOf says what a handler's error means for its attempt: nil is success, Final a refusal, NoEffect certifies, anything else is open. Of errors that were
// joined, all must say the same; a certificate beside an error that nobody knows of certifies nothing.
func EndOf(err error) End {
	if err == nil {
		return EndSuccess
	}
	switch e := err.(type) {
	case *endError:
		return e.end
	case interface{ Unwrap() error }:
		if inner := e.Unwrap(); inner != nil {
			return EndOf(inner)
		}
	case interface{ Unwrap() []error }:
		end := EndNone
		for _, inner := range e.Unwrap() {
			if inner == nil {
				continue
			}
			if of := EndOf(inner); end == EndNone || of == end {
				end = of
			} else {
				return EndOpen
			}
		}
		if end != EndNone {
			return end
		}
	}
	return EndOpen
}

// unmarked hides the mark of an error that is returned to the caller of Do: one operation's certificate says nothing of another one that it is part of.
type unmarked struct{ err error }

func (u *unmarked) Error() string        { return u.err.Error() }
func (u *unmarked) Is(target error) bool { return errors.Is(u.err, target) }

func (u *unmarked) As(target any) bool {
	if _, mark := target.(**endError); mark {
		return false
	}
	return errors.As(u.err, target)
}

// Do runs fn once for the call's key and returns its result, or the recorded one.
//
// The result is stored as JSON; the first call and every replay return the decoded stored bytes. fn says how it ended by its error, see EndOf; its
// context ends at the operation's deadline, not with ctx. Do returns a *Refusal where fn said Final, the error of fn where it said NoEffect, and a
// *Problem for everything else: ErrUnclear wraps an open error of fn, ErrInProgress, ErrKeyReused, ErrNotYours, ErrKeyExpired, ErrPaused, ErrWithdrawn,
// ErrUnavailable. ErrResultUnknown: the effect happened and will not be repeated, but there is no result to return.
func Do[T any](ctx context.Context, op *Op, c Call, fn func(ctx context.Context, partnerKey string) (T, error)) (T, error) {
	var zero, value T
	body, err := inputBytes(c.Input)
	if err != nil {
		return zero, fmt.Errorf("einmal: input of %s: %w", op.policy.Name, err)
	}
	var said error
	req := Request{Caller: c.Caller, Key: c.Key, Wait: c.Wait, Parts: fingerprint.Parts{Method: "do", Body: body}}
	out, err := op.engine.Run(ctx, op, req, func(ctx context.Context) Ending {
		value, said = fn(ctx, PartnerKey(ctx))
		return endingOf(op, value, said)
	})
	if err != nil {
		return zero, err
	}
	rec := &out.Operation.Record
	if out.Own && said != nil {
		switch EndOf(said) {
		case EndRefused:
			return zero, refusalOf(said)
		case EndNoEffect:
			return zero, &unmarked{said}
		default:
			p := contract.NewProblem(contract.OutcomeUnclear, "")
			p.ID, p.Cause = out.Operation.ID, said
			if wait, ok := mayRunAgain(rec); ok {
				p.Next, p.RetryAfter = contract.NextWait, max(wait, retryInProgress)
			}
			return zero, p
		}
	}
	result := rec.Result
	if !out.Recorded { // the true result, though the store does not have it yet
		result = endingOf(op, value, said).Result
	}
	return decodeResult[T](out.Operation.ID, rec.Verdict, result)
}

func decodeResult[T any](id string, verdict Verdict, result *Result) (T, error) {
	var value T
	if result == nil || result.Kept != KeptWhole {
		kind := contract.ResultUnknown
		if result != nil && result.Kept == KeptTooLarge {
			kind = contract.ResultNotStored
		}
		p := contract.NewProblem(kind, "")
		p.ID = id
		return value, p
	}
	if verdict == VerdictRefused {
		refusal := new(Refusal)
		if err := json.Unmarshal(result.Body, refusal); err != nil {
			refusal.Message = string(result.Body)
		}
		return value, refusal
	}
	if err := json.Unmarshal(result.Body, &value); err != nil {
		p := contract.NewProblem(contract.ResultUnknown, "the stored result does not decode into this type")
		p.ID, p.Cause = id, err
		return value, p
	}
	return value, nil
}

func endingOf(op *Op, value any, said error) Ending {
	word := Ending{End: EndOf(said)}
	switch word.End {
	case EndSuccess:
		body, err := json.Marshal(value)
		if err != nil {
			word.Reason = "the result could not be encoded"
			return word
		}
		word.Result = keep(op, 200, body)
	case EndRefused:
		body, err := json.Marshal(refusalOf(said))
		if err == nil {
			word.Result = keep(op, 422, body)
		}
	default:
		word.Reason, word.Detail = "the handler returned an error", said.Error()
	}
	return word
}

func keep(op *Op, status int, body []byte) *Result {
	r := &Result{Status: status, Header: []Field{{"Content-Type", "application/json"}}, Body: body}
	if int64(len(body)) > op.policy.Rules.MaxResult {
		r.Body, r.Kept = nil, KeptTooLarge
	}
	return r
}

func refusalOf(err error) *Refusal {
	var r *Refusal
	if errors.As(err, &r) {
		return r
	}
	return &Refusal{Message: err.Error()}
}

func inputBytes(input any) ([]byte, error) {
	switch v := input.(type) {
	case []byte:
		return v, nil
	case json.RawMessage:
		return v, nil
	}
	text, err := json.Marshal(input)
	if err != nil {
		return nil, err
	}
	if replacesInvalid(text) {
		return nil, errors.New("a string in it is not UTF-8, and would be the same as others that are not: pass bytes instead")
	}
	return fingerprint.CanonicalJSON(text)
}

// replacesInvalid reports whether encoding/json put its escape for invalid UTF-8 into a text. A U+FFFD that was in the input stands there as itself.
func replacesInvalid(text []byte) bool {
	for i := 0; i+5 < len(text); i++ {
		if text[i] != '\\' {
			continue
		}
		if string(text[i+1:i+6]) == "ufffd" {
			return true
		}
		i++ // whatever is escaped
	}
	return false
}

package contract

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// DocumentVersion is the version of the contract document that this package reads and writes. Any member more, or any other meaning, is a new version.
const DocumentVersion = 1

// ErrDocument says that a text is not a contract document of this version.
var ErrDocument = errors.New("contract: invalid contract document")

// Document is the contract as data: what a server promises to the clients of its operations. Clients can read from it what a status means, how long
// a key is recognised, and how long a request can be in flight.
type Document struct {
	Version    int         `json:"version"`
	TypeBase   string      `json:"type_base"` // what stands before the kind in a problem's type URL
	Draft      Draft       `json:"draft"`
	Key        KeySyntax   `json:"key"`
	Headers    HeaderNames `json:"headers"`
	MaxWait    Seconds     `json:"max_wait_seconds"` // longest "Prefer: wait" that is honoured (RFC 7240), 0 for none
	Operations []Operation `json:"operations"`
	Situations []Situation `json:"situations"`
}

// Draft is what the contract was modelled on.
type Draft struct {
	Name   string `json:"name"`
	Status string `json:"status"`
	URL    string `json:"url"`
}

// KeySyntax is what ParseKey accepts.
type KeySyntax struct {
	MaxLength     int    `json:"max_length_bytes"` // after unquoting
	Quoted        string `json:"quoted"`
	Bare          string `json:"bare"`
	BareForbidden string `json:"bare_forbidden"` // characters that only a quoted key may have
}

// HeaderNames are the header fields of the contract.
type HeaderNames struct {
	Key      string `json:"key"`
	Replayed string `json:"replayed"`
	Recorded string `json:"recorded"`
	Ignored  string `json:"ignored"`
}

// Values of Operation.
const (
	EffectOpaque = "opaque"
	EffectKeyed  = "keyed"

	KeyRequired = "required"
	KeyOptional = "optional"

	KeyAgeNone   = "none"
	KeyAgeUUIDv7 = "uuidv7"
)

// Operation is the published part of one policy, with every default filled in.
type Operation struct {
	Name          string   `json:"name"`
	Effect        string   `json:"effect"`
	Key           string   `json:"key"`
	KeyAge        string   `json:"key_age"`
	Window        Seconds  `json:"window_seconds"`         // recognition, from the reservation
	KeepResult    Seconds  `json:"keep_result_seconds"`    // a result is kept at least so long after completion
	Tombstone     Seconds  `json:"tombstone_seconds"`      // after the window: recognition without the result
	Deadline      Seconds  `json:"deadline_seconds"`       // longest run of one attempt
	Lease         Seconds  `json:"lease_seconds"`          // how long an attempt may stay silent
	InFlight      Seconds  `json:"in_flight_seconds"`      // Deadline + Lease: longest time in which an attempt counts as running
	PartnerWindow Seconds  `json:"partner_window_seconds"` // keyed only, otherwise 0
	MaxAttempts   int      `json:"max_attempts"`           // keyed only, otherwise 0: attempts on an unclear operation
	MaxBody       int64    `json:"max_body_bytes"`         // of a request
	MaxResult     int64    `json:"max_result_bytes"`       // of a stored answer's body
	Parameters    []string `json:"parameters"`             // request fields beyond the usual ones that belong to the fingerprint
	Statuses      Statuses `json:"statuses"`
}

// NewDocument returns the document of a server with everything in it that is the same for all servers. typeBase is what stands before the kind in
// the type URLs of its problems.
func NewDocument(typeBase string, operations ...Operation) Document {
	return Document{
		Version:  DocumentVersion,
		TypeBase: typeBase,
		Draft: Draft{
			Name:   "draft-ietf-httpapi-idempotency-key-header-07",
			Status: "expired Internet-Draft, not a standard",
			URL:    "https://datatracker.ietf.org/doc/html/draft-ietf-httpapi-idempotency-key-header-07",
		},
		Key: KeySyntax{
			MaxLength:     MaxKeyLength,
			Quoted:        "structured-field string (RFC 9651, section 3.3.3) without parameters",
			Bare:          "printable ASCII without space; names the same key as the same text in quotes",
			BareForbidden: bareForbidden,
		},
		Headers:    HeaderNames{Key: HeaderKey, Replayed: HeaderReplayed, Recorded: HeaderRecorded, Ignored: HeaderIgnored},
		Operations: operations,
		Situations: Situations,
	}
}

// JSON validates the document and writes it. The error wraps ErrDocument.
func (d Document) JSON() ([]byte, error) {
	if err := d.Validate(); err != nil {
		return nil, err
	}
	d.Operations = slices.Clone(d.Operations)
	for i := range d.Operations {
		d.Operations[i].Parameters = nonNil(d.Operations[i].Parameters)
		d.Operations[i].Statuses = d.Operations[i].Statuses.nonNil()
	}
	d.Operations = nonNil(d.Operations)
	b, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDocument, err)
	}
	return append(b, '\n'), nil
}

func nonNil[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}

// DecodeDocument reads what JSON wrote, strictly: another version, an unknown, missing, duplicate or null member, and a value that contradicts another
// one are errors that wrap ErrDocument. A client that cannot read the contract must not guess what a status means.
func DecodeDocument(text []byte) (Document, error) {
	fail := func(err error) (Document, error) { return Document{}, fmt.Errorf("%w: %w", ErrDocument, err) }
	got, err := memberPaths(text)
	if err != nil {
		return fail(err)
	}
	var version struct {
		Version int `json:"version"`
	}
	if err := json.Unmarshal(text, &version); err != nil {
		return fail(err)
	}
	if version.Version != DocumentVersion {
		return fail(fmt.Errorf("version %d, want %d", version.Version, DocumentVersion))
	}
	var d Document
	if err := json.Unmarshal(text, &d); err != nil {
		return fail(err)
	}
	again, err := d.JSON()
	if err != nil {
		return Document{}, err
	}
	want, err := memberPaths(again)
	if err != nil {
		return fail(err)
	}
	if err := sameMembers(got, want); err != nil {
		return fail(err)
	}
	return d, nil
}

// Validate checks that the document is complete and does not contradict itself. The error wraps ErrDocument.
func (d Document) Validate() error {
	fail := func(format string, args ...any) error {
		return fmt.Errorf("%w: "+format, append([]any{ErrDocument}, args...)...)
	}
	switch {
	case d.Version != DocumentVersion:
		return fail("version %d, want %d", d.Version, DocumentVersion)
	case d.TypeBase == "":
		return fail("no type_base")
	case d.Draft.Name == "" || d.Draft.Status == "":
		return fail("draft: no name or status")
	case d.Headers.Key == "" || d.Headers.Replayed == "" || d.Headers.Recorded == "" || d.Headers.Ignored == "":
		return fail("headers: a name is missing")
	case d.Key.MaxLength < 1:
		return fail("key: max_length_bytes %d", d.Key.MaxLength)
	case d.MaxWait < 0:
		return fail("max_wait_seconds is negative")
	case len(d.Situations) == 0:
		return fail("no situations")
	}
	kinds := map[Kind]bool{}
	for _, s := range d.Situations {
		switch s.Next {
		case NextWait, NextRetry, NextFix, NextResolve:
		default:
			return fail("situation %q: unknown next %q", s.Kind, s.Next)
		}
		if s.Kind == "" || s.Title == "" || s.Means == "" || s.Do == "" || kinds[s.Kind] {
			return fail("situation %q: named twice, or without a text", s.Kind)
		}
		if s.Status < 300 || s.Status > 599 {
			return fail("situation %q: status %d", s.Kind, s.Status)
		}
		kinds[s.Kind] = true
	}
	names := map[string]bool{}
	for _, op := range d.Operations {
		if names[op.Name] {
			return fail("operation %q: named twice", op.Name)
		}
		names[op.Name] = true
		if err := op.validate(); err != nil {
			return fail("operation %q: %w", op.Name, err)
		}
	}
	return nil
}

func (o *Operation) validate() error {
	keyed := o.Effect == EffectKeyed
	switch {
	case o.Name == "":
		return errors.New("no name")
	case !keyed && o.Effect != EffectOpaque:
		return fmt.Errorf("unknown effect %q", o.Effect)
	case o.Key != KeyRequired && o.Key != KeyOptional:
		return fmt.Errorf("key %q is neither %s nor %s", o.Key, KeyRequired, KeyOptional)
	case o.KeyAge != KeyAgeNone && o.KeyAge != KeyAgeUUIDv7:
		return fmt.Errorf("unknown key_age %q", o.KeyAge)
	case o.Window <= 0 || o.Deadline <= 0 || o.Lease <= 0 || o.KeepResult < 0 || o.Tombstone < 0:
		return errors.New("window, deadline and lease must be positive, keep_result and tombstone not negative")
	case o.InFlight != o.Deadline+o.Lease:
		return fmt.Errorf("in_flight_seconds %v is not deadline %v + lease %v", o.InFlight, o.Deadline, o.Lease)
	case keyed && (o.PartnerWindow <= o.InFlight || o.MaxAttempts < 1):
		return errors.New("keyed needs a partner window longer than in flight, and max_attempts")
	case !keyed && (o.PartnerWindow != 0 || o.MaxAttempts != 0 || len(o.Statuses.BoundToKey) > 0):
		return errors.New("partner_window_seconds, max_attempts and bound_to_key are of keyed only")
	case o.MaxBody < 1 || o.MaxResult < 1:
		return errors.New("max_body_bytes and max_result_bytes must be positive")
	}
	return o.Statuses.validate(o.Effect)
}

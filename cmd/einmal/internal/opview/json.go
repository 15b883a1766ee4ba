package opview

import (
	"encoding/json"
	"io"
	"unicode/utf8"

	"github.com/einmal-dev/einmal"
)

// operation is an operation in JSON. Members that do not apply are left out, times are RFC 3339 in UTC, durations are seconds.
type operation struct {
	ID           string      `json:"id"`
	Tenant       string      `json:"tenant"`
	Operation    string      `json:"operation"`
	Key          string      `json:"key"`
	Principal    string      `json:"principal"`
	State        string      `json:"state"`
	Verdict      string      `json:"verdict,omitempty"`
	Means        string      `json:"means"`
	Callers      string      `json:"callers_get"`
	Reason       string      `json:"reason,omitempty"`
	Effect       string      `json:"effect"`
	Owner        string      `json:"owner"`
	Attempt      int         `json:"attempt"`
	Version      int64       `json:"version"`
	MayRunAgain  bool        `json:"may_run_again"`
	Attention    bool        `json:"attention"`
	Escalations  int         `json:"escalations"`
	PartnerKey   string      `json:"partner_key,omitempty"`
	Created      string      `json:"created"`
	Since        string      `json:"since"`
	LeaseUntil   string      `json:"lease_until,omitempty"`
	InFlight     string      `json:"in_flight_until,omitempty"`
	Due          string      `json:"due,omitempty"`
	Recognised   string      `json:"recognised_until"`
	PartnerUntil string      `json:"partner_window_until,omitempty"`
	Now          string      `json:"now"`
	Attempts     []attempt   `json:"attempts,omitempty"`
	Result       *result     `json:"result,omitempty"`
	Timeline     []timelined `json:"timeline,omitempty"`
}

type attempt struct {
	Attempt int    `json:"attempt"`
	End     string `json:"end"`
	By      string `json:"by,omitempty"`
	Over    bool   `json:"over"`
	Why     string `json:"why"`
}

type result struct {
	Status     int         `json:"status,omitempty"`
	Kept       string      `json:"kept"`
	Size       int         `json:"size_bytes"`
	Header     [][2]string `json:"header,omitempty"`
	Body       *string     `json:"body,omitempty"`        // if it is text
	BodyBase64 []byte      `json:"body_base64,omitempty"` // if it is not
}

type timelined struct {
	At      string `json:"at"`
	Event   string `json:"event"`
	From    string `json:"from,omitempty"`
	To      string `json:"to"`
	Attempt int    `json:"attempt,omitempty"`
	Actor   string `json:"actor"`
	By      string `json:"by,omitempty"`
	Reason  string `json:"reason,omitempty"`
	Link    string `json:"link,omitempty"`
}

func document(op *einmal.Operation) operation {
	_, again := op.MayRunAgain()
	d := operation{
		ID: op.ID, Tenant: op.Tenant, Operation: op.Operation, Key: op.Key, Principal: op.Principal,
		State: op.State.String(), Verdict: op.Verdict.String(), Means: Means(op), Callers: Callers(op), Reason: op.Reason,
		Effect: op.Terms.Class.String(), Owner: op.Terms.Owner, Attempt: op.Attempt, Version: op.Version,
		MayRunAgain: again, Attention: op.Attention, Escalations: op.Escalations, PartnerKey: op.PartnerKey,
		Created: rfc3339(op.Created), Since: rfc3339(op.Changed), LeaseUntil: rfc3339(op.LeaseUntil), Due: rfc3339(op.Due),
		Recognised: rfc3339(op.RecognisedUntil), Now: rfc3339(op.Now),
	}
	if op.State == einmal.StateRunning {
		d.InFlight = rfc3339(op.InFlightUntil())
	}
	if op.Terms.PartnerWindow > 0 {
		d.PartnerUntil = rfc3339(op.Created.Add(op.Terms.PartnerWindow))
	}
	return d
}

// ListJSON writes one document: {"operations": […], "next": cursor}.
func ListJSON(w io.Writer, page []einmal.Operation, next string) error {
	doc := struct {
		Operations []operation `json:"operations"`
		Next       string      `json:"next,omitempty"`
	}{Operations: make([]operation, len(page)), Next: next}
	for i := range page {
		doc.Operations[i] = document(&page[i])
	}
	return write(w, doc)
}

// JSON writes one document with everything about an operation.
func (d Detail) JSON(w io.Writer) error {
	doc := document(&d.Operation)
	for _, a := range d.attempts() {
		doc.Attempts = append(doc.Attempts, attempt{a.Attempt, a.end, a.by, a.Over, a.Why})
	}
	if r := d.Operation.Result; r != nil {
		doc.Result = &result{Status: r.Status, Kept: kept(r), Size: len(r.Body)}
		for _, f := range r.Header {
			doc.Result.Header = append(doc.Result.Header, [2]string{f.Name, f.Value})
		}
		switch {
		case !d.Body || r.Kept != einmal.KeptWhole:
		case utf8.Valid(r.Body):
			body := string(r.Body)
			doc.Result.Body = &body
		default:
			doc.Result.BodyBase64 = r.Body
		}
	}
	for _, e := range d.Timeline {
		line := timelined{rfc3339(e.At), e.Event, "", e.To.String(), e.Attempt, e.Actor.String(), e.By, e.Reason, e.Link}
		if e.From != 0 {
			line.From = e.From.String()
		}
		doc.Timeline = append(doc.Timeline, line)
	}
	return write(w, doc)
}

func kept(r *einmal.Result) string {
	switch r.Kept {
	case einmal.KeptWhole:
		return "whole"
	case einmal.KeptTooLarge:
		return "too_large"
	}
	return "unknown"
}

func write(w io.Writer, doc any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(doc)
}

package einmalhttp

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/einmal-dev/einmal"
	"github.com/einmal-dev/einmal/contract"
)

// ServeHTTP answers the resources: status/{id}, status?operation=NAME with an Idempotency-Key, result/{id}, and contract.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	resource, id, hasID := s.resource(r.URL.Path)
	var serve func(http.ResponseWriter, *http.Request, einmal.Operation)
	switch {
	case resource == "contract":
	case resource == "status":
		serve = s.serveStatus
	case resource == "result":
		serve = s.serveResult
	default:
		writePlain(w, http.StatusNotFound, "Resources: status, result, contract.")
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		writePlain(w, http.StatusMethodNotAllowed, "")
		return
	}
	if serve == nil {
		s.serveContract(w, r)
		return
	}
	op, err := s.lookUp(r, id, hasID)
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	s.link(w.Header(), op.ID)
	serve(w, r, op)
}

// resource finds the resource that a path ends with, "" for none: below the prefix, which may itself stand below something else, or where the prefix was
// stripped, at the path's beginning.
func (s *Server) resource(path string) (name, id string, hasID bool) {
	for rest := path; ; {
		i := strings.Index(rest, s.cfg.Prefix)
		if i < 0 {
			return cutResource(path)
		}
		if name, id, hasID = cutResource(rest[i+len(s.cfg.Prefix):]); name != "" {
			return name, id, hasID
		}
		rest = rest[i+1:]
	}
}

func cutResource(path string) (name, id string, hasID bool) {
	name, id, hasID = strings.Cut(strings.Trim(path, "/"), "/")
	if name == "status" || name == "result" && hasID || name == "contract" && !hasID {
		return name, id, hasID
	}
	return "", "", false
}

// lookUp finds the operation that a request asks for. What belongs to another tenant or principal is not known, as if it did not exist.
func (s *Server) lookUp(r *http.Request, id string, byID bool) (einmal.Operation, error) {
	caller, err := s.whoSends(r)
	if err != nil {
		return einmal.Operation{}, err
	}
	var op einmal.Operation
	if byID {
		op, err = s.engine.Get(r.Context(), id)
	} else {
		name := r.URL.Query().Get("operation")
		if name == "" {
			return op, &AuthError{Status: http.StatusBadRequest, Detail: "Ask for status/{id}, or for status?operation=NAME with the Idempotency-Key field."}
		}
		key, keyErr := s.readKey(r)
		if keyErr != nil {
			return op, keyErr
		}
		op, err = s.engine.Find(r.Context(), einmal.Identity{Tenant: caller.Tenant, Operation: name, Key: key})
	}
	unreadable := errors.Is(err, einmal.ErrUnreadable) && !byID // by ID nobody can tell whose it is
	switch {
	case unreadable:
		return op, contract.NewProblem(contract.RecordUnreadable, "")
	case errors.Is(err, einmal.ErrNotFound), errors.Is(err, einmal.ErrUnreadable):
		return op, contract.NewProblem(contract.NotKnown, "")
	case err != nil:
		return op, unavailable(err)
	case op.Tenant != caller.Tenant || op.Principal != caller.Principal:
		return op, contract.NewProblem(contract.NotKnown, "")
	}
	return op, s.authorized(r, op)
}

// nextStep is what the operation's caller should do, "" when there is nothing left to do, and after how long.
func nextStep(op *einmal.Operation) (contract.Next, time.Duration) {
	switch op.State {
	case einmal.StateAccepted, einmal.StateRunning:
		return contract.NextWait, time.Second
	case einmal.StateUnclear:
		if wait, again := op.MayRunAgain(); again {
			return contract.NextWait, max(wait, time.Second)
		}
		return contract.NextResolve, max(op.Due.Sub(op.Now), time.Second)
	case einmal.StateNotApplied:
		return contract.NextRetry, 0
	case einmal.StateExpired:
		return contract.NextResolve, 0
	case einmal.StateCompleted:
		if op.Verdict == einmal.VerdictWithdrawn {
			return contract.NextFix, 0
		}
	}
	return "", 0
}

// status is the status resource. Its members are part of the contract: docs/contract.md.
type status struct {
	ID        string        `json:"id"`
	Operation string        `json:"operation"`
	State     string        `json:"state"`
	Verdict   string        `json:"verdict,omitempty"`
	Attempt   int           `json:"attempt"`
	Reason    string        `json:"reason,omitempty"`
	Next      contract.Next `json:"next,omitempty"`
	After     int64         `json:"retry_after,omitempty"`
	Owner     string        `json:"owner,omitempty"` // who has to clear it up, while it is unclear

	Created         time.Time  `json:"created"`
	Since           time.Time  `json:"since"`
	InFlightUntil   *time.Time `json:"in_flight_until,omitempty"`
	RecognisedUntil time.Time  `json:"recognised_until"`

	Result *statusResult `json:"result,omitempty"`
}

type statusResult struct {
	Kept   string `json:"kept"` // "whole", "too_large" or "unknown"
	Status int    `json:"status,omitempty"`
	Size   *int64 `json:"size,omitempty"`
	URL    string `json:"url,omitempty"` // where it can be read again
}

func (s *Server) serveStatus(w http.ResponseWriter, r *http.Request, op einmal.Operation) {
	next, after := nextStep(&op)
	doc := status{
		ID: op.ID, Operation: op.Operation, State: op.State.String(), Verdict: op.Verdict.String(), Attempt: op.Attempt, Reason: op.Reason,
		Next: next, After: int64((after + time.Second - 1) / time.Second),
		Created: op.Created.UTC(), Since: op.Changed.UTC(), RecognisedUntil: op.RecognisedUntil.UTC(),
	}
	switch op.State {
	case einmal.StateUnclear:
		doc.Owner = op.Terms.Owner
	case einmal.StateRunning:
		until := op.InFlightUntil().UTC()
		doc.InFlightUntil = &until
	case einmal.StateCompleted:
		if op.Verdict != einmal.VerdictWithdrawn {
			doc.Result = s.statusResult(&op)
		}
	}
	body, _ := json.MarshalIndent(doc, "", "  ") // strings, numbers and times only
	body = append(body, '\n')
	h := w.Header()
	if after > 0 {
		h.Set("Retry-After", strconv.FormatInt(doc.After, 10))
	}
	doc.After = 0 // what counts down is no other answer
	stable, _ := json.Marshal(doc)
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	writeTagged(w, r, body, stable)
}

func (s *Server) statusResult(op *einmal.Operation) *statusResult {
	res := op.Result
	switch {
	case res == nil || res.Kept == einmal.KeptUnknown:
		return &statusResult{Kept: "unknown"}
	case res.Kept == einmal.KeptTooLarge:
		kept := &statusResult{Kept: "too_large", Status: res.Status}
		for _, f := range res.Header {
			if size, err := strconv.ParseInt(f.Value, 10, 64); f.Name == "Content-Length" && err == nil {
				kept.Size = &size
			}
		}
		return kept
	}
	size := int64(len(res.Body))
	return &statusResult{Kept: "whole", Status: res.Status, Size: &size, URL: s.resultURL(op.ID)}
}

// serveResult gives the stored answer as a replay would, or the refusal that a repeated request would meet now.
func (s *Server) serveResult(w http.ResponseWriter, _ *http.Request, op einmal.Operation) {
	if op.State == einmal.StateCompleted {
		w.Header().Del("Link") // stored sets it, after the answer's own
		s.stored(w, &op)
		return
	}
	var p *contract.Problem
	switch op.State {
	case einmal.StateUnclear:
		p = contract.NewProblem(contract.OutcomeUnclear, op.Reason)
	case einmal.StateExpired:
		known := true
		p = contract.NewProblem(contract.KeyExpired, "")
		p.Known = &known
	case einmal.StateNotApplied:
		p = contract.NewProblem(contract.NotKnown, "There is no result: the operation was not applied, and the next request with its key runs it.")
	default:
		p = contract.NewProblem(contract.InProgress, "")
	}
	p.Next, p.RetryAfter = nextStep(&op)
	w.Header().Del("Link") // problem sets it
	p.ID = op.ID
	s.problem(w, p)
}

// writeTagged answers with an ETag over tagged, or with 304 where the client has it.
func writeTagged(w http.ResponseWriter, r *http.Request, body, tagged []byte) {
	sum := sha256.Sum256(tagged)
	tag := `"` + base64.RawURLEncoding.EncodeToString(sum[:15]) + `"`
	h := w.Header()
	h.Set("ETag", tag)
	for have := range strings.SplitSeq(strings.Join(r.Header.Values("If-None-Match"), ","), ",") {
		if have = strings.TrimPrefix(strings.TrimSpace(have), "W/"); have == tag || have == "*" {
			h.Del("Content-Type")
			w.WriteHeader(http.StatusNotModified)
			return
		}
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write(body)
}

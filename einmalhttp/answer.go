package einmalhttp

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/einmal-dev/einmal"
	"github.com/einmal-dev/einmal/contract"
	"github.com/einmal-dev/einmal/internal/mutant"
)

// answer writes what Run found. It returns the error of a Serve function that nobody has answered yet.
func (x *exchange) answer(out einmal.Outcome, err error) error {
	if x.early {
		return nil
	}
	if err != nil {
		x.refuseRun(err)
		return nil
	}
	h := x.w.Header()
	if !out.Own {
		x.applied(h)
		return x.replay(x.w, &out.Operation)
	}
	switch {
	case x.said && x.spool.lost == nil:
		x.spool.fill(h)
		x.own(h, &out)
		if err := x.spool.send(x.w); err != nil {
			x.log.ErrorContext(x.r.Context(), "einmalhttp: answering", "operation", x.op.name, "id", out.Operation.ID, "error", err)
			panic(http.ErrAbortHandler) // the client must not take what it has for the whole
		}
	case x.said:
		x.log.ErrorContext(x.r.Context(), "einmalhttp: an answer could not be kept whole", "operation", x.op.name, "id", out.Operation.ID, "error", x.spool.lost)
		x.recorded(h, &out)
		x.notStored(x.w, &out.Operation, x.spool.status)
	case x.fnErr != nil:
		x.own(h, &out)
		h["Cache-Control"] = []string{"no-store"}
		if einmal.EndOf(x.fnErr) == einmal.EndRefused {
			return refusalOf(x.fnErr)
		}
		return x.fnErr
	default:
		x.recorded(h, &out)
		x.problem(x.w, x.unclear(&out.Operation))
	}
	if x.fnErr != nil {
		x.log.WarnContext(x.r.Context(), "einmalhttp: a handler answered and returned an error", "operation", x.op.name, "id", out.Operation.ID, "error", x.fnErr)
	}
	return nil
}

// own adds our fields to the first caller's answer.
func (x *exchange) own(h http.Header, out *einmal.Outcome) {
	x.link(h, out.Operation.ID)
	x.recorded(h, out)
}

func (x *exchange) recorded(h http.Header, out *einmal.Outcome) {
	if !out.Recorded {
		h[contract.HeaderRecorded] = []string{"false"}
	}
}

// unclear is the answer to a caller whose own attempt said nothing: 504 when its time was over, else 502.
func (x *exchange) unclear(op *einmal.Operation) *contract.Problem {
	p := contract.NewProblem(contract.OutcomeUnclear, op.Reason)
	p.Status = http.StatusBadGateway
	if x.overtime {
		p.Status = http.StatusGatewayTimeout
	}
	p.ID = op.ID
	p.Next, p.RetryAfter = nextStep(op)
	return p
}

// refuseRun answers an error of Run.
func (x *exchange) refuseRun(err error) {
	var p *contract.Problem
	if !errors.As(err, &p) {
		if cause := x.r.Context().Err(); cause != nil && errors.Is(err, cause) {
			x.refuse(contract.NewProblem(contract.Stopping, "The client left before the operation began.")) // to nobody, usually
			return
		}
		x.refuse(err)
		return
	}
	if p.ID != "" && x.spool == nil { // one's own operation, but not one's own attempt
		if err := x.fresh(); err != nil {
			x.refuse(err)
			return
		}
		if err := x.permitted(p.ID); err != nil {
			x.refuse(err)
			return
		}
		x.applied(x.w.Header())
	}
	if mutant.On("link-on-not-yours") && p.Kind == contract.NotYours {
		op, _ := x.engine.Find(x.r.Context(), einmal.Identity{Tenant: x.caller.Tenant, Operation: x.op.name, Key: x.key})
		p.ID = op.ID
	}
	x.problem(x.w, p)
}

// applied says that a duplicate's wish to wait was honoured.
func (x *exchange) applied(h http.Header) {
	if x.wait > 0 {
		h.Set("Preference-Applied", "wait="+strconv.Itoa(int(x.wait/time.Second)))
	}
}

// replay writes a completed operation's stored answer, or what stands for it.
func (x *exchange) replay(w http.ResponseWriter, op *einmal.Operation) error {
	if x.call.fn != nil && op.Verdict == einmal.VerdictRefused {
		if refusal := storedRefusal(op.Result); refusal != nil {
			x.link(w.Header(), op.ID)
			setReplayed(w.Header())
			return refusal
		}
	}
	x.stored(w, op)
	return nil
}

func setReplayed(h http.Header) {
	h[contract.HeaderReplayed] = []string{"true"}
	h["Cache-Control"] = []string{"no-store"}
}

// stored writes the stored answer of a completed operation.
func (s *Server) stored(w http.ResponseWriter, op *einmal.Operation) {
	res := op.Result
	switch {
	case op.Verdict == einmal.VerdictWithdrawn:
		p := contract.NewProblem(contract.Withdrawn, op.Reason)
		p.ID = op.ID
		s.problem(w, p)
		return
	case res == nil || res.Kept == einmal.KeptUnknown:
		p := contract.NewProblem(contract.ResultUnknown, "")
		p.ID = op.ID
		w.Header().Set("Location", s.statusURL(op.ID))
		s.problem(w, p)
		return
	case res.Status < 200 || res.Status > 599: // no final answer: net/http would panic, or wait for another one
		p := contract.NewProblem(contract.RecordUnreadable, "")
		p.ID = op.ID
		s.log.Error("einmalhttp: a stored answer has an impossible status", "operation", op.Operation, "id", op.ID, "status", res.Status)
		s.problem(w, p)
		return
	case res.Kept == einmal.KeptTooLarge:
		s.notStored(w, op, res.Status)
		return
	}
	h := w.Header()
	fillStored(h, res.Header)
	setReplayed(h)
	s.link(h, op.ID)
	if res.Status == http.StatusNoContent || res.Status == http.StatusNotModified {
		w.WriteHeader(res.Status)
		return
	}
	h["Content-Length"] = []string{strconv.Itoa(len(res.Body))}
	w.WriteHeader(res.Status)
	if len(res.Body) > 0 {
		_, _ = w.Write(res.Body)
	}
}

// notStored answers for a result that was too large to store: 303 to the status resource if it was a success, else its own status.
func (s *Server) notStored(w http.ResponseWriter, op *einmal.Operation, status int) {
	p := contract.NewProblem(contract.ResultNotStored, "")
	p.ID = op.ID
	if status >= 400 {
		p.Status = status
	} else {
		w.Header().Set("Location", s.statusURL(op.ID))
	}
	s.problem(w, p)
}

// problem writes a refusal. Where the problem names no operation, neither does the answer.
func (s *Server) problem(w http.ResponseWriter, p *contract.Problem) {
	h, statusURL := w.Header(), ""
	if p.ID != "" {
		statusURL = s.statusURL(p.ID)
		s.link(h, p.ID)
	}
	if after := p.RetryAfterSeconds(); after != "" {
		h.Set("Retry-After", after)
	}
	writeProblem(w, p.Status, p.Document(s.typeBase, statusURL))
}

func writeProblem(w http.ResponseWriter, status int, document []byte) {
	h := w.Header()
	for _, name := range []string{"Content-Encoding", "Etag", "Last-Modified"} { // set for another answer
		h.Del(name)
	}
	h["Content-Type"] = []string{"application/problem+json"}
	h["Cache-Control"] = []string{"no-store"}
	h["Content-Length"] = []string{strconv.Itoa(len(document))}
	w.WriteHeader(status)
	_, _ = w.Write(document)
}

// plainProblem is a problem that HTTP's own status says all about (RFC 9457, section 4.2.1).
type plainProblem struct {
	Type   string        `json:"type"`
	Title  string        `json:"title"`
	Status int           `json:"status"`
	Detail string        `json:"detail,omitempty"`
	Next   contract.Next `json:"next"`
	After  int64         `json:"retry_after,omitempty"`
}

func writePlain(w http.ResponseWriter, status int, detail string) {
	p := plainProblem{Type: "about:blank", Title: http.StatusText(status), Status: status, Detail: detail, Next: contract.NextFix}
	if status >= 500 {
		p.Next = contract.NextWait
		if after := w.Header().Get("Retry-After"); after != "" {
			p.After, _ = strconv.ParseInt(after, 10, 64)
		}
	}
	document, _ := json.Marshal(p) // strings and numbers only
	writeProblem(w, status, append(document, '\n'))
}

func unavailable(cause error) *contract.Problem {
	p := contract.NewProblem(contract.StoreUnavailable, "")
	p.Cause, p.RetryAfter = cause, time.Second
	return p
}

// asRefusal gives an error of Identify or Authorize its answer.
func asRefusal(err error, status int) error {
	if e, p := (*AuthError)(nil), (*contract.Problem)(nil); errors.As(err, &e) || errors.As(err, &p) {
		return err
	}
	return &AuthError{Status: status, Cause: err}
}

// refuse answers an error that is a *contract.Problem or an *AuthError; any other is a bug or a broken part, and is logged.
func (x *exchange) refuse(err error) { x.Server.refuse(x.w, x.r, err) }

func (s *Server) refuse(w http.ResponseWriter, r *http.Request, err error) {
	var auth *AuthError
	var p *contract.Problem
	switch {
	case errors.As(err, &auth):
		if auth.Status < 400 || auth.Status > 599 {
			auth = &AuthError{Status: http.StatusInternalServerError, Cause: auth}
		}
		if auth.Status >= 500 {
			s.log.ErrorContext(r.Context(), "einmalhttp: cannot tell who sends a request, or what they may do", "error", auth)
			after := contract.Problem{RetryAfter: max(auth.RetryAfter, time.Second)}
			w.Header().Set("Retry-After", after.RetryAfterSeconds())
		}
		if auth.Challenge != "" {
			w.Header().Set("WWW-Authenticate", auth.Challenge)
		}
		writePlain(w, auth.Status, auth.Detail)
	case errors.As(err, &p):
		switch p.Cause {
		case errBodyConsumed:
			s.log.ErrorContext(r.Context(), "einmalhttp: "+errBodyConsumed.Error(), "path", r.URL.Path)
		case errBodyEmpty:
			s.log.WarnContext(r.Context(), "einmalhttp: "+errBodyEmpty.Error(), "path", r.URL.Path)
		}
		s.problem(w, p)
	default:
		s.log.ErrorContext(r.Context(), "einmalhttp: cannot run an operation", "error", err)
		w.Header().Set("Retry-After", "1")
		writePlain(w, http.StatusInternalServerError, "")
	}
}

func (s *Server) link(h http.Header, id string) {
	h["Link"] = append(h["Link"], s.linkHead+id+`>; rel="status"`)
}

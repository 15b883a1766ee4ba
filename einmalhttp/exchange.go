package einmalhttp

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/einmal-dev/einmal"
	"github.com/einmal-dev/einmal/contract"
	"github.com/einmal-dev/einmal/internal/mutant"
)

// Wrap returns the middleware that makes requests to a handler one operation. It fits every router that takes net/http middleware.
func (s *Server) Wrap(op *einmal.Op) func(http.Handler) http.Handler {
	o := s.operation(op)
	return func(next http.Handler) http.Handler {
		switch next := next.(type) {
		case nil:
			panic("einmalhttp: Wrap(" + o.name + "): the handler is nil")
		case *wrapped:
			panic("einmalhttp: Wrap(" + o.name + "): the handler is wrapped already, as " + next.op.name)
		}
		return &wrapped{server: s, op: o, next: next}
	}
}

type wrapped struct {
	server *Server
	op     *operation
	next   http.Handler
}

func (h *wrapped) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_ = h.server.handle(w, r, h.op, call{next: h.next})
}

// Serve does one request for frameworks whose handlers return errors. fn must run the framework's handler on the writer and request that it gets.
//
// An error of fn says how the attempt ended: einmal.Final a refusal, einmal.NoEffect that nothing happened, any other that nobody knows. An error is
// returned only where nothing was written, for the framework to answer. So an answer of 400 or more that fn wrote beside its error is sent, and the
// error logged; an answer under 400 beside an error is dropped. A Final that was not answered inside fn comes back as *einmal.Refusal, the first time
// and every time, so that the framework answers it alike.
//
// fn returning nil without having written anything is no answer: the framework may have kept an error for later. The operation is unclear then.
func (s *Server) Serve(w http.ResponseWriter, r *http.Request, op *einmal.Op, fn func(http.ResponseWriter, *http.Request) error) error {
	if fn == nil {
		panic("einmalhttp: Serve: the function is nil")
	}
	return s.handle(w, r, s.operation(op), call{fn: fn})
}

// call is what an operation runs: a handler, or a function that returns an error.
type call struct {
	next http.Handler
	fn   func(http.ResponseWriter, *http.Request) error
}

func (c call) run(w http.ResponseWriter, r *http.Request) error {
	if c.fn != nil {
		return c.fn(w, r)
	}
	c.next.ServeHTTP(w, r)
	return nil
}

// exchange is one request for an operation, from its arrival to its answer.
type exchange struct {
	*Server
	op   *operation
	call call
	w    http.ResponseWriter
	r    *http.Request

	caller     einmal.Caller
	identified time.Time
	key        string
	body       []byte
	wait       time.Duration

	spool    *spool // nil until an attempt begins
	said     bool   // the attempt has an answer to give
	fnErr    error
	overtime bool // the attempt's context was over when it ended
	early    bool // of a mutant
}

// exchangeKey finds the exchange in the context of its handler.
type exchangeKey struct{}

// handle does one request in the order of docs/contract.md. It returns the error of a Serve function that was not answered.
func (s *Server) handle(w http.ResponseWriter, r *http.Request, op *operation, c call) error {
	key, keyErr := s.readKey(r)
	missing := keyErr == errKeyMissing
	if safe := safeMethod(r.Method); safe || missing && op.keyOptional {
		if !missing {
			w.Header()[contract.HeaderIgnored] = []string{"true"}
		}
		return c.run(w, r)
	}
	x := &exchange{Server: s, op: op, call: c, w: w, r: r, key: key}
	if err := x.identify(); err != nil {
		x.refuse(err)
		return nil
	}
	if keyErr != nil {
		x.refuse(keyErr)
		return nil
	}
	if outer, ok := r.Context().Value(exchangeKey{}).(*exchange); ok && outer.key == x.key {
		s.log.ErrorContext(r.Context(), "einmalhttp: a request went through two operations: wrap its handler once", "operation", op.name, "outside", outer.op.name)
		writePlain(w, http.StatusInternalServerError, "This route is wrapped twice.")
		return nil
	}
	var err error
	if x.body, err = readBody(r, op.maxBody); err != nil {
		x.refuse(err)
		return nil
	}
	if err := x.identifyAgain(); err != nil {
		x.refuse(err)
		return nil
	}
	if prefer := r.Header["Prefer"]; len(prefer) > 0 {
		x.wait = preferredWait(prefer, s.cfg.MaxWait)
	}
	defer func() {
		if x.spool != nil {
			x.spool.close()
		}
	}()
	out, err := s.engine.Run(r.Context(), op.Op, einmal.Request{
		Caller: x.caller, Key: x.key, Parts: parts(r, op, x.body), Wait: x.wait, Authorize: x.authorize,
	}, x.attempt)
	return x.answer(out, err)
}

// readKey returns a key that can be used. Its error is a problem, and errKeyMissing itself where there is none.
func (s *Server) readKey(r *http.Request) (string, error) {
	var key string
	var err error
	if s.cfg.Key == nil {
		lines := r.Header[contract.HeaderKey]
		if len(lines) == 0 {
			return "", errKeyMissing
		}
		key, err = contract.ParseKey(lines)
	} else if key, err = s.cfg.Key(r); err == nil {
		if key == "" {
			return "", errKeyMissing
		}
		err = contract.CheckKey(key)
	}
	switch {
	case err == nil:
		return key, nil
	case errors.Is(err, contract.ErrKeyMissing):
		return "", errKeyMissing
	}
	return "", contract.NewProblem(contract.KeyInvalid, err.Error())
}

var errKeyMissing error = contract.NewProblem(contract.KeyMissing, "")

// whoSends asks Identify. Somebody without a principal is nobody: all such callers would share their answers.
func (s *Server) whoSends(r *http.Request) (einmal.Caller, error) {
	caller, err := s.cfg.Identify(r)
	switch {
	case err != nil:
		return caller, asRefusal(err, http.StatusUnauthorized)
	case caller.Principal == "":
		return caller, &AuthError{Status: http.StatusUnauthorized, Detail: "The server cannot tell who sends this request."}
	}
	return caller, nil
}

func (x *exchange) identify() error {
	caller, err := x.whoSends(x.r)
	if err != nil {
		return err
	}
	x.caller, x.identified = caller, time.Now()
	return nil
}

// freshFor is how long an identification counts without being asked again.
const freshFor = time.Second

// identifyAgain asks once more who the caller is, if that was not just now.
func (x *exchange) identifyAgain() error {
	if time.Since(x.identified) <= freshFor || mutant.On("stale-authorisation") {
		return nil
	}
	before := x.caller
	if err := x.identify(); err != nil {
		return err
	}
	if x.caller != before {
		return &AuthError{Status: http.StatusUnauthorized, Detail: "The credentials now belong to somebody else."}
	}
	return nil
}

// authorize is asked by the engine right before a stored answer is given.
func (x *exchange) authorize(_ context.Context, op einmal.Operation) error {
	if err := x.fresh(); err != nil {
		return err
	}
	return x.authorized(x.r, op)
}

// fresh is identifyAgain after a wait, however short it was.
func (x *exchange) fresh() error {
	if x.wait > 0 {
		x.identified = time.Time{}
	}
	return x.identifyAgain()
}

// permitted asks for permission to tell of an operation in a refusal. Where nobody can be asked, nothing is told.
func (x *exchange) permitted(id string) error {
	if x.cfg.Authorize == nil {
		return nil
	}
	op, err := x.engine.Get(x.r.Context(), id)
	if err != nil {
		return unavailable(err)
	}
	return x.authorized(x.r, op)
}

func (s *Server) authorized(r *http.Request, op einmal.Operation) error {
	if s.cfg.Authorize == nil {
		return nil
	}
	if err := s.cfg.Authorize(r, op); err != nil {
		return asRefusal(err, http.StatusForbidden)
	}
	return nil
}

// attempt runs the handler once, and says how that ended.
func (x *exchange) attempt(ctx context.Context) einmal.Ending {
	x.spool = newSpool(x.w, x.op.maxResult, x.cfg.MaxSpool, x.cfg.TempDir)
	defer x.spool.finish() // for a panic too: goroutines that it leaves must not write
	r := x.r.WithContext(context.WithValue(ctx, exchangeKey{}, x))
	r.ContentLength, r.TransferEncoding, r.Trailer, r.Body = int64(len(x.body)), nil, nil, http.NoBody
	if _, announced := r.Header["Trailer"]; announced {
		r.Header = r.Header.Clone()
		r.Header.Del("Trailer")
	}
	if len(x.body) > 0 {
		held := new(heldBody)
		held.Reader.Reset(x.body)
		r.Body = held
	}
	defer func() {
		if r.MultipartForm != nil && r.MultipartForm != x.r.MultipartForm { // net/http knows only the form of its own request
			_ = r.MultipartForm.RemoveAll()
		}
	}()
	x.fnErr = x.call.run(x.spool, r)
	x.overtime = ctx.Err() != nil
	if x.fnErr == nil && x.call.fn == nil && !x.overtime {
		x.spool.WriteHeader(http.StatusOK) // as net/http does, unless something was said
	}
	x.spool.finish()
	ending := x.ending()
	if mutant.On("answer-before-commit") && x.said {
		x.spool.fill(x.w.Header())
		_ = x.spool.send(x.w)
		_ = http.NewResponseController(x.w).Flush()
		x.early = true
	}
	return ending
}

// ending judges what the handler said and returned.
func (x *exchange) ending() einmal.Ending {
	x.said = x.spool.complete() && (x.fnErr == nil || x.spool.status >= 400)
	if x.fnErr != nil {
		return x.errorEnding()
	}
	switch {
	case x.spool.status != 0 && !x.said:
		return einmal.Ending{End: einmal.EndOpen, Reason: "the answer was not complete"}
	case !x.said && x.overtime:
		return einmal.Ending{End: einmal.EndOpen, Reason: "the deadline passed without an answer"}
	case !x.said:
		return einmal.Ending{End: einmal.EndOpen, Reason: "the handler returned without an answer or an error"}
	}
	end, bound := x.op.End(x.spool.status)
	if x.overtime && (end == einmal.EndRefused || end == einmal.EndNoEffect) {
		// Many handlers answer the end of their context as if it were the client's fault. Nobody may take that for a refusal.
		x.said = false
		return einmal.Ending{End: einmal.EndOpen, Reason: "the deadline passed before HTTP " + strconv.Itoa(x.spool.status)}
	}
	e := einmal.Ending{End: end, Bound: bound}
	if end != einmal.EndSuccess {
		e.Reason = "HTTP " + strconv.Itoa(x.spool.status)
	}
	if end == einmal.EndSuccess || end == einmal.EndRefused {
		e.Result = x.spool.result()
	}
	return e
}

// errorEnding is the ending of a Serve function that returned an error. Its text may hold secrets, and stays with the framework.
func (x *exchange) errorEnding() einmal.Ending {
	end := einmal.EndOf(x.fnErr)
	if mutant.On("error-is-empty-200") {
		return einmal.Ending{End: einmal.EndSuccess, Result: &einmal.Result{Status: http.StatusOK}}
	}
	switch {
	case end == einmal.EndRefused && x.said:
		return einmal.Ending{End: end, Reason: "HTTP " + strconv.Itoa(x.spool.status), Result: x.spool.result()}
	case end == einmal.EndRefused:
		return einmal.Ending{End: end, Reason: "the handler refused", Result: refusalResult(x.fnErr)}
	}
	return einmal.Ending{End: end, Reason: "the handler returned an error"}
}

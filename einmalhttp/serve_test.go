package einmalhttp_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/einmal-dev/einmal"
	"github.com/einmal-dev/einmal/contract"
	"github.com/einmal-dev/einmal/einmalhttp"
	"github.com/einmal-dev/einmal/memstore"
)

// framework is a router whose handlers return errors, and whose error handler runs after every middleware, as echo's and gin's do.
type framework struct {
	a      *api
	errors []error
}

type frameworkHandler func(http.ResponseWriter, *http.Request) error

// frameworkError is an error with a status, such as frameworks have.
type frameworkError struct {
	status int
	text   string
}

func (e *frameworkError) Error() string { return e.text }

func (f *framework) post(path string, h frameworkHandler, middleware func(frameworkHandler) frameworkHandler) {
	h = middleware(h)
	f.a.mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
		err := h(w, r)
		if err == nil {
			return
		}
		f.a.mu.Lock()
		f.errors = append(f.errors, err)
		f.a.mu.Unlock()
		var fe *frameworkError
		var refusal *einmal.Refusal
		switch {
		case errors.As(err, &refusal):
			http.Error(w, refusal.Code+": "+refusal.Message, 422)
		case errors.As(err, &fe):
			http.Error(w, fe.text, fe.status)
		default:
			http.Error(w, "internal", 500)
		}
	})
}

// once is the adapter that such a framework needs.
func once(idem *einmalhttp.Server, op *einmal.Op) func(frameworkHandler) frameworkHandler {
	return func(next frameworkHandler) frameworkHandler {
		return func(w http.ResponseWriter, r *http.Request) error { return idem.Serve(w, r, op, next) }
	}
}

func TestServe(t *testing.T) {
	t.Parallel()
	type want struct {
		status   int
		body     string // "": any
		replayed bool
		kind     contract.Kind
	}
	for name, c := range map[string]struct {
		handler      frameworkHandler
		first, again want
		effects      int64
		state        einmal.State
	}{
		"an answer": {
			func(w http.ResponseWriter, r *http.Request) error { createOrder(w, r); return nil },
			want{status: 201, body: `{"order":1}`},
			want{status: 201, body: `{"order":1}`, replayed: true},
			1, einmal.StateCompleted,
		},
		"an error is open, and no empty 200": {
			func(http.ResponseWriter, *http.Request) error { return errors.New("database is gone") },
			want{status: 500, body: "internal\n"},
			want{status: 409, kind: contract.OutcomeUnclear},
			1, einmal.StateUnclear,
		},
		"an error with a refusing status is open all the same": {
			func(http.ResponseWriter, *http.Request) error { return &frameworkError{422, "no stock"} },
			want{status: 422, body: "no stock\n"},
			want{status: 409, kind: contract.OutcomeUnclear},
			1, einmal.StateUnclear,
		},
		"Final comes back alike": {
			func(http.ResponseWriter, *http.Request) error {
				return einmal.Final(&einmal.Refusal{Code: "no-stock", Message: "sold out"})
			},
			want{status: 422, body: "no-stock: sold out\n"},
			want{status: 422, body: "no-stock: sold out\n", replayed: true},
			1, einmal.StateCompleted,
		},
		"Final of a foreign error comes back alike": {
			func(http.ResponseWriter, *http.Request) error { return einmal.Final(&frameworkError{410, "gone"}) },
			want{status: 422, body: ": gone\n"},
			want{status: 422, body: ": gone\n", replayed: true},
			1, einmal.StateCompleted,
		},
		"Final answered inside": {
			func(w http.ResponseWriter, _ *http.Request) error {
				w.WriteHeader(402)
				fmt.Fprint(w, "no money")
				return einmal.Final(errors.New("no money"))
			},
			want{status: 402, body: "no money"},
			want{status: 402, body: "no money", replayed: true},
			1, einmal.StateCompleted,
		},
		"NoEffect runs again": {
			func(http.ResponseWriter, *http.Request) error {
				return einmal.NoEffect(&frameworkError{503, "not yet"})
			},
			want{status: 503, body: "not yet\n"},
			want{status: 503, body: "not yet\n"},
			2, einmal.StateNotApplied,
		},
		"NoEffect answered inside": {
			func(w http.ResponseWriter, _ *http.Request) error {
				http.Error(w, "inside", 503)
				return einmal.NoEffect(errors.New("outside"))
			},
			want{status: 503, body: "inside\n"},
			want{status: 503, body: "inside\n"},
			2, einmal.StateNotApplied,
		},
		"an error after a success is open, and the success is not sent": {
			func(w http.ResponseWriter, r *http.Request) error {
				createOrder(w, r)
				return errors.New("rendering")
			},
			want{status: 500, body: "internal\n"},
			want{status: 409, kind: contract.OutcomeUnclear},
			1, einmal.StateUnclear,
		},
		"an error that was answered inside is open, and its answer is sent once": {
			func(w http.ResponseWriter, _ *http.Request) error {
				http.Error(w, "inside", 422)
				return errors.New("outside")
			},
			want{status: 422, body: "inside\n"},
			want{status: 409, kind: contract.OutcomeUnclear},
			1, einmal.StateUnclear,
		},
		"neither answer nor error is unclear": {
			func(http.ResponseWriter, *http.Request) error { return nil },
			want{status: 502, kind: contract.OutcomeUnclear},
			want{status: 409, kind: contract.OutcomeUnclear},
			1, einmal.StateUnclear,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAPI(t, options{})
			f := &framework{a: a}
			op := a.engine.Define(einmal.Policy{Name: "op", Owner: "o"})
			f.post("/op", func(w http.ResponseWriter, r *http.Request) error {
				a.effect.Add(1)
				return c.handler(w, r)
			}, once(a.idem, op))
			for i, want := range []want{c.first, c.again} {
				got := a.send(request{path: "/op"})
				if got.status != want.status || want.body != "" && got.body != want.body || (got.header.Get("Idempotent-Replayed") == "true") != want.replayed {
					t.Errorf("answer %d: %v, want %+v", i+1, got, want)
				}
				if want.kind != "" {
					if doc := problemOf(t, got); !strings.HasSuffix(doc.Type, string(want.kind)) {
						t.Errorf("answer %d: %v, want %s", i+1, got, want.kind)
					}
				}
				got2, err := a.engine.Get(t.Context(), idOf(t, got))
				if err != nil || got2.State != c.state {
					t.Errorf("after answer %d the operation is %v, %v; want %v", i+1, got2.State, err, c.state)
				}
			}
			a.wantEffects(c.effects)
		})
	}
}

// TestServeRefuses: what meets no handler is answered by Serve itself, and is no error to the framework.
func TestServeRefuses(t *testing.T) {
	t.Parallel()
	a := newAPI(t, options{})
	f := &framework{a: a}
	op := a.engine.Define(einmal.Policy{Name: "op", Owner: "o", KeyOptional: false})
	f.post("/op", func(w http.ResponseWriter, r *http.Request) error { a.effect.Add(1); createOrder(w, r); return nil }, once(a.idem, op))
	wantProblem(t, a.send(request{path: "/op", noKey: true}), 400, contract.KeyMissing, contract.NextFix)
	if got := a.send(request{path: "/op", token: "nobody"}); got.status != 401 {
		t.Errorf("got %v", got)
	}
	a.send(request{path: "/op"})
	wantProblem(t, a.send(request{path: "/op", token: "bob"}), 403, contract.NotYours, contract.NextResolve)
	if len(f.errors) > 0 {
		t.Errorf("the framework heard of errors: %v", f.errors)
	}
	a.wantEffects(1)
}

// router is the least of a router with chi's habits: Use, With, and a Mount that strips nothing.
type router struct {
	mux    *http.ServeMux
	before []func(http.Handler) http.Handler
}

func (r *router) with(m func(http.Handler) http.Handler) *router {
	return &router{r.mux, append(r.before[:len(r.before):len(r.before)], m)}
}

func (r *router) post(path string, h http.Handler) {
	for i := len(r.before) - 1; i >= 0; i-- {
		h = r.before[i](h)
	}
	r.mux.Handle("POST "+path, h)
}

func (r *router) mount(prefix string, h http.Handler) { r.mux.Handle(prefix+"/", h) }

func TestRouter(t *testing.T) {
	t.Parallel()
	a := newAPI(t, options{})
	mux := http.NewServeMux()
	r := &router{mux: mux}
	r.mount("/.idempotency", a.idem)
	op := a.engine.Define(einmal.Policy{Name: "op", Owner: "o"})
	r.with(a.idem.Wrap(op)).post("/orders/{id}", a.counted(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.PathValue("id"), " ", r.Pattern)
	}))
	a.server.Config.Handler = mux
	for range 2 {
		if got := a.send(request{path: "/orders/7"}); got.body != "7 POST /orders/{id}" {
			t.Errorf("got %v", got)
		}
	}
	if got := a.get(statusPath(t, a.send(request{path: "/orders/7"})), "alice"); got.status != 200 {
		t.Errorf("status: %v", got)
	}
	a.wantEffects(1)
}

func TestMisusePanics(t *testing.T) {
	t.Parallel()
	a := newAPI(t, options{})
	identify := einmalhttp.Config{Identify: a.identify}
	op := a.engine.Define(einmal.Policy{Name: "op", Owner: "o"})
	other, err := einmal.New(einmal.Config{Store: memstore.New()})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close(t.Context())
	foreign := other.Define(einmal.Policy{Name: "op", Owner: "o"})
	for name, f := range map[string]func(){
		"engine is nil":             func() { einmalhttp.New(nil, identify) },
		"Identify is nil":           func() { einmalhttp.New(a.engine, einmalhttp.Config{}) },
		"Prefix \"x/\"":             func() { einmalhttp.New(a.engine, einmalhttp.Config{Identify: a.identify, Prefix: "x/"}) },
		"PublicURL \"example.com\"": func() { einmalhttp.New(a.engine, einmalhttp.Config{Identify: a.identify, PublicURL: "example.com"}) },
		"MaxSpool is negative":      func() { einmalhttp.New(a.engine, einmalhttp.Config{Identify: a.identify, MaxSpool: -1}) },
		"operation is nil":          func() { a.idem.Wrap(nil) },
		"another engine":            func() { a.idem.Wrap(foreign) },
		"handler is nil":            func() { a.idem.Wrap(op)(nil) },
		"wrapped already":           func() { a.idem.Wrap(op)(a.idem.Wrap(op)(http.NotFoundHandler())) },
		"function is nil":           func() { _ = a.idem.Serve(nil, nil, op, nil) },
	} {
		func() {
			defer func() {
				if got := fmt.Sprint(recover()); !strings.Contains(got, name) {
					t.Errorf("want a panic that says %q, got %s", name, got)
				}
			}()
			f()
		}()
	}
}

// TestWrappedTwice: the second Wrap hides behind another handler, so only a request finds it. It must not wait for itself, nor execute.
func TestWrappedTwice(t *testing.T) {
	t.Parallel()
	a := newAPI(t, options{})
	outer := a.engine.Define(einmal.Policy{Name: "outer", Owner: "o"})
	for i, inner := range []*einmal.Op{outer, a.engine.Define(einmal.Policy{Name: "inner", Owner: "o"})} {
		h := a.idem.Wrap(inner)(a.counted(createOrder))
		path := fmt.Sprintf("/op/%d", i)
		a.mux.Handle(path, a.idem.Wrap(outer)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.ServeHTTP(w, r) })))
		if got := a.send(request{path: path, key: path}); got.status != 500 {
			t.Errorf("got %v", got)
		}
	}
	if !strings.Contains(a.logged.String(), "wrap its handler once") {
		t.Errorf("the log does not tell: %s", a.logged)
	}
	a.wantEffects(0)
	// A handler that itself sends another operation's request, with a key of its own, is no mistake.
	inner := a.idem.Wrap(a.engine.Define(einmal.Policy{Name: "part", Owner: "o"}))(a.counted(createOrder))
	a.mux.Handle("/whole", a.idem.Wrap(outer)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		part := r.Clone(r.Context())
		part.Header.Set("Idempotency-Key", "part-of-"+r.Header.Get("Idempotency-Key"))
		inner.ServeHTTP(w, part)
	})))
	if got := a.send(request{path: "/whole"}); got.status != 201 {
		t.Errorf("got %v", got)
	}
	a.wantEffects(1)
}

func TestOwnKeyFunction(t *testing.T) {
	t.Parallel()
	a := newAPI(t, options{config: einmalhttp.Config{Key: func(r *http.Request) (string, error) {
		switch id := r.Header.Get("X-Delivery"); id {
		case "":
			return "", contract.ErrKeyMissing
		case "bad":
			return "", errors.New("no delivery")
		default:
			return id, nil
		}
	}}})
	a.handle("/op", einmal.Policy{}, createOrder)
	with := func(id string) request {
		return request{path: "/op", noKey: true, header: http.Header{"X-Delivery": {id}}}
	}
	wantProblem(t, a.send(with("")), 400, contract.KeyMissing, contract.NextFix)
	wantProblem(t, a.send(with("bad")), 400, contract.KeyInvalid, contract.NextFix)
	wantProblem(t, a.send(with(strings.Repeat("x", 300))), 400, contract.KeyInvalid, contract.NextFix)
	a.send(with("d-1"))
	if got := a.send(with("d-1")); got.header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("got %v", got)
	}
	a.wantEffects(1)
}

package einmalhttp_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/einmal-dev/einmal"
	"github.com/einmal-dev/einmal/contract"
	"github.com/einmal-dev/einmal/einmalhttp"
	"github.com/einmal-dev/einmal/memstore"
)

// steeredStore is a store whose calls can be made to fail.
type steeredStore struct {
	einmal.Store
	reserve, apply, get atomic.Pointer[error]
	found               chan struct{} // if set, gets a value for each request that met a record
}

func failWith(p *atomic.Pointer[error], err error) { p.Store(&err) }
func heal(p *atomic.Pointer[error])                { p.Store(nil) }

func (s *steeredStore) Reserve(ctx context.Context, r einmal.Reservation) (einmal.Record, bool, error) {
	if err := s.reserve.Load(); err != nil {
		return einmal.Record{}, false, *err
	}
	rec, created, err := s.Store.Reserve(ctx, r)
	if err == nil && !created && s.found != nil {
		s.found <- struct{}{}
	}
	return rec, created, err
}

func (s *steeredStore) Apply(ctx context.Context, c einmal.Change) (einmal.Record, error) {
	if err := s.apply.Load(); err != nil {
		return einmal.Record{}, *err
	}
	return s.Store.Apply(ctx, c)
}

func (s *steeredStore) Get(ctx context.Context, ref einmal.Ref) (einmal.Record, error) {
	if err := s.get.Load(); err != nil {
		return einmal.Record{}, *err
	}
	return s.Store.Get(ctx, ref)
}

func createOrder(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Location", "/orders/1")
	h.Set("ETag", `"one"`)
	h.Add("Link", `</orders/1>; rel="self"`)
	h.Add("Link", `</orders>; rel="collection"`)
	h.Set("Set-Cookie", "session=secret")
	h.Set("WWW-Authenticate", "Bearer")
	h.Set("X-RateLimit-Remaining", "3")
	h.Set("Cache-Control", "max-age=60")
	w.WriteHeader(http.StatusCreated)
	fmt.Fprint(w, `{"order":1}`)
}

func status(code int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		w.WriteHeader(code)
		fmt.Fprint(w, body)
	}
}

func TestFirstAnswerAndReplay(t *testing.T) {
	t.Parallel()
	a := newAPI(t, options{})
	a.handle("/orders", einmal.Policy{}, createOrder)

	first := a.send(request{path: "/orders"})
	want := http.Header{
		"Content-Type": {"application/json"}, "Location": {"/orders/1"}, "Etag": {`"one"`},
		"Set-Cookie": {"session=secret"}, "Www-Authenticate": {"Bearer"}, "X-Ratelimit-Remaining": {"3"}, "Cache-Control": {"max-age=60"},
		"Content-Length": {"11"},
		"Link":           {`</orders/1>; rel="self"`, `</orders>; rel="collection"`, "<" + statusPath(t, first) + `>; rel="status"`},
	}
	if diff := cmp.Diff(want, without(first.header, "Date")); diff != "" || first.status != 201 || first.body != `{"order":1}` {
		t.Errorf("first answer: %d %q; header (-want +got):\n%s", first.status, first.body, diff)
	}
	for _, key := range []string{"k-1", `"k-1"`, ` "k-1" `} { // quoted and bare name the same key
		again := a.send(request{path: "/orders", key: key})
		for _, name := range []string{"Set-Cookie", "Www-Authenticate", "X-Ratelimit-Remaining"} {
			delete(want, name)
		}
		want["Cache-Control"], want["Idempotent-Replayed"] = []string{"no-store"}, []string{"true"}
		if diff := cmp.Diff(want, without(again.header, "Date")); diff != "" || again.status != 201 || again.body != `{"order":1}` {
			t.Errorf("replay with %s: %d %q; header (-want +got):\n%s", key, again.status, again.body, diff)
		}
	}
	a.wantEffects(1)
}

func without(h http.Header, names ...string) http.Header {
	h = h.Clone()
	for _, name := range names {
		h.Del(name)
	}
	return h
}

// TestAnswers is the table of DESIGN's section 5: what a request meets, as status, problem and next.
func TestAnswers(t *testing.T) {
	t.Parallel()
	twice := func(a *api, q request) answer { a.send(q); return a.send(q) }
	for name, c := range map[string]struct {
		policy  einmal.Policy
		handler http.HandlerFunc
		act     func(a *api, s *steeredStore) answer
		status  int
		kind    contract.Kind
		next    contract.Next
		effects int64
		linked  bool // about one's own operation
		after   bool // with Retry-After
	}{
		"no key": {
			act:    func(a *api, _ *steeredStore) answer { return a.send(request{path: "/op", noKey: true}) },
			status: 400, kind: contract.KeyMissing, next: contract.NextFix,
		},
		"an empty key": {
			act:    func(a *api, _ *steeredStore) answer { return a.send(request{path: "/op", key: `""`}) },
			status: 400, kind: contract.KeyInvalid, next: contract.NextFix,
		},
		"a malformed key": {
			act:    func(a *api, _ *steeredStore) answer { return a.send(request{path: "/op", key: `"k-1`}) },
			status: 400, kind: contract.KeyInvalid, next: contract.NextFix,
		},
		"a malformed key where none is needed": {
			policy: einmal.Policy{KeyOptional: true},
			act:    func(a *api, _ *steeredStore) answer { return a.send(request{path: "/op", key: `a,b`}) },
			status: 400, kind: contract.KeyInvalid, next: contract.NextFix,
		},
		"a key that is too long": {
			act: func(a *api, _ *steeredStore) answer {
				return a.send(request{path: "/op", key: strings.Repeat("k", 256)})
			},
			status: 400, kind: contract.KeyInvalid, next: contract.NextFix,
		},
		"a key sent twice": {
			act: func(a *api, _ *steeredStore) answer {
				return a.send(request{path: "/op", header: http.Header{"idempotency-key": {"k-1", "k-1"}}})
			},
			status: 400, kind: contract.KeyInvalid, next: contract.NextFix,
		},
		"another principal": {
			act: func(a *api, _ *steeredStore) answer {
				a.send(request{path: "/op"})
				return a.send(request{path: "/op", token: "bob"})
			},
			status: 403, kind: contract.NotYours, next: contract.NextResolve, effects: 1,
		},
		"another principal with other parameters": {
			act: func(a *api, _ *steeredStore) answer {
				a.send(request{path: "/op"})
				return a.send(request{path: "/op", token: "bob", body: "other"})
			},
			status: 403, kind: contract.NotYours, next: contract.NextResolve, effects: 1,
		},
		"another body": {
			act: func(a *api, _ *steeredStore) answer {
				a.send(request{path: "/op"})
				return a.send(request{path: "/op", body: "other"})
			},
			status: 422, kind: contract.KeyReused, next: contract.NextResolve, effects: 1,
		},
		"another body while unclear": {
			handler: status(500, "broken"),
			act: func(a *api, _ *steeredStore) answer {
				a.send(request{path: "/op"})
				return a.send(request{path: "/op", body: "other"})
			},
			status: 422, kind: contract.KeyReused, next: contract.NextResolve, effects: 1,
		},
		"unclear": {
			handler: status(500, "broken"),
			act:     func(a *api, _ *steeredStore) answer { return twice(a, request{path: "/op"}) },
			status:  409, kind: contract.OutcomeUnclear, next: contract.NextResolve, effects: 1, linked: true, after: true,
		},
		"unclear, keyed: may run again later": {
			policy:  einmal.Policy{Effect: einmal.Keyed(time.Hour), Rules: &einmal.Rules{Backoff: time.Minute}},
			handler: status(503, "broken"),
			act:     func(a *api, _ *steeredStore) answer { return twice(a, request{path: "/op"}) },
			status:  409, kind: contract.OutcomeUnclear, next: contract.NextWait, effects: 1, linked: true, after: true,
		},
		"withdrawn": {
			handler: status(500, "broken"),
			act: func(a *api, _ *steeredStore) answer {
				first := a.send(request{path: "/op"})
				a.resolve(first, einmal.ResolveWithdrawn, nil)
				return a.send(request{path: "/op"})
			},
			status: 410, kind: contract.Withdrawn, next: contract.NextFix, effects: 1, linked: true,
		},
		"settled as applied without an answer": {
			handler: status(500, "broken"),
			act: func(a *api, _ *steeredStore) answer {
				first := a.send(request{path: "/op"})
				a.resolve(first, einmal.ResolveApplied, nil)
				return a.send(request{path: "/op"})
			},
			status: 303, kind: contract.ResultUnknown, next: contract.NextResolve, effects: 1, linked: true,
		},
		"result too large to store": {
			policy: einmal.Policy{Rules: &einmal.Rules{MaxResult: 10}}, handler: status(201, "more than ten bytes"),
			act:    func(a *api, _ *steeredStore) answer { return twice(a, request{path: "/op"}) },
			status: 303, kind: contract.ResultNotStored, next: contract.NextResolve, effects: 1, linked: true,
		},
		"refusal too large to store": {
			policy: einmal.Policy{Rules: &einmal.Rules{MaxResult: 10}}, handler: status(422, "more than ten bytes"),
			act:    func(a *api, _ *steeredStore) answer { return twice(a, request{path: "/op"}) },
			status: 422, kind: contract.ResultNotStored, next: contract.NextResolve, effects: 1, linked: true,
		},
		"window over, no record": {
			policy: einmal.Policy{KeyAge: einmal.KeyAgeUUIDv7},
			act: func(a *api, _ *steeredStore) answer {
				return a.send(request{path: "/op", key: "00000000-0001-7000-8000-000000000000"})
			},
			status: 422, kind: contract.KeyExpired, next: contract.NextResolve,
		},
		"a key from the future": {
			policy: einmal.Policy{KeyAge: einmal.KeyAgeUUIDv7},
			act: func(a *api, _ *steeredStore) answer {
				return a.send(request{path: "/op", key: "7fffffff-ffff-7000-8000-000000000000"})
			},
			status: 400, kind: contract.KeyInvalid, next: contract.NextFix,
		},
		"paused": {
			act: func(a *api, s *steeredStore) answer {
				if _, err := s.Settings(context.Background(), einmal.Setting{Name: "pause", Tenant: "acme", Operation: "op", Value: "maintenance"}); err != nil {
					a.t.Fatal(err)
				}
				return a.send(request{path: "/op"})
			},
			status: 503, kind: contract.Paused, next: contract.NextWait, after: true,
		},
		"stopping": {
			act: func(a *api, _ *steeredStore) answer {
				if err := a.engine.Close(context.Background()); err != nil {
					a.t.Fatal(err)
				}
				return a.send(request{path: "/op"})
			},
			status: 503, kind: contract.Stopping, next: contract.NextWait, after: true,
		},
		"store lost before the effect": {
			act: func(a *api, s *steeredStore) answer {
				failWith(&s.reserve, errors.New("disk on fire"))
				failWith(&s.get, errors.New("disk on fire"))
				got := a.send(request{path: "/op"})
				heal(&s.get)
				return got
			},
			status: 503, kind: contract.StoreUnavailable, next: contract.NextWait, after: true,
		},
		"store restored": {
			act: func(a *api, s *steeredStore) answer {
				failWith(&s.reserve, fmt.Errorf("%w: behind", einmal.ErrRestored))
				return a.send(request{path: "/op"})
			},
			status: 503, kind: contract.StoreRestored, next: contract.NextWait, after: true,
		},
		"record unreadable": {
			act: func(a *api, s *steeredStore) answer {
				failWith(&s.reserve, fmt.Errorf("%w: checksum", einmal.ErrUnreadable))
				return a.send(request{path: "/op"})
			},
			status: 500, kind: contract.RecordUnreadable, next: contract.NextResolve,
		},
		"too many open": {
			policy:  einmal.Policy{Rules: &einmal.Rules{Limits: einmal.Limits{Unclear: 1}}},
			handler: status(500, "broken"),
			act: func(a *api, _ *steeredStore) answer {
				a.send(request{path: "/op"})
				return a.send(request{path: "/op", key: "k-2"})
			},
			status: 429, kind: contract.TooManyOpen, next: contract.NextWait, effects: 1, after: true,
		},
		"body over the limit": {
			policy: einmal.Policy{Rules: &einmal.Rules{MaxBody: 4}},
			act:    func(a *api, _ *steeredStore) answer { return a.send(request{path: "/op"}) },
			status: 413, kind: contract.BodyTooLarge, next: contract.NextFix,
		},
		"nothing said": {
			handler: func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Length", "10")
				w.WriteHeader(200)
			},
			act:    func(a *api, _ *steeredStore) answer { return a.send(request{path: "/op"}) },
			status: 502, kind: contract.OutcomeUnclear, next: contract.NextResolve, effects: 1, linked: true, after: true,
		},
		"nothing said by the deadline": {
			policy:  einmal.Policy{Deadline: 500 * time.Millisecond},
			handler: func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
			act:     func(a *api, _ *steeredStore) answer { return a.send(request{path: "/op"}) },
			status:  504, kind: contract.OutcomeUnclear, next: contract.NextResolve, effects: 1, linked: true, after: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := &steeredStore{Store: memstore.New()}
			a := newAPI(t, options{store: store})
			if c.handler == nil {
				c.handler = createOrder
			}
			c.policy.Name = "op"
			a.handle("/op", c.policy, c.handler)
			got := c.act(a, store)
			wantProblem(t, got, c.status, c.kind, c.next)
			a.wantEffects(c.effects)
			if doc := problemOf(t, got); c.linked {
				if path := statusPath(t, got); doc.StatusURL != path || !strings.HasSuffix(path, doc.Operation) {
					t.Errorf("the document's status_url and operation do not fit the link %s: %v", path, got)
				}
			} else if got.header.Get("Link") != "" || doc.StatusURL != "" || doc.Operation != "" {
				t.Errorf("an answer that is not about one's own operation tells of one: %v", got)
			}
			if doc := problemOf(t, got); (got.header.Get("Retry-After") != "") != c.after || (doc.RetryAfter > 0) != c.after {
				t.Errorf("Retry-After %q, in the document %d; want some: %v", got.header.Get("Retry-After"), doc.RetryAfter, c.after)
			}
			if c.status == 303 && got.header.Get("Location") != statusPath(t, got) {
				t.Errorf("303 does not lead to the status resource: %v", got)
			}
		})
	}
}

// resolve settles the operation that an answer links to.
func (a *api) resolve(about answer, as einmal.ResolveAs, result *einmal.Result) {
	a.t.Helper()
	ctx := context.Background()
	op, err := a.engine.Get(ctx, idOf(a.t, about))
	if err != nil {
		a.t.Fatal(err)
	}
	_, err = a.engine.Resolve(ctx, einmal.Resolution{ID: op.ID, Version: op.Version, As: as, Result: result, Actor: "ann", Reason: "asked the bank"})
	if err != nil {
		a.t.Fatal(err)
	}
}

func idOf(t *testing.T, about answer) string {
	path := statusPath(t, about)
	return path[strings.LastIndex(path, "/")+1:]
}

// TestWhatTheHandlerSaidIsTheFirstAnswer: an own attempt that did not complete the operation gets its handler's answer, and the end decides what the
// next request meets.
func TestWhatTheHandlerSaidIsTheFirstAnswer(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status, again int
		effects       int64
	}{
		"a success is replayed":                            {201, 201, 1},
		"a redirect is replayed":                           {303, 303, 1},
		"a refusal is replayed":                            {422, 422, 1},
		"a refusal before any effect lets it run again":    {429, 429, 2},
		"an error leaves it unclear and is never a replay": {500, 409, 1},
		"a status outside the table leaves it unclear":     {599, 409, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAPI(t, options{})
			a.handle("/op", einmal.Policy{}, status(c.status, "said"))
			first := a.send(request{path: "/op"})
			if first.status != c.status || first.body != "said" || first.header.Get("Idempotent-Replayed") != "" {
				t.Errorf("first answer: %v", first)
			}
			statusPath(t, first)
			again := a.send(request{path: "/op"})
			if again.status != c.again {
				t.Errorf("again: %v", again)
			}
			if replayed := again.header.Get("Idempotent-Replayed") == "true"; replayed != (c.again == c.status && c.effects == 1) {
				t.Errorf("Idempotent-Replayed is wrong: %v", again)
			}
			a.wantEffects(c.effects)
		})
	}
}

func TestResultSettledByAPersonIsReplayed(t *testing.T) {
	t.Parallel()
	a := newAPI(t, options{})
	a.handle("/op", einmal.Policy{}, status(500, "broken"))
	first := a.send(request{path: "/op"})
	a.resolve(first, einmal.ResolveApplied, &einmal.Result{Status: 201, Header: []einmal.Field{{Name: "Content-Type", Value: "application/json"}}, Body: []byte(`{"order":7}`)})
	again := a.send(request{path: "/op"})
	if again.status != 201 || again.body != `{"order":7}` || again.header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("got %v", again)
	}
	a.wantEffects(1)
}

func TestTombstoneIsKnown(t *testing.T) {
	t.Parallel()
	var ahead atomic.Int64
	storage := memstore.NewStorage(memstore.Options{Clock: func() (time.Time, time.Duration) {
		wall, mono := einmal.SystemClock()
		return wall.Add(time.Duration(ahead.Load())), mono + time.Duration(ahead.Load())
	}})
	store := storage.Open()
	a := newAPI(t, options{store: store, engine: einmal.Config{Poll: time.Hour}})
	a.handle("/op", einmal.Policy{Window: time.Hour, Name: "op"}, createOrder)
	path := statusPath(t, a.send(request{path: "/op"}))
	ahead.Store(int64(2 * time.Hour))
	if n, err := store.Purge(context.Background(), 10); n != 1 || err != nil {
		t.Fatalf("purged %d: %v", n, err)
	}
	got := a.send(request{path: "/op"})
	wantProblem(t, got, 422, contract.KeyExpired, contract.NextResolve)
	if known := problemOf(t, got).Known; known == nil || !*known {
		t.Errorf("an expired key is not told to be known: %v", got)
	}
	if got := a.get(path, "alice"); !strings.Contains(got.body, `"state": "expired"`) || !strings.Contains(got.body, `"verdict": "applied"`) {
		t.Errorf("status: %v", got)
	}
	wantProblem(t, a.get(strings.Replace(path, "status", "result", 1), "alice"), 422, contract.KeyExpired, contract.NextResolve)
	a.wantEffects(1)
}

func TestStoreLostAfterTheEffect(t *testing.T) {
	t.Parallel()
	store := &steeredStore{Store: memstore.New()}
	a := newAPI(t, options{store: store, engine: einmal.Config{RecordGrace: time.Millisecond}})
	a.handle("/op", einmal.Policy{}, func(w http.ResponseWriter, r *http.Request) {
		failWith(&store.apply, errors.New("disk on fire"))
		failWith(&store.get, errors.New("disk on fire"))
		createOrder(w, r)
	})
	got := a.send(request{path: "/op"})
	if got.status != 201 || got.header.Get("Idempotency-Recorded") != "false" || got.body != `{"order":1}` {
		t.Errorf("the true answer did not go out as unrecorded: %v", got)
	}
	heal(&store.apply)
	heal(&store.get)
	again := a.send(request{path: "/op", header: http.Header{"Prefer": {"wait=10"}}})
	if again.status != 201 || again.header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("the late truth did not arrive: %v", again)
	}
	a.wantEffects(1)
}

func TestKeyOnWhatIsNoOperation(t *testing.T) {
	t.Parallel()
	a := newAPI(t, options{})
	a.handle("/op", einmal.Policy{KeyOptional: true}, status(200, "plain"))
	for name, c := range map[string]struct {
		q       request
		ignored string
	}{
		"a safe method with a key":              {request{method: "GET", path: "/op"}, "true"},
		"a safe method with a malformed key":    {request{method: "GET", path: "/op", key: `"`}, "true"},
		"a safe method without":                 {request{method: "OPTIONS", path: "/op", noKey: true}, ""},
		"no key where the policy asks for none": {request{path: "/op", noKey: true, token: "nobody"}, ""},
	} {
		for range 2 {
			got := a.send(c.q)
			if got.status != 200 || got.header.Get("Idempotency-Ignored") != c.ignored || got.header.Get("Link") != "" {
				t.Errorf("%s: %v", name, got)
			}
		}
	}
	a.wantEffects(8)
}

func TestIdentityComesFirst(t *testing.T) {
	t.Parallel()
	a := newAPI(t, options{config: einmalhttp.Config{Identify: func(r *http.Request) (einmal.Caller, error) {
		switch r.Header.Get("X-Test") {
		case "plain":
			return einmal.Caller{}, errors.New("secret reason")
		case "down":
			return einmal.Caller{}, &einmalhttp.AuthError{Status: 503, RetryAfter: 7 * time.Second, Cause: errors.New("secret reason")}
		case "problem":
			return einmal.Caller{}, fmt.Errorf("wrapped: %w", contract.NewProblem(contract.Stopping, ""))
		case "nobody":
			return einmal.Caller{Tenant: "acme"}, nil
		}
		return einmal.Caller{}, &einmalhttp.AuthError{Status: 401, Challenge: `Bearer realm="orders"`, Detail: "Sign in first."}
	}}})
	a.handle("/op", einmal.Policy{}, createOrder)
	for test, want := range map[string]struct {
		status           int
		challenge, after string
		kind             string
	}{
		"plain":   {401, "", "", "about:blank"},
		"down":    {503, "", "7", "about:blank"},
		"problem": {503, "", "", "/.idempotency/contract#stopping"},
		"nobody":  {401, "", "", "about:blank"},
		"":        {401, `Bearer realm="orders"`, "", "about:blank"},
	} {
		header := http.Header{"X-Test": {test}}
		for _, got := range []answer{
			a.send(request{path: "/op", header: header}),
			a.send(request{path: "/op", key: `"broken`, header: header}), // before the key is read
			a.send(request{method: "GET", path: "/.idempotency/status/op_1", noKey: true, header: header}),
		} {
			doc := problemOf(t, got)
			if got.status != want.status || got.header.Get("WWW-Authenticate") != want.challenge || got.header.Get("Retry-After") != want.after || doc.Type != want.kind {
				t.Errorf("%q: %v", test, got)
			}
			if strings.Contains(got.String(), "secret") {
				t.Errorf("%q tells the cause: %v", test, got)
			}
		}
	}
	a.wantEffects(0)
}

// TestParameters: what belongs to the operation, so that another one under the same key is refused, and what does not.
func TestParameters(t *testing.T) {
	t.Parallel()
	a := newAPI(t, options{})
	op := einmal.Policy{Name: "op", Owner: "o", Rules: &einmal.Rules{Headers: []string{"x-account", "Host"}}}
	defined := a.engine.Define(op)
	wrapped := a.idem.Wrap(defined)(a.counted(createOrder))
	a.mux.Handle("POST /customers/{id}/orders", wrapped)
	a.mux.Handle("PUT /customers/{id}/orders", wrapped)
	a.mux.Handle("POST /suppliers/{id}/orders", wrapped)
	a.mux.Handle("/old/", http.StripPrefix("/old/1", wrapped))
	base := request{path: "/customers/1/orders?q=1", header: http.Header{"Content-Type": {"a/b"}, "X-Account": {"one"}, "If-Match": {`"1"`}}}
	with := func(change func(*request)) request {
		q := base
		q.header = base.header.Clone()
		change(&q)
		return q
	}
	if first := a.send(base); first.status != 201 {
		t.Fatal(first)
	}
	for name, q := range map[string]request{
		"method":             with(func(q *request) { q.method = "PUT" }),
		"value in the path":  with(func(q *request) { q.path = "/customers/2/orders?q=1" }),
		"escape in the path": with(func(q *request) { q.path = "/customers/%31/orders?q=1" }),
		"another route":      with(func(q *request) { q.path = "/suppliers/1/orders?q=1" }),
		"stripped prefix":    with(func(q *request) { q.path = "/old/1/customers/1/orders?q=1" }),
		"query":              with(func(q *request) { q.path = "/customers/1/orders?q=2" }),
		"Content-Type":       with(func(q *request) { q.header.Set("Content-Type", "a/c") }),
		"Content-Encoding":   with(func(q *request) { q.header.Set("Content-Encoding", "gzip") }),
		"another If-*":       with(func(q *request) { q.header.Set("If-None-Match", "*") }),
		"If-Match":           with(func(q *request) { q.header.Set("If-Match", `"2"`) }),
		"policy's header":    with(func(q *request) { q.header.Set("X-Account", "two") }),
		"body":               with(func(q *request) { q.body = "hello " }),
	} {
		if got := a.send(q); got.status != 422 {
			t.Errorf("%s does not count: %v", name, got)
		}
	}
	for name, q := range map[string]request{
		"another header": with(func(q *request) { q.header.Set("User-Agent", "other") }),
		"Prefer":         with(func(q *request) { q.header.Set("Prefer", "wait=1") }),
		"nothing":        base,
	} {
		if got := a.send(q); got.status != 201 || got.header.Get("Idempotent-Replayed") != "true" {
			t.Errorf("%s counts: %v", name, got)
		}
	}
	a.wantEffects(1)
}

// TestEqualAnswersAreStoredAlike, although a handler's header has no order, and whatever case it writes names in.
func TestEqualAnswersAreStoredAlike(t *testing.T) {
	t.Parallel()
	a := newAPI(t, options{})
	a.handle("/op", einmal.Policy{}, func(w http.ResponseWriter, r *http.Request) {
		w.Header()["etag"] = []string{`"one"`}
		createOrder(w, r)
		w.Header()["etag"] = nil
	})
	var first []einmal.Field
	for i := range 20 {
		got := a.send(request{path: "/op", key: fmt.Sprint(i)})
		op, err := a.engine.Get(t.Context(), idOf(t, got))
		if err != nil {
			t.Fatal(err)
		}
		names := []string{}
		for _, f := range op.Result.Header {
			names = append(names, f.Name)
		}
		if want := []string{"Content-Type", "Location", "Etag", "Etag", "Link", "Link"}; !cmp.Equal(want, names) {
			t.Fatalf("stored %v, want the fields %v", op.Result.Header, want)
		}
		if first == nil {
			first = op.Result.Header
		}
		if diff := cmp.Diff(first, op.Result.Header); diff != "" {
			t.Errorf("stored otherwise than the first (-first +this):\n%s", diff)
		}
	}
}

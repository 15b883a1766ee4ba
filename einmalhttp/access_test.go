package einmalhttp_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/einmal-dev/einmal"
	"github.com/einmal-dev/einmal/contract"
	"github.com/einmal-dev/einmal/einmalhttp"
	"github.com/einmal-dev/einmal/memstore"
)

// TestNothingIsRevealed: to somebody else's key or another request's, the answer is the same bytes whatever the record holds.
func TestNothingIsRevealed(t *testing.T) {
	t.Parallel()
	a := newAPI(t, options{})
	held, release := make(chan struct{}), make(chan struct{})
	defer close(release)
	for path, h := range map[string]http.HandlerFunc{
		"/completed": createOrder, "/refused": status(422, "no"), "/unclear": status(500, "broken"), "/not-applied": status(429, "later"),
		"/large":   status(201, strings.Repeat("x", 2000)),
		"/running": func(http.ResponseWriter, *http.Request) { close(held); <-release },
	} {
		a.handle(path, einmal.Policy{Rules: &einmal.Rules{MaxResult: 1000}}, h)
	}
	paths := []string{"/completed", "/refused", "/unclear", "/not-applied", "/large"}
	for _, path := range paths {
		a.send(request{path: path})
	}
	go func() { _, _ = a.do(a.build(request{path: "/running"})) }()
	await(t, "the running attempt", held)

	var notYours, reused, waited []string
	for _, path := range append(paths, "/running") {
		got := a.send(request{path: path, token: "bob"})
		wantProblem(t, got, 403, contract.NotYours, contract.NextResolve)
		notYours = append(notYours, bytesOf(got))
		got = a.send(request{path: path, body: "other"})
		wantProblem(t, got, 422, contract.KeyReused, contract.NextResolve)
		reused = append(reused, bytesOf(got))
		waited = append(waited, bytesOf(a.send(request{path: path, token: "bob", header: http.Header{"Prefer": {"wait=20"}}})))
	}
	for i := range notYours {
		if notYours[i] != notYours[0] || reused[i] != reused[0] || waited[i] != notYours[0] {
			t.Errorf("the answers differ between records:\n%s\n%s\n%s", notYours[i], reused[i], waited[i])
		}
		if strings.Contains(notYours[i]+reused[i], "op_") || strings.Contains(notYours[i]+reused[i], "Link") {
			t.Errorf("the answers name the operation:\n%s\n%s", notYours[i], reused[i])
		}
	}
	// Another tenant's key is another operation.
	if got := a.send(request{path: "/completed", token: "eve", body: "other"}); got.status != 201 || got.header.Get("Idempotent-Replayed") != "" {
		t.Errorf("another tenant: %v", got)
	}
}

func bytesOf(got answer) string {
	var b strings.Builder
	_ = without(got.header, "Date").Write(&b) // sorted
	return fmt.Sprintf("%d\r\n%s\r\n%s", got.status, b.String(), got.body)
}

// TestRevokedAccess: a stored answer is no permission, neither now nor after a wait.
func TestRevokedAccess(t *testing.T) {
	t.Parallel()
	const secret = "the stored answer"
	for name, c := range map[string]struct {
		revoke func(a *api)
		status int
	}{
		"gone":          {func(a *api) { a.revoke("alice") }, 401},
		"somebody else": {func(a *api) { a.mu.Lock(); a.callers["alice"] = a.callers["bob"]; a.mu.Unlock() }, 401},
		"not permitted": {func(a *api) { a.forbid.Store(true) }, 403},
	} {
		t.Run("while waiting: "+name, func(t *testing.T) {
			t.Parallel()
			store := &steeredStore{Store: memstore.New(), found: make(chan struct{}, 1)}
			a := newAPI(t, options{authorize: true, store: store})
			held, release := make(chan struct{}), make(chan struct{})
			a.handle("/op", einmal.Policy{}, func(w http.ResponseWriter, _ *http.Request) {
				close(held)
				<-release
				fmt.Fprint(w, secret)
			})
			first, waiting := make(chan answer, 1), make(chan answer, 1)
			go func() { first <- a.send(request{path: "/op"}) }()
			await(t, "the attempt", held)
			go func() { waiting <- a.send(request{path: "/op", header: http.Header{"Prefer": {"wait=20"}}}) }()
			await(t, "the duplicate", store.found)
			c.revoke(a)
			close(release)
			if got := await(t, "the first answer", first); got.body != secret {
				t.Errorf("the first caller: %v", got)
			}
			got := await(t, "the waiter", waiting)
			problemOf(t, got)
			if got.status != c.status || strings.Contains(got.String(), secret) || strings.Contains(got.String(), "op_") {
				t.Errorf("the waiter got %v, want %d", got, c.status)
			}
		})
	}
	t.Run("while waiting for an attempt without effect", func(t *testing.T) {
		t.Parallel()
		store := &steeredStore{Store: memstore.New(), found: make(chan struct{}, 1)}
		a := newAPI(t, options{store: store})
		held, release := make(chan struct{}), make(chan struct{})
		a.handle("/op", einmal.Policy{}, func(w http.ResponseWriter, _ *http.Request) {
			close(held)
			<-release
			w.WriteHeader(429)
		})
		go func() { _, _ = a.do(a.build(request{path: "/op"})) }()
		await(t, "the attempt", held)
		waiting := make(chan answer, 1)
		go func() { waiting <- a.send(request{path: "/op", header: http.Header{"Prefer": {"wait=20"}}}) }()
		await(t, "the duplicate", store.found)
		a.revoke("alice")
		close(release)
		if got := await(t, "the waiter", waiting); got.status != 401 || strings.Contains(got.String(), "op_") {
			t.Errorf("the waiter got %v", got)
		}
	})
	t.Run("before a replay", func(t *testing.T) {
		t.Parallel()
		a := newAPI(t, options{authorize: true})
		a.handle("/op", einmal.Policy{}, status(200, secret))
		path := statusPath(t, a.send(request{path: "/op"}))
		a.forbid.Store(true)
		for _, got := range []answer{a.send(request{path: "/op"}), a.get(path, "alice"), a.get(strings.Replace(path, "status", "result", 1), "alice")} {
			problemOf(t, got)
			if got.status != 403 || strings.Contains(got.String(), secret) || got.header.Get("Idempotent-Replayed") != "" {
				t.Errorf("got %v", got)
			}
		}
		a.wantEffects(1)
	})
}

// TestLongUpload: who sends a request is asked again when its body took long. Time is virtual.
func TestLongUpload(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		upload        time.Duration
		status, asked int
		after         einmal.Caller
	}{
		"short":               {time.Second, 201, 1, einmal.Caller{}},
		"long":                {2 * time.Second, 201, 2, einmal.Caller{Principal: "alice"}},
		"long, somebody else": {2 * time.Second, 401, 2, einmal.Caller{Principal: "bob"}},
		"long, revoked":       {2 * time.Second, 401, 2, einmal.Caller{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				eng, err := einmal.New(einmal.Config{Store: memstore.New()})
				if err != nil {
					t.Fatal(err)
				}
				defer eng.Close(t.Context())
				asked := 0
				idem := einmalhttp.New(eng, einmalhttp.Config{Identify: func(*http.Request) (einmal.Caller, error) {
					switch asked++; {
					case asked == 1:
						return einmal.Caller{Principal: "alice"}, nil
					case c.after == einmal.Caller{}:
						return c.after, errors.New("revoked")
					}
					return c.after, nil
				}})
				h := idem.Wrap(eng.Define(einmal.Policy{Name: "op", Owner: "o"}))(http.HandlerFunc(createOrder))
				req := httptest.NewRequest("POST", "/op", io.MultiReader(strings.NewReader("hel"), slow(c.upload), strings.NewReader("lo")))
				req.Header.Set("Idempotency-Key", "k-1")
				w := httptest.NewRecorder()
				h.ServeHTTP(w, req)
				if w.Code != c.status || asked != c.asked {
					t.Errorf("got %d after %d identifications, want %d after %d", w.Code, asked, c.status, c.asked)
				}
			})
		})
	}
}

type slow time.Duration

func (s slow) Read([]byte) (int, error) { time.Sleep(time.Duration(s)); return 0, io.EOF }

func TestWaiting(t *testing.T) {
	t.Parallel()
	a := newAPI(t, options{config: einmalhttp.Config{MaxWait: 20 * time.Second}})
	held, release := make(chan struct{}), make(chan struct{})
	a.handle("/op", einmal.Policy{}, func(w http.ResponseWriter, r *http.Request) {
		close(held)
		<-release
		createOrder(w, r)
	})
	first := make(chan answer, 1)
	go func() { first <- a.send(request{path: "/op"}) }()
	await(t, "the attempt", held)
	for _, c := range []struct{ prefer, applied string }{
		{"", ""},
		{"respond-async", ""},
		{"wait=0", ""},
		{"wait=x", ""},
		{"wait", ""},
		{"wait=-1", ""},
		{`respond-async, WAIT = "1"; a=b, wait=20`, "wait=1"},
	} {
		got := a.send(request{path: "/op", header: http.Header{"Prefer": {c.prefer}}})
		wantProblem(t, got, 409, contract.InProgress, contract.NextWait)
		if got.header.Get("Preference-Applied") != c.applied {
			t.Errorf("Prefer: %s: %v", c.prefer, got)
		}
	}
	const waiters = 8
	waiting := make(chan answer, waiters)
	for range waiters {
		go func() { waiting <- a.send(request{path: "/op", header: http.Header{"Prefer": {"wait=9999"}}}) }()
	}
	close(release)
	await(t, "the first answer", first)
	for range waiters {
		got := await(t, "a waiter", waiting)
		if got.status != 201 || got.header.Get("Idempotent-Replayed") != "true" {
			t.Errorf("a waiter got %v", got)
		}
		if p := got.header.Get("Preference-Applied"); p != "wait=20" {
			t.Errorf("Preference-Applied: %q", p)
		}
	}
	a.wantEffects(1)
}

// TestWaiterNeverExecutes: the attempt that it waited for had no effect; the waiter is told to send again.
func TestWaiterNeverExecutes(t *testing.T) {
	t.Parallel()
	store := &steeredStore{Store: memstore.New(), found: make(chan struct{}, 1)}
	a := newAPI(t, options{store: store})
	held, release := make(chan struct{}), make(chan struct{})
	a.handle("/op", einmal.Policy{}, func(w http.ResponseWriter, _ *http.Request) {
		close(held)
		<-release
		w.WriteHeader(429)
	})
	first, waiting := make(chan answer, 1), make(chan answer, 1)
	go func() { first <- a.send(request{path: "/op"}) }()
	await(t, "the attempt", held)
	go func() { waiting <- a.send(request{path: "/op", header: http.Header{"Prefer": {"wait=20"}}}) }()
	await(t, "the duplicate", store.found)
	close(release)
	await(t, "the first answer", first)
	wantProblem(t, await(t, "the waiter", waiting), 409, contract.InProgress, contract.NextRetry)
	a.wantEffects(1)
}

func TestStatusResource(t *testing.T) {
	t.Parallel()
	a := newAPI(t, options{})
	a.handle("/ok", einmal.Policy{}, createOrder)
	a.handle("/unclear", einmal.Policy{}, status(500, "broken"))
	ok, unclear := a.send(request{path: "/ok"}), a.send(request{path: "/unclear"})
	byID := a.get(statusPath(t, ok), "alice")
	byKey := a.send(request{method: "GET", path: "/.idempotency/status?operation=ok", key: `"k-1"`})
	if byID.status != 200 || byID.body != byKey.body || byID.header.Get("Cache-Control") != "no-store" || byID.header.Get("Content-Type") != "application/json" {
		t.Errorf("by ID: %v\nby key: %v", byID, byKey)
	}
	for _, part := range []string{
		`"operation": "ok"`, `"state": "completed"`, `"verdict": "applied"`, `"attempt": 1`, `"kept": "whole"`, `"size": 11`, `"status": 201`,
		`"url": "/.idempotency/result/` + idOf(t, ok) + `"`, `"recognised_until": "`, `"created": "`, `"since": "`,
	} {
		if !strings.Contains(byID.body, part) {
			t.Errorf("no %s in %s", part, byID.body)
		}
	}
	for _, part := range []string{`"state": "unclear"`, `"next": "resolve"`, `"retry_after": `, `"owner": "orders@example.com"`} {
		if got := a.get(statusPath(t, unclear), "alice"); !strings.Contains(got.body, part) || got.header.Get("Retry-After") == "" {
			t.Errorf("no %s in %v", part, got)
		}
	}

	again := a.send(request{method: "GET", path: statusPath(t, ok), noKey: true, header: http.Header{"If-None-Match": {byID.header.Get("ETag")}}})
	if again.status != 304 || again.body != "" {
		t.Errorf("conditional: %v", again)
	}
	refused := a.get(strings.Replace(statusPath(t, unclear), "status", "result", 1), "alice")
	wantProblem(t, refused, 409, contract.OutcomeUnclear, contract.NextResolve)
	if links := refused.header.Values("Link"); len(links) != 1 {
		t.Errorf("links of the result resource: %v", links)
	}
	a.resolve(unclear, einmal.ResolveNotApplied, nil)
	if got := a.get(statusPath(t, unclear), "alice"); !strings.Contains(got.body, `"state": "not_applied"`) || !strings.Contains(got.body, `"next": "retry"`) {
		t.Errorf("resolved: %v", got)
	}

	a.handle("/plain", einmal.Policy{}, status(200, "no link of its own"))
	a.send(request{path: "/plain"})
	for _, path := range []string{"/ok", "/plain"} {
		replay := a.send(request{path: path})
		result := a.get(strings.Replace(statusPath(t, replay), "status", "result", 1), "alice")
		if diff := cmp.Diff(bytesOf(replay), bytesOf(result)); diff != "" {
			t.Errorf("%s: the result resource is no replay (-replay +result):\n%s", path, diff)
		}
	}
	a.wantEffects(3)
}

// TestUnknownOperationsLookAlike: never sent, another tenant's and another principal's.
func TestUnknownOperationsLookAlike(t *testing.T) {
	t.Parallel()
	a := newAPI(t, options{})
	a.handle("/ok", einmal.Policy{}, createOrder)
	id := idOf(t, a.send(request{path: "/ok"}))
	unknown := a.send(request{method: "GET", path: "/.idempotency/status?operation=ok", key: "never-sent"})
	wantProblem(t, unknown, 404, contract.NotKnown, contract.NextRetry)
	for name, got := range map[string]answer{
		"by ID, made up":            a.get("/.idempotency/status/op_00000000000000000000000000", "alice"),
		"by ID, no ID at all":       a.get("/.idempotency/status/x", "alice"),
		"by ID, another principal":  a.get("/.idempotency/status/"+id, "bob"),
		"by ID, another tenant":     a.get("/.idempotency/status/"+id, "eve"),
		"by key, another principal": a.send(request{method: "GET", path: "/.idempotency/status?operation=ok", token: "bob"}),
		"by key, another tenant":    a.send(request{method: "GET", path: "/.idempotency/status?operation=ok", token: "eve"}),
		"by key, unknown operation": a.send(request{method: "GET", path: "/.idempotency/status?operation=nope"}),
		"result, made up":           a.get("/.idempotency/result/op_00000000000000000000000000", "alice"),
		"result, another principal": a.get("/.idempotency/result/"+id, "bob"),
	} {
		if diff := cmp.Diff(bytesOf(unknown), bytesOf(got)); diff != "" {
			t.Errorf("%s (-unknown +got):\n%s", name, diff)
		}
	}
	if got := a.get("/.idempotency/status/"+id, "nobody"); got.status != 401 {
		t.Errorf("without identification: %v", got)
	}
}

func TestResourcesRefuse(t *testing.T) {
	t.Parallel()
	a := newAPI(t, options{})
	for name, c := range map[string]struct {
		q      request
		status int
	}{
		"no such resource":       {request{method: "GET", path: "/.idempotency/nothing"}, 404},
		"the root":               {request{method: "GET", path: "/.idempotency/"}, 404},
		"another method":         {request{path: "/.idempotency/status/x"}, 405},
		"no operation named":     {request{method: "GET", path: "/.idempotency/status"}, 400},
		"no key":                 {request{method: "GET", path: "/.idempotency/status?operation=x", noKey: true}, 400},
		"a malformed key":        {request{method: "GET", path: "/.idempotency/status?operation=x", key: `"`}, 400},
		"something below":        {request{method: "GET", path: "/.idempotency/contract/x"}, 404},
		"a result without an ID": {request{method: "GET", path: "/.idempotency/result"}, 404},
	} {
		got := a.send(c.q)
		if problemOf(t, got); got.status != c.status {
			t.Errorf("%s: %v, want %d", name, got, c.status)
		}
		if allow := got.header.Get("Allow"); (allow == "GET, HEAD") != (c.status == 405) {
			t.Errorf("%s: Allow: %q", name, allow)
		}
	}
}

// TestContractPage: every problem's type is an address that the server answers, at the situation.
func TestContractPage(t *testing.T) {
	t.Parallel()
	a := newAPI(t, options{})
	a.handle("/op", einmal.Policy{
		Effect: einmal.Keyed(time.Hour), Window: 48 * time.Hour, KeyAge: einmal.KeyAgeUUIDv7, KeyOptional: true,
		Rules: &einmal.Rules{Statuses: map[int]einmal.End{500: einmal.EndNoEffect}, BoundToKey: []int{402}, Headers: []string{"X-Account"}},
	}, createOrder)
	refused := problemOf(t, a.send(request{path: "/op", key: `"`}))
	target := mustURL(t, refused.Type)
	page := a.send(request{method: "GET", path: target.Path, token: "nobody", noKey: true, header: http.Header{"Accept": {"text/html,application/xhtml+xml,*/*;q=0.8"}}})
	if page.status != 200 || !strings.HasPrefix(page.header.Get("Content-Type"), "text/html") || page.header.Get("Content-Security-Policy") != contract.PageCSP {
		t.Fatalf("page: %v", page)
	}
	for _, s := range contract.Situations {
		if !strings.Contains(page.body, `id="`+string(s.Kind)+`"`) {
			t.Errorf("the page has no place for %s", s.Kind)
		}
	}
	got := a.get(target.Path, "nobody")
	doc, err := contract.DecodeDocument([]byte(got.body))
	if err != nil || got.header.Get("Content-Type") != "application/json" || got.header.Get("Vary") != "Accept" {
		t.Fatalf("document: %v, %v", err, got)
	}
	if doc.TypeBase+string(contract.KeyInvalid) != refused.Type || doc.MaxWait != contract.Seconds(30*time.Second) || len(doc.Operations) != 1 {
		t.Errorf("document: %+v", doc)
	}
	op := doc.Operations[0]
	if end, _ := op.Statuses.End(500); op.Effect != "keyed" || op.Key != "optional" || op.KeyAge != "uuidv7" || op.Window != contract.Seconds(48*time.Hour) ||
		op.PartnerWindow != contract.Seconds(time.Hour) || end != contract.EndNoEffect || op.Statuses.BoundToKey[0] != 402 || op.Parameters[0] != "X-Account" {
		t.Errorf("operation: %+v", op)
	}
	if again := a.send(request{method: "GET", path: target.Path, noKey: true, header: http.Header{"If-None-Match": {got.header.Get("ETag")}}}); again.status != 304 {
		t.Errorf("conditional: %v", again)
	}
	// Operations that are defined later are on it.
	a.handle("/later", einmal.Policy{}, createOrder)
	if got := a.get(target.Path, "nobody"); !strings.Contains(got.body, `"later"`) {
		t.Errorf("no operation later: %v", got)
	}
}

// TestURLs never come from the Host header.
func TestURLs(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		config einmalhttp.Config
		mount  func(idem http.Handler) http.Handler
		base   string
	}{
		"relative":               {einmalhttp.Config{}, nil, "/.idempotency/"},
		"public URL":             {einmalhttp.Config{PublicURL: "https://api.example.com"}, nil, "https://api.example.com/.idempotency/"},
		"public URL with a path": {einmalhttp.Config{PublicURL: "https://example.com/api/"}, nil, "https://example.com/api/.idempotency/"},
		"another prefix, stripped": {einmalhttp.Config{Prefix: "/v1/once/"}, func(h http.Handler) http.Handler {
			return http.StripPrefix("/v1/once", h)
		}, "/v1/once/"},
		"another prefix, not stripped":        {einmalhttp.Config{Prefix: "/v1/once/"}, func(h http.Handler) http.Handler { return h }, "/v1/once/"},
		"no prefix":                           {einmalhttp.Config{Prefix: "/"}, func(h http.Handler) http.Handler { return h }, "/"},
		"a prefix like a resource":            {einmalhttp.Config{Prefix: "/status/"}, func(h http.Handler) http.Handler { return h }, "/status/"},
		"a prefix like a resource, stripped":  {einmalhttp.Config{Prefix: "/status/"}, func(h http.Handler) http.Handler { return http.StripPrefix("/status", h) }, "/status/"},
		"a prefix like the resource of bytes": {einmalhttp.Config{Prefix: "/result/"}, func(h http.Handler) http.Handler { return h }, "/result/"},
		"below a router that strips nothing": {einmalhttp.Config{}, func(h http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.ServeHTTP(w, r) })
		}, "/.idempotency/"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAPI(t, options{config: c.config})
			a.handle("/op", einmal.Policy{}, createOrder)
			if c.mount != nil && c.config.Prefix != "" {
				a.mux.Handle(c.config.Prefix, c.mount(a.idem))
			}
			req := a.build(request{path: "/op"})
			req.Host = "evil.example"
			got, err := a.do(req)
			if err != nil {
				t.Fatal(err)
			}
			path := statusPath(t, got)
			if !strings.HasPrefix(path, c.base+"status/op_") {
				t.Errorf("status URL %q, want it below %q", path, c.base)
			}
			if st := a.get(strings.TrimPrefix(mustURL(t, path).Path, "/api"), "alice"); st.status != 200 { // /api is stripped by a proxy in front
				t.Errorf("status: %v", st)
			}
			for _, resource := range []string{"result/" + idOf(t, got), "contract", "status?operation=op"} {
				path := strings.TrimPrefix(mustURL(t, c.base).Path, "/api") + resource
				if got := a.send(request{method: "GET", path: path}); got.status != 200 && got.status != 201 {
					t.Errorf("%s: %v", path, got)
				}
			}
			if got := a.get(strings.TrimPrefix(mustURL(t, c.base).Path, "/api")+"other", "alice"); got.status != 404 {
				t.Errorf("no resource: %v", got)
			}
		})
	}
}

// TestPolling: what only counts down is no other answer.
func TestPolling(t *testing.T) {
	t.Parallel()
	var ahead atomic.Int64
	store := memstore.NewStorage(memstore.Options{Clock: func() (time.Time, time.Duration) {
		wall, mono := einmal.SystemClock()
		return wall.Add(time.Duration(ahead.Load())), mono + time.Duration(ahead.Load())
	}}).Open()
	a := newAPI(t, options{store: store})
	a.handle("/op", einmal.Policy{}, status(500, "broken"))
	path := statusPath(t, a.send(request{path: "/op"}))
	before := a.get(path, "alice")
	ahead.Store(int64(time.Minute))
	after := a.get(path, "alice")
	if before.body == after.body || before.header.Get("ETag") != after.header.Get("ETag") || before.header.Get("Retry-After") == after.header.Get("Retry-After") {
		t.Errorf("before %v\nafter a minute %v", before, after)
	}
}

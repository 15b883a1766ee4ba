package einmalhttp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/einmal-dev/einmal"
	"github.com/einmal-dev/einmal/contract"
	"github.com/einmal-dev/einmal/einmalhttp"
	"github.com/einmal-dev/einmal/memstore"
)

// api is one engine behind one real server.
type api struct {
	t       *testing.T
	engine  *einmal.Engine
	idem    *einmalhttp.Server
	server  *httptest.Server
	mux     *http.ServeMux
	client  *http.Client
	logged  *logBuffer
	effect  atomic.Int64 // how often a handler ran
	forbid  atomic.Bool  // Authorize says no
	mu      sync.Mutex
	callers map[string]einmal.Caller // by bearer token
}

type options struct {
	store     einmal.Store
	config    einmalhttp.Config
	engine    einmal.Config
	http2     bool
	authorize bool // ask a.forbid
}

// newAPI starts a server. Callers are "alice" (the default), "bob" of the same tenant, and "eve" of another.
func newAPI(t *testing.T, o options) *api {
	t.Helper()
	a := &api{t: t, mux: http.NewServeMux(), logged: new(logBuffer), callers: map[string]einmal.Caller{
		"alice": {Tenant: "acme", Principal: "alice"},
		"bob":   {Tenant: "acme", Principal: "bob"},
		"eve":   {Tenant: "other", Principal: "alice"},
	}}
	log := slog.New(slog.NewTextHandler(a.logged, nil))
	if o.engine.Store = o.store; o.store == nil {
		o.engine.Store = memstore.New()
	}
	o.engine.Log = log
	var err error
	if a.engine, err = einmal.New(o.engine); err != nil {
		t.Fatal(err)
	}
	if o.config.Identify == nil {
		o.config.Identify = a.identify
	}
	if o.authorize {
		o.config.Authorize = func(*http.Request, einmal.Operation) error {
			if a.forbid.Load() {
				return errors.New("secret reason")
			}
			return nil
		}
	}
	o.config.Log = log
	a.idem = einmalhttp.New(a.engine, o.config)
	a.mux.Handle("/.idempotency/", a.idem)
	a.server = httptest.NewUnstartedServer(a.mux)
	a.server.Config.ErrorLog = slog.NewLogLogger(log.Handler(), slog.LevelError)
	if o.http2 {
		a.server.EnableHTTP2 = true
		a.server.StartTLS()
	} else {
		a.server.Start()
	}
	a.client = a.server.Client()
	a.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	a.client.Transport.(*http.Transport).MaxIdleConnsPerHost = 200
	t.Cleanup(func() {
		a.server.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := a.engine.Close(ctx); err != nil {
			t.Errorf("the engine did not come to an end: %v", err)
		}
	})
	return a
}

// logBuffer keeps the log, which servers write to from many goroutines.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func (a *api) identify(r *http.Request) (einmal.Caller, error) {
	token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	a.mu.Lock()
	defer a.mu.Unlock()
	c, ok := a.callers[token]
	if !ok {
		return c, &einmalhttp.AuthError{Status: 401, Challenge: "Bearer", Detail: "Sign in first."}
	}
	return c, nil
}

func (a *api) revoke(token string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.callers, token)
}

// handle wraps a handler at a path as an operation of its own name.
func (a *api) handle(path string, p einmal.Policy, h http.HandlerFunc) *einmal.Op {
	if p.Name == "" {
		p.Name = strings.Trim(path, "/")
	}
	if p.Owner == "" {
		p.Owner = "orders@example.com"
	}
	op := a.engine.Define(p)
	a.mux.Handle(path, a.idem.Wrap(op)(a.counted(h)))
	return op
}

func (a *api) counted(h http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.effect.Add(1)
		h(w, r)
	})
}

func (a *api) wantEffects(n int64) {
	a.t.Helper()
	if got := a.effect.Load(); got != n {
		a.t.Errorf("the handler ran %d times, want %d", got, n)
	}
}

// answer is a response read whole.
type answer struct {
	status int
	header http.Header
	body   string
}

func (a answer) String() string { return fmt.Sprintf("%d %v %q", a.status, a.header, a.body) }

// request is what send sends. The zero value is a POST by alice with the key k-1 and the body "hello".
type request struct {
	method, path, key, token, body string
	header                         http.Header
	noKey                          bool
}

func (a *api) build(q request) *http.Request {
	a.t.Helper()
	if q.method == "" {
		q.method = http.MethodPost
	}
	if q.body == "" {
		q.body = "hello"
	}
	req, err := http.NewRequest(q.method, a.server.URL+q.path, strings.NewReader(q.body))
	if err != nil {
		a.t.Fatal(err)
	}
	for name, values := range q.header {
		req.Header[name] = values
	}
	if q.token == "" {
		q.token = "alice"
	}
	req.Header.Set("Authorization", "Bearer "+q.token)
	if q.key == "" {
		q.key = "k-1"
	}
	//lint:ignore SA1008 a name that Transport does not take for a licence to send again
	if !q.noKey && req.Header["idempotency-key"] == nil {
		req.Header["idempotency-key"] = []string{q.key}
	}
	req.GetBody = nil
	return req
}

func (a *api) send(q request) answer {
	a.t.Helper()
	got, err := a.do(a.build(q))
	if err != nil {
		a.t.Fatal(err)
	}
	return got
}

func (a *api) do(req *http.Request) (answer, error) {
	resp, err := a.client.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header, string(body)}, err
}

func (a *api) get(path, token string) answer {
	a.t.Helper()
	return a.send(request{method: http.MethodGet, path: path, token: token, noKey: true})
}

// problemOf decodes a refusal, and fails the test if it is none.
func problemOf(t *testing.T, got answer) (doc struct {
	Type, Title, Detail, Next, Operation string
	Status                               int
	RetryAfter                           int64  `json:"retry_after"`
	StatusURL                            string `json:"status_url"`
	Known                                *bool
},
) {
	t.Helper()
	if ct := got.header.Get("Content-Type"); ct != "application/problem+json" {
		t.Fatalf("no problem document: %v", got)
	}
	if err := json.Unmarshal([]byte(got.body), &doc); err != nil {
		t.Fatalf("%v: %v", err, got)
	}
	if doc.Status != got.status || doc.Title == "" || doc.Type == "" || doc.Next == "" || got.header.Get("Cache-Control") != "no-store" {
		t.Errorf("an incomplete problem: %v", got)
	}
	return doc
}

// wantProblem checks a refusal's status, kind and next, and that only answers about one's own operation link to it.
func wantProblem(t *testing.T, got answer, status int, kind contract.Kind, next contract.Next) {
	t.Helper()
	doc := problemOf(t, got)
	if got.status != status || doc.Type != "/.idempotency/contract#"+string(kind) || doc.Next != string(next) {
		t.Errorf("got %v, want %d %s, next %s", got, status, kind, next)
	}
}

func statusPath(t *testing.T, got answer) string {
	t.Helper()
	for _, link := range got.header.Values("Link") {
		if target, ok := strings.CutSuffix(link, `>; rel="status"`); ok {
			return strings.TrimPrefix(target, "<")
		}
	}
	t.Fatalf("no link to the status resource: %v", got)
	return ""
}

func mustURL(t *testing.T, raw string) *url.URL {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// await fails the test if a thing does not happen. It bounds a hang and is not a measure of time.
func await[T any](t *testing.T, what string, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(10 * time.Second):
		t.Fatalf("waited in vain for %s", what)
	}
	return v
}

// withHints counts the 1xx answers that a client sees.
func withHints(ctx context.Context, n *int) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{Got1xxResponse: func(int, textproto.MIMEHeader) error { *n++; return nil }})
}

func wantEmpty(t *testing.T, dir string) {
	t.Helper()
	left, err := os.ReadDir(dir)
	if err != nil || len(left) > 0 {
		t.Errorf("left in the folder: %v, %v", left, err)
	}
}

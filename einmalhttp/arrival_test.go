package einmalhttp_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/einmal-dev/einmal"
	"github.com/einmal-dev/einmal/contract"
	"github.com/einmal-dev/einmal/einmalhttp"
	"github.com/einmal-dev/einmal/memstore"
)

// raw sends a request as it stands, on a connection of its own.
func (a *api) raw(t *testing.T, request string) answer {
	t.Helper()
	c := a.rawConn(t)
	fmt.Fprint(c, request)
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header, string(body)}
}

// TestTargetForms: the path counts whole in every form of the request target (RFC 9112, section 3.2), whatever was stripped on the way to Wrap.
func TestTargetForms(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		one, other string // request targets
		same       bool
	}{
		"absolute, another path":               {"http://h/eu/pay", "http://h/us/pay", false},
		"absolute, another path and a query":   {"http://h/eu/pay?x=1", "http://h/us/pay?x=1", false},
		"absolute, another escape":             {"http://h/eu/pay", "http://h/e%75/pay", false},
		"absolute and origin":                  {"http://h/eu/pay?x=1", "/eu/pay?x=1", true},
		"absolute and origin of another path":  {"http://h/eu/pay", "/us/pay", false},
		"absolute, scheme in capitals":         {"HTTP://h/eu/pay", "/eu/pay", true},
		"absolute, user information":           {"http://u:p@h/eu/pay", "http://u:p@h/us/pay", false},
		"absolute, a URL within the path":      {"http://h/eu/http://x/pay", "http://h/us/http://x/pay", false},
		"absolute without a path":              {"http://h", "/", true},
		"absolute without a path, with query":  {"http://h?x=/eu", "/?x=/eu", true},
		"origin, another path":                 {"/eu/pay", "/us/pay", false},
		"origin, two slashes":                  {"//eu/pay", "/eu/pay", false},
		"origin, a query that looks absolute":  {"/eu/pay?http://h/x", "/us/pay?http://h/x", false},
		"opaque":                               {"urn:eu/pay", "urn:us/pay", false},
		"opaque with an authority further in":  {"urn:eu://h/pay", "urn:us://h/pay", false},
		"asterisk and root":                    {"*", "/", false},
		"asterisk and the path of an asterisk": {"*", "/*", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAPI(t, options{})
			wrapped := a.idem.Wrap(a.engine.Define(einmal.Policy{Name: "op", Owner: "o"}))(a.counted(createOrder))
			a.server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				r2 := new(http.Request)
				*r2 = *r
				r2.URL = &url.URL{Path: "/stripped", RawQuery: r.URL.RawQuery}
				wrapped.ServeHTTP(w, r2)
			})
			var got []answer
			for _, target := range []string{c.one, c.other} {
				head := strings.Replace(rawHead, "/op", target, 1)
				got = append(got, a.raw(t, head+"Content-Length: 2\r\nConnection: close\r\n\r\nhi"))
			}
			if got[0].status != 201 {
				t.Fatalf("first: %v", got[0])
			}
			if replayed := got[1].status == 201; replayed != c.same || !replayed && got[1].status != 422 {
				t.Errorf("got %v, the same operation: want %v", got[1], c.same)
			}
			a.wantEffects(1)
		})
	}
}

// TestMultipartFiles: what a handler's form left in files is removed after it, as net/http does for requests that it knows.
func TestMultipartFiles(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir) // of the process: this test cannot be parallel
	files := func() int {
		all, err := os.ReadDir(dir)
		if err != nil {
			t.Error(err)
		}
		return len(all)
	}
	var form bytes.Buffer
	w := multipart.NewWriter(&form)
	part, err := w.CreateFormFile("f", "f.bin")
	if err != nil {
		t.Fatal(err)
	}
	_, _ = part.Write(make([]byte, 200<<10))
	_ = w.Close()

	parse := func(t *testing.T, r *http.Request) {
		if err := r.ParseMultipartForm(1); err != nil || files() == 0 {
			t.Errorf("the handler's form: %v, %d files", err, files())
		}
	}
	for name, h := range map[string]func(*testing.T, http.ResponseWriter, *http.Request){
		"the handler answers": func(t *testing.T, _ http.ResponseWriter, r *http.Request) { parse(t, r) },
		"the handler panics":  func(t *testing.T, _ http.ResponseWriter, r *http.Request) { parse(t, r); panic("broken") },
	} {
		t.Run(name, func(t *testing.T) {
			eng, err := einmal.New(einmal.Config{Store: memstore.New(), Log: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			defer eng.Close(t.Context())
			idem := einmalhttp.New(eng, einmalhttp.Config{
				Identify: func(*http.Request) (einmal.Caller, error) { return einmal.Caller{Principal: "alice"}, nil },
			})
			op := eng.Define(einmal.Policy{Name: "up", Owner: "o"})
			wrapped := idem.Wrap(op)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h(t, w, r) }))
			r := httptest.NewRequest("POST", "/up", bytes.NewReader(form.Bytes()))
			r.Header.Set("Content-Type", w.FormDataContentType())
			r.Header.Set("Idempotency-Key", "k-1")
			func() {
				defer func() { _ = recover() }()
				wrapped.ServeHTTP(httptest.NewRecorder(), r)
			}()
			wantEmpty(t, dir)
		})
	}
	t.Run("a form of the middleware before is its own", func(t *testing.T) {
		eng, err := einmal.New(einmal.Config{Store: memstore.New()})
		if err != nil {
			t.Fatal(err)
		}
		defer eng.Close(t.Context())
		idem := einmalhttp.New(eng, einmalhttp.Config{
			Identify: func(*http.Request) (einmal.Caller, error) { return einmal.Caller{Principal: "alice"}, nil },
		})
		wrapped := idem.Wrap(eng.Define(einmal.Policy{Name: "up", Owner: "o"}))(http.HandlerFunc(createOrder))
		r := httptest.NewRequest("POST", "/up", bytes.NewReader(form.Bytes()))
		r.Header.Set("Content-Type", w.FormDataContentType())
		r.Header.Set("Idempotency-Key", "k-1")
		if err := r.ParseMultipartForm(1); err != nil {
			t.Fatal(err)
		}
		r.Body = io.NopCloser(bytes.NewReader(form.Bytes()))
		got := httptest.NewRecorder()
		wrapped.ServeHTTP(got, r)
		if got.Code != 201 || files() == 0 {
			t.Errorf("%d, %d files", got.Code, files())
		}
		_ = r.MultipartForm.RemoveAll()
	})
}

// TestBodyTakenBefore: a body that a middleware took is not the same as one that the client did not send.
func TestBodyTakenBefore(t *testing.T) {
	t.Parallel()
	const (
		form    = "Content-Type: application/x-www-form-urlencoded\r\n"
		length  = "Content-Length: 8\r\nConnection: close\r\n\r\namount=1"
		chunked = "Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n8\r\namount=1\r\n0\r\n\r\n"
		none    = "Connection: close\r\n\r\n"
		zero    = "Content-Length: 0\r\nConnection: close\r\n\r\n"
		nothing = "Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n0\r\n\r\n"
		large   = 11 << 20
	)
	type taker = func(*http.Request)
	pass := taker(func(*http.Request) {})
	eat := taker(func(r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })
	parse := taker(func(r *http.Request) { _ = r.FormValue("amount") })
	drop := taker(func(r *http.Request) { r.Body = http.NoBody })
	forget := taker(func(r *http.Request) { r.Body, r.ContentLength = http.NoBody, 0 })
	lose := taker(func(r *http.Request) { r.Body, r.ContentLength = nil, -1 })
	back := taker(func(r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		parse(r)
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	})
	hide := taker(func(r *http.Request) {
		parse(r)
		r.Header.Del("Content-Length")
		r.Body, r.ContentLength = http.NoBody, 0
	})
	part := "--b\r\nContent-Disposition: form-data; name=\"amount\"\r\n\r\n1\r\n--b--\r\n" + strings.Repeat("x", 64<<10)
	parts := "Content-Type: multipart/form-data; boundary=b\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n" +
		fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(part), part)
	const taken, empty = "has read the body", "is empty"
	for name, c := range map[string]struct {
		take    taker
		request string
		log     string // "": the operation runs
	}{
		"read, with a length":                         {eat, length, taken},
		"read, chunked":                               {eat, chunked, empty},
		"parsed, with a length":                       {parse, form + length, taken},
		"parsed, chunked":                             {parse, form + chunked, taken},
		"parsed as far as the parser goes":            {parse, form + "Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n" + chunksOf(large), taken},
		"replaced, with a length":                     {drop, length, taken},
		"replaced, chunked":                           {drop, chunked, empty},
		"replaced, with a length that was reset":      {forget, length, taken},
		"replaced, chunked, with a length that is 0":  {forget, chunked, empty},
		"parsed and hidden":                           {hide, form + length, taken},
		"parsed in parts, and more after them":        {parse, parts, taken},
		"gone":                                        {lose, chunked, empty},
		"chunked and empty, which looks like a taken": {pass, nothing, empty},

		"parsed and put back":                    {back, form + length, ""},
		"parsed and put back, chunked":           {back, form + chunked, ""},
		"parsed where the body is no form":       {parse, length, ""},
		"chunked, parsed where it is no form":    {parse, chunked, ""},
		"no body":                                {pass, none, ""},
		"no body, read":                          {eat, none, ""},
		"no body, parsed":                        {parse, none, ""},
		"no body, parsed as a form":              {parse, form + none, ""},
		"no body and a length, parsed as a form": {parse, form + zero, ""},
		"no body and a length, of unknown now":   {lose, zero, ""},
		"a body that is not touched":             {pass, chunked, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAPI(t, options{})
			op := a.engine.Define(einmal.Policy{Name: "op", Owner: "o", Rules: &einmal.Rules{MaxBody: 2 * large}})
			wrapped := a.idem.Wrap(op)(a.counted(createOrder))
			a.mux.HandleFunc("/op", func(w http.ResponseWriter, r *http.Request) { c.take(r); wrapped.ServeHTTP(w, r) })
			got := a.raw(t, rawHead+c.request)
			if c.log == "" {
				if got.status != 201 {
					t.Errorf("got %v\n%s", got, a.logged)
				}
				return
			}
			next := contract.NextRetry
			if c.log == empty {
				next = contract.NextFix
			}
			wantProblem(t, got, 400, contract.BodyIncomplete, next)
			if !strings.Contains(a.logged.String(), c.log) {
				t.Errorf("the log does not say %q: %s", c.log, a.logged)
			}
			a.wantEffects(0)
		})
	}
}

func chunksOf(n int) string {
	const chunk = 1 << 20
	var b strings.Builder
	for n > 0 {
		size := min(n, chunk)
		fmt.Fprintf(&b, "%x\r\n%s\r\n", size, strings.Repeat("x", size))
		n -= size
	}
	return b.String() + "0\r\n\r\n"
}

// TestTrailers: they are not part of what is compared, so a handler does not get them.
func TestTrailers(t *testing.T) {
	t.Parallel()
	for _, http2 := range []bool{false, true} {
		a := newAPI(t, options{http2: http2})
		seen := make(chan string, 1)
		a.handle("/op", einmal.Policy{}, func(_ http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			seen <- fmt.Sprintf("%s %v %v", body, r.Trailer, r.Header["Trailer"])
		})
		req := a.build(request{path: "/op"})
		req.Body, req.ContentLength = io.NopCloser(strings.NewReader("hello")), -1
		req.Trailer = http.Header{"X-Amount": {"1"}}
		if got, err := a.do(req); err != nil || got.status != 200 {
			t.Fatalf("got %v, %v", got, err)
		}
		if got := await(t, "the handler", seen); got != "hello map[] []" {
			t.Errorf("HTTP/2 %v: the handler saw %q", http2, got)
		}
	}
	// Beside a length, net/http leaves the field where it is. The header map is shared with who is outside, and keeps it.
	a := newAPI(t, options{})
	inside, outside := make(chan string, 1), make(chan string, 1)
	wrapped := a.idem.Wrap(a.engine.Define(einmal.Policy{Name: "op", Owner: "o"}))(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		inside <- r.Header.Get("Trailer")
	}))
	a.mux.HandleFunc("/op", func(w http.ResponseWriter, r *http.Request) {
		wrapped.ServeHTTP(w, r)
		outside <- r.Header.Get("Trailer")
	})
	a.raw(t, rawHead+"Trailer: X-Amount\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi")
	if in, out := await(t, "the handler", inside), await(t, "the middleware", outside); in != "" || out != "X-Amount" {
		t.Errorf("Trailer is %q inside, %q outside", in, out)
	}
}

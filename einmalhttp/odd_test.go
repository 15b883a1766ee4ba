package einmalhttp_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
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

// oddHandlers are answers at the edges of what net/http allows. Their first answer must be what the bare handler's would be, and the replay the same
// less the fields that are not stored.
var oddHandlers = map[string]http.HandlerFunc{
	"204": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) },
	"304": func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("ETag", `"1"`); w.WriteHeader(304) },
	"303": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", "/orders/1")
		w.WriteHeader(303)
	},
	"redirect":       func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/orders/1", http.StatusFound) },
	"http.Error":     func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusUnprocessableEntity) },
	"writes nothing": func(http.ResponseWriter, *http.Request) {},
	"empty body":     func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(201) },
	"an empty write": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(nil) },
	"no status":      func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") },
	"sniffed":        func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html><title>") },
	"sniffed over many writes": func(w http.ResponseWriter, _ *http.Request) {
		for range 1000 {
			fmt.Fprint(w, "{}")
		}
	},
	"no Content-Type": func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Content-Type"] = nil
		fmt.Fprint(w, "hello")
	},
	"encoded, without Content-Type": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "zstd")
		fmt.Fprint(w, "hello")
	},
	"two statuses": func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(201)
		w.WriteHeader(500)
		fmt.Fprint(w, "hello")
	},
	"header after the status": func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(201)
		w.Header().Set("X-Late", "1")
	},
	"body with 204": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204); expect(w, http.ErrBodyNotAllowed) },
	"body over its declared length": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "3")
		_, _ = io.WriteString(w, "abc")
		expect(w, http.ErrContentLength)
	},
	"declared length": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "5")
		fmt.Fprint(w, "hello")
	},
	"flushes": func(w http.ResponseWriter, _ *http.Request) {
		for range 3 {
			fmt.Fprint(w, "tick ")
			w.(http.Flusher).Flush()
			if err := http.NewResponseController(w).Flush(); err != nil {
				panic(err)
			}
		}
	},
	"copies": func(w http.ResponseWriter, _ *http.Request) { _, _ = io.Copy(w, io.LimitReader(zeros{}, 300_000)) },
	"large": func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(bytes.Repeat([]byte("0123456789"), 1<<16))
	},
	"deadlines": func(w http.ResponseWriter, _ *http.Request) {
		c := http.NewResponseController(w)
		if err := errors.Join(c.SetReadDeadline(time.Now().Add(time.Hour)), c.SetWriteDeadline(time.Now().Add(time.Hour))); err != nil {
			http.Error(w, err.Error(), 500)
		}
	},
	"two lines of one name": func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Link"] = []string{"</a>; rel=a", "</b>; rel=b"}
		w.WriteHeader(200)
	},
	"reads its body": func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%d %s %v %v", r.ContentLength, body, err, r.GetBody == nil)
	},
}

// expect panics, so that the test sees no answer, unless a write fails with the error that net/http gives.
func expect(w io.Writer, want error) {
	if _, err := io.WriteString(w, "more"); !errors.Is(err, want) {
		panic(fmt.Sprintf("got %v, want %v", err, want))
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestOddAnswersAreThoseOfTheBareHandler(t *testing.T) {
	t.Parallel()
	for _, http2 := range []bool{false, true} {
		a := newAPI(t, options{http2: http2})
		for name, h := range oddHandlers {
			path := "/" + strings.NewReplacer(" ", "-", ",", "", ".", "-").Replace(name)
			if http2 && name == "body over its declared length" {
				continue // the bare one fails there
			}
			a.handle(path, einmal.Policy{}, h)
			a.mux.Handle("/bare"+path, h)
			t.Run(fmt.Sprintf("%s, HTTP/2 %v", name, http2), func(t *testing.T) {
				bare := a.send(request{path: "/bare" + path})
				before := a.effect.Load()
				first := a.send(request{path: path})
				again := a.send(request{path: path})
				if a.effect.Load() != before+1 {
					t.Errorf("the handler ran %d times", a.effect.Load()-before)
				}
				// The length is known here even where the bare answer was chunked.
				ignore := []string{"Date", "Content-Length"}
				statusLink := "<" + statusPath(t, first) + `>; rel="status"`
				want := without(bare.header, ignore...)
				want.Add("Link", statusLink)
				got := without(first.header, ignore...)
				if diff := cmp.Diff(want, got); diff != "" || first.status != bare.status || first.body != bare.body {
					t.Errorf("first answer %d %q, bare %d %q; header (-bare +first):\n%s", first.status, first.body, bare.status, bare.body, diff)
				}
				for n := range want {
					if stored := append(contract.StoredFields, "Etag"); !contains(stored, n) {
						want.Del(n)
					}
				}
				want.Set("Idempotent-Replayed", "true")
				want.Set("Cache-Control", "no-store")
				if diff := cmp.Diff(want, without(again.header, ignore...)); diff != "" || again.status != bare.status || again.body != bare.body {
					t.Errorf("replay %d %q, bare %d %q; header (-bare +replay):\n%s", again.status, again.body, bare.status, bare.body, diff)
				}
				if first.header.Get("Content-Length") != again.header.Get("Content-Length") {
					t.Errorf("Content-Length: first %v, replay %v", first.header["Content-Length"], again.header["Content-Length"])
				}
			})
		}
	}
}

func contains(list []string, s string) bool {
	for _, e := range list {
		if e == s {
			return true
		}
	}
	return false
}

// TestWhatCannotLeaveEarly: 1xx, trailers and taking over the connection.
func TestWhatCannotLeaveEarly(t *testing.T) {
	t.Parallel()
	for _, http2 := range []bool{false, true} {
		a := newAPI(t, options{http2: http2})
		a.handle("/op", einmal.Policy{}, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Link", "</style.css>; rel=preload")
			w.WriteHeader(http.StatusEarlyHints)
			w.Header().Del("Link")
			w.Header().Set("Trailer", "X-Checksum")
			w.Header().Set(http.TrailerPrefix+"X-Other", "1")
			_, _, hijack := http.NewResponseController(w).Hijack()
			duplex := http.NewResponseController(w).EnableFullDuplex()
			_, isHijacker := w.(http.Hijacker)
			_, isPusher := w.(http.Pusher)
			for _, name := range []string{"Idempotent-Replayed", "Idempotency-Recorded", "Idempotency-Ignored"} {
				w.Header().Set(name, "forged")
			}
			w.WriteHeader(201)
			fmt.Fprintln(w, errors.Is(hijack, http.ErrNotSupported), errors.Is(duplex, http.ErrNotSupported), isHijacker, isPusher)
			w.Header().Set("X-Checksum", "1")
		})
		for range 2 {
			req := a.build(request{path: "/op"})
			hints := 0
			req = req.WithContext(withHints(req.Context(), &hints))
			resp, err := a.client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if err != nil || resp.StatusCode != 201 || string(body) != "true true false false\n" {
				t.Errorf("got %d %q, %v", resp.StatusCode, body, err)
			}
			if hints != 0 || len(resp.Trailer) != 0 || resp.Header.Get("Idempotency-Recorded") != "" || resp.Header.Get("Idempotency-Ignored") != "" {
				t.Errorf("%d hints, trailer %v, header %v", hints, resp.Trailer, resp.Header)
			}
			if r := resp.Header.Get("Idempotent-Replayed"); r == "forged" {
				t.Error("the handler set one of our own fields")
			}
		}
		a.wantEffects(1)
	}
}

// TestAttemptsThatEndBadly: whatever a handler does, the operation becomes unclear once, and a retry executes nothing.
func TestAttemptsThatEndBadly(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		handler http.HandlerFunc
		status  int // 0: the connection is aborted
	}{
		"panics":                      {func(http.ResponseWriter, *http.Request) { panic("boom") }, 0},
		"panics after an answer":      {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok"); panic("boom") }, 0},
		"panics with ErrAbortHandler": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, 0},
		"ends its goroutine":          {func(http.ResponseWriter, *http.Request) { runtime.Goexit() }, 0},
		"invalid status":              {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(42) }, 0},
		"status above the table":      {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(799) }, 799},
		"less body than declared": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "9")
			fmt.Fprint(w, "short")
		}, 502},
		"switches protocols":             {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(101) }, 502},
		"cannot hijack":                  {func(w http.ResponseWriter, _ *http.Request) { _ = w.(http.Hijacker) }, 0},
		"answers too late with an error": {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "upstream", 502) }, 502},
	} {
		for _, http2 := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, HTTP/2 %v", name, http2), func(t *testing.T) {
				t.Parallel()
				a := newAPI(t, options{http2: http2})
				a.handle("/op", einmal.Policy{}, c.handler)
				got, err := a.do(a.build(request{path: "/op"}))
				if (err != nil) != (c.status == 0) || got.status != c.status {
					t.Errorf("first answer: %v, %v", got, err)
				}
				wantProblem(t, a.send(request{path: "/op"}), 409, contract.OutcomeUnclear, contract.NextResolve)
				a.wantEffects(1)
			})
		}
	}
}

// TestRecoveryOutside: a middleware around Wrap that answers panics finds an untouched writer.
func TestRecoveryOutside(t *testing.T) {
	t.Parallel()
	a := newAPI(t, options{})
	op := a.engine.Define(einmal.Policy{Name: "op", Owner: "o"})
	wrapped := a.idem.Wrap(op)(a.counted(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Half", "1")
		fmt.Fprint(w, "half an answer")
		panic("boom")
	}))
	a.mux.HandleFunc("/op", func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if recover() != nil {
				http.Error(w, "recovered", 500)
			}
		}()
		wrapped.ServeHTTP(w, r)
	})
	if got := a.send(request{path: "/op"}); got.status != 500 || got.body != "recovered\n" || got.header.Get("X-Half") != "" {
		t.Errorf("got %v", got)
	}
	a.wantEffects(1)
}

// TestFieldsSetOutside: what a middleware around Wrap sets is the handler's to read, change and delete, as without Wrap.
func TestFieldsSetOutside(t *testing.T) {
	t.Parallel()
	a := newAPI(t, options{})
	op := a.engine.Define(einmal.Policy{Name: "op", Owner: "o"})
	wrapped := a.idem.Wrap(op)(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Add("Vary", "Accept")
		w.Header().Del("X-Default")
		w.Header().Del("Content-Type")
		w.WriteHeader(201)
	}))
	n := 0
	a.mux.HandleFunc("/op", func(w http.ResponseWriter, r *http.Request) {
		n++
		w.Header().Set("Vary", "Origin")
		w.Header().Set("X-Default", "1")
		w.Header().Set("Content-Type", "text/default")
		w.Header().Set("X-Request-Id", fmt.Sprint(n))
		wrapped.ServeHTTP(w, r)
	})
	first, again := a.send(request{path: "/op"}), a.send(request{path: "/op"})
	want := http.Header{"Vary": {"Origin", "Accept"}, "X-Request-Id": {"1"}, "Content-Length": {"0"}}
	if diff := cmp.Diff(want, without(first.header, "Date", "Link")); diff != "" {
		t.Errorf("first answer (-want +got):\n%s", diff)
	}
	if again.header.Get("X-Request-Id") != "2" || again.header["Content-Type"] != nil {
		t.Errorf("replay: %v", again)
	}
}

// TestLargeAnswer: the first caller gets all of an answer that is too large to store, by way of a temporary file that does not stay.
func TestLargeAnswer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a := newAPI(t, options{config: einmalhttp.Config{TempDir: dir}})
	body := strings.Repeat("0123456789", 5000)
	rules := &einmal.Rules{MaxResult: 1000}
	a.handle("/ok", einmal.Policy{Rules: rules}, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		w.WriteHeader(201)
		_, _ = io.Copy(w, strings.NewReader(body))
	})
	first := a.send(request{path: "/ok"})
	if first.status != 201 || first.body != body || first.header.Get("Content-Length") != "50000" {
		t.Errorf("first answer: %d, %d bytes, %v", first.status, len(first.body), first.header)
	}
	wantProblem(t, a.send(request{path: "/ok"}), 303, contract.ResultNotStored, contract.NextResolve)
	if got := a.get(statusPath(t, first), "alice"); !strings.Contains(got.body, `"kept": "too_large"`) || !strings.Contains(got.body, `"size": 50000`) {
		t.Errorf("status: %v", got)
	}
	wantEmpty(t, dir)

	exact := strings.Repeat("x", 1000)
	a.handle("/exact", einmal.Policy{Rules: rules}, status(200, exact))
	a.send(request{path: "/exact"})
	if got := a.send(request{path: "/exact"}); got.status != 200 || got.body != exact {
		t.Errorf("an answer of just the limit is not stored: %v", got)
	}
}

// TestAnswerThatCannotBeKept: the spool's file cannot be made or grows too large. The effect is recorded, and nobody gets a part for the whole.
func TestAnswerThatCannotBeKept(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]einmalhttp.Config{
		"no folder": {TempDir: "/nowhere/at/all"},
		"too large": {TempDir: t.TempDir(), MaxSpool: 100},
	} {
		a := newAPI(t, options{config: cfg})
		a.handle("/op", einmal.Policy{Rules: &einmal.Rules{MaxResult: 100}}, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(201)
			if _, err := w.Write(make([]byte, 1000)); err == nil {
				t.Errorf("%s: the write that lost bytes had no error", name)
			}
			if _, err := w.Write([]byte("x")); err == nil {
				t.Errorf("%s: the write after lost bytes had no error", name)
			}
		})
		for range 2 {
			wantProblem(t, a.send(request{path: "/op"}), 303, contract.ResultNotStored, contract.NextResolve)
		}
		a.wantEffects(1)
	}
}

// TestHandlerThatOutlivesItsRequest: what it left running can neither write nor corrupt. Run with -race.
func TestHandlerThatOutlivesItsRequest(t *testing.T) {
	t.Parallel()
	a := newAPI(t, options{})
	release, late := make(chan struct{}), make(chan error, 1)
	a.handle("/op", einmal.Policy{}, func(w http.ResponseWriter, r *http.Request) {
		go func() {
			<-release
			_, err := io.WriteString(w, "late")
			w.WriteHeader(500)
			w.Header().Set("X-Late", "1")
			err = errors.Join(err, http.NewResponseController(w).SetWriteDeadline(time.Now()), http.NewResponseController(w).Flush())
			late <- err
		}()
		fmt.Fprint(w, "in time")
	})
	first := a.send(request{path: "/op"})
	close(release)
	if err := await(t, "the late write", late); !errors.Is(err, http.ErrBodyNotAllowed) {
		t.Errorf("a late write: %v", err)
	}
	again := a.send(request{path: "/op"})
	if first.body != "in time" || again.body != "in time" || again.header.Get("X-Late") != "" {
		t.Errorf("first %v, again %v", first, again)
	}
}

// rawConn speaks HTTP/1.1 by hand, so that a test decides when the client leaves.
func (a *api) rawConn(t *testing.T) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", a.server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	return c
}

const rawHead = "POST /op HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer alice\r\nIdempotency-Key: k-1\r\n"

func TestIncompleteBodyReservesNothing(t *testing.T) {
	t.Parallel()
	for name, raw := range map[string]string{
		"length": rawHead + "Content-Length: 5\r\n\r\nhel",
		"chunks": rawHead + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAPI(t, options{})
			a.handle("/op", einmal.Policy{}, createOrder)
			c := a.rawConn(t)
			fmt.Fprint(c, raw)
			if err := c.(*net.TCPConn).CloseWrite(); err != nil {
				t.Fatal(err)
			}
			resp, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil {
				t.Fatal(err)
			}
			body, _ := io.ReadAll(resp.Body)
			wantProblem(t, answer{resp.StatusCode, resp.Header, string(body)}, 400, contract.BodyIncomplete, contract.NextRetry)
			a.wantEffects(0)
			// Nothing is bound: other parameters are new.
			if got := a.send(request{path: "/op", body: "other"}); got.status != 201 {
				t.Errorf("the incomplete request left something: %v", got)
			}
		})
	}
}

func TestExpectContinue(t *testing.T) {
	t.Parallel()
	a := newAPI(t, options{})
	a.handle("/op", einmal.Policy{Rules: &einmal.Rules{MaxBody: 10}}, createOrder)
	for _, c := range []struct {
		length string
		want   string
	}{
		{"11", "HTTP/1.1 413 "},
		{"5", "HTTP/1.1 100 "},
	} {
		conn := a.rawConn(t)
		fmt.Fprint(conn, rawHead+"Expect: 100-continue\r\nContent-Length: "+c.length+"\r\n\r\n")
		line, err := bufio.NewReader(conn).ReadString('\n')
		if err != nil || !strings.HasPrefix(line, c.want) {
			t.Errorf("Content-Length %s: %q, %v; want %s", c.length, line, err, c.want)
		}
	}
	a.wantEffects(0)
}

func TestChunkedBody(t *testing.T) {
	t.Parallel()
	a := newAPI(t, options{})
	a.handle("/op", einmal.Policy{Rules: &einmal.Rules{MaxBody: 2000}}, oddHandlers["reads its body"])
	for length, want := range map[int]int{2000: 200, 2001: 413} {
		req := a.build(request{path: "/op", key: fmt.Sprint(length)})
		req.Body, req.ContentLength = io.NopCloser(strings.NewReader(strings.Repeat("x", length))), -1
		got, err := a.do(req)
		if err != nil || got.status != want {
			t.Errorf("%d bytes: %v, %v", length, got, err)
		}
		if want == 200 && got.body != fmt.Sprintf("%d %s <nil> true", length, strings.Repeat("x", length)) {
			t.Errorf("the handler read %q", got.body)
		}
	}
	a.wantEffects(1)
}

// TestBodyReadTooEarly: a middleware that took the body would make every body the same.
func TestBodyReadTooEarly(t *testing.T) {
	t.Parallel()
	a := newAPI(t, options{})
	op := a.engine.Define(einmal.Policy{Name: "op", Owner: "o"})
	wrapped := a.idem.Wrap(op)(a.counted(createOrder))
	a.mux.HandleFunc("/op", func(w http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		wrapped.ServeHTTP(w, r)
	})
	for _, length := range []int64{6, -1} {
		req := a.build(request{path: "/op", body: "amount=1"[:6], header: http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}})
		if req.ContentLength = length; length < 0 {
			req.Body = io.NopCloser(req.Body)
		}
		got, err := a.do(req)
		if err != nil {
			t.Fatal(err)
		}
		wantProblem(t, got, 400, contract.BodyIncomplete, contract.NextRetry)
	}
	if !strings.Contains(a.logged.String(), "has read the body") {
		t.Errorf("nothing in the log: %s", a.logged)
	}
	a.wantEffects(0)
}

// TestClientLeavesWhileExecuting: the attempt runs to its end, and its answer is there for the retry.
func TestClientLeavesWhileExecuting(t *testing.T) {
	t.Parallel()
	for _, http2 := range []bool{false, true} {
		a := newAPI(t, options{http2: http2})
		running, release, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
		a.handle("/op", einmal.Policy{}, func(w http.ResponseWriter, r *http.Request) {
			close(running)
			<-release
			done <- r.Context().Err()
			createOrder(w, r)
		})
		ctx, leave := context.WithCancel(t.Context())
		gone := make(chan error, 1)
		go func() {
			_, err := a.do(a.build(request{path: "/op"}).WithContext(ctx))
			gone <- err
		}()
		await(t, "the attempt", running)
		leave()
		if err := await(t, "the client", gone); err == nil {
			t.Error("the client did not leave")
		}
		wantProblem(t, a.send(request{path: "/op"}), 409, contract.InProgress, contract.NextWait)
		close(release)
		if err := await(t, "the handler", done); err != nil {
			t.Errorf("the handler's context ended with its client: %v", err)
		}
		if got := a.send(request{path: "/op", header: http.Header{"Prefer": {"wait=10"}}}); got.status != 201 || got.header.Get("Idempotent-Replayed") != "true" {
			t.Errorf("retry: %v", got)
		}
		a.wantEffects(1)
	}
}

// TestClearTextHTTP2 is HTTP/2 without TLS, as behind a proxy.
func TestClearTextHTTP2(t *testing.T) {
	t.Parallel()
	a := newAPI(t, options{})
	a.handle("/op", einmal.Policy{}, createOrder)
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	server := httptest.NewUnstartedServer(a.mux)
	server.Config.Protocols = &protocols
	server.Start()
	defer server.Close()
	transport := &http.Transport{Protocols: &protocols, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}}
	defer transport.CloseIdleConnections()
	for i := range 2 {
		req := a.build(request{path: "/op"})
		req.URL.Host = strings.TrimPrefix(server.URL, "http://")
		resp, err := transport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.ProtoMajor != 2 || resp.StatusCode != 201 || (resp.Header.Get("Idempotent-Replayed") == "true") != (i == 1) {
			t.Errorf("request %d: HTTP/%d %d %v", i, resp.ProtoMajor, resp.StatusCode, resp.Header)
		}
	}
	a.wantEffects(1)
}

// gatedStore holds every transition until the gate says how it goes on.
type gatedStore struct {
	einmal.Store
	gate func()
}

func (s *gatedStore) Apply(ctx context.Context, c einmal.Change) (einmal.Record, error) {
	s.gate()
	return s.Store.Apply(ctx, c)
}

// touchedWriter knows whether anything was written.
type touchedWriter struct {
	http.ResponseWriter
	touched atomic.Bool
}

func (w *touchedWriter) WriteHeader(status int) {
	w.touched.Store(true)
	w.ResponseWriter.WriteHeader(status)
}

func (w *touchedWriter) Write(p []byte) (int, error) {
	w.touched.Store(true)
	return w.ResponseWriter.Write(p)
}

// TestNothingLeavesBeforeTheRecord, however much the handler writes and flushes.
func TestNothingLeavesBeforeTheRecord(t *testing.T) {
	t.Parallel()
	store := &gatedStore{Store: memstore.New()}
	a := newAPI(t, options{store: store})
	op := a.engine.Define(einmal.Policy{Name: "op", Owner: "o", Rules: &einmal.Rules{MaxResult: 1000}})
	wrapped := a.idem.Wrap(op)(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for range 10 {
			_, _ = w.Write(make([]byte, 10_000))
			w.(http.Flusher).Flush()
		}
	}))
	a.mux.HandleFunc("/op", func(w http.ResponseWriter, r *http.Request) {
		outside := &touchedWriter{ResponseWriter: w}
		store.gate = func() {
			if outside.touched.Load() {
				t.Error("something was written before the end was recorded")
			}
		}
		wrapped.ServeHTTP(outside, r)
		if !outside.touched.Load() {
			t.Error("nothing was written after it")
		}
	})
	if got := a.send(request{path: "/op"}); got.status != 200 || len(got.body) != 100_000 {
		t.Errorf("%d, %d bytes", got.status, len(got.body))
	}
}

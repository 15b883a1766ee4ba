package einmalhttp_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"testing"

	"github.com/einmal-dev/einmal"
	"github.com/einmal-dev/einmal/contract"
)

// TestReverseProxyAsHandler: what the standard library's proxy makes of an upstream is an answer like any other, and half an answer is none.
func TestReverseProxyAsHandler(t *testing.T) {
	t.Parallel()
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch r.URL.Path {
		case "/cut": // the status line and some of the body arrive, and then the connection ends
			w.Header().Set("Content-Length", "100")
			_, _ = w.Write([]byte("half"))
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		case "/cut-chunks":
			_, _ = w.Write([]byte("half"))
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}
		w.Header().Set("Link", "</style.css>; rel=preload")
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Del("Link")
		w.Header().Set("Trailer", "X-Checksum")
		w.WriteHeader(http.StatusCreated)
		for range 3 {
			fmt.Fprintf(w, "%s ", body)
			_ = http.NewResponseController(w).Flush()
		}
		w.Header().Set("X-Checksum", "1")
	}))
	defer upstream.Close()
	a := newAPI(t, options{})
	proxy := httputil.NewSingleHostReverseProxy(mustURL(t, upstream.URL))
	for _, path := range []string{"/whole", "/cut", "/cut-chunks"} {
		a.handle(path, einmal.Policy{}, proxy.ServeHTTP)
	}
	for i := range 2 {
		got := a.send(request{path: "/whole"})
		if got.status != 201 || got.body != "hello hello hello " || (got.header.Get("Idempotent-Replayed") == "true") != (i == 1) {
			t.Errorf("answer %d: %v", i+1, got)
		}
	}
	for _, path := range []string{"/cut", "/cut-chunks"} {
		if got, err := a.do(a.build(request{path: path})); err == nil {
			t.Errorf("%s: half an answer went out as a whole one: %v", path, got)
		}
		wantProblem(t, a.send(request{path: path}), 409, contract.OutcomeUnclear, contract.NextResolve)
	}
	a.wantEffects(3)
}

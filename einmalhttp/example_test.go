package einmalhttp_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/einmal-dev/einmal"
	"github.com/einmal-dev/einmal/einmalhttp"
	"github.com/einmal-dev/einmal/memstore"
)

func ExampleServer_Wrap() {
	eng, err := einmal.New(einmal.Config{Store: memstore.New()}) // in production: sqlitestore.Open
	if err != nil {
		panic(err)
	}
	createOrder := eng.Define(einmal.Policy{Name: "create-order", Owner: "orders@example.com"})
	idem := einmalhttp.New(eng, einmalhttp.Config{Identify: func(r *http.Request) (einmal.Caller, error) {
		return einmal.Caller{Tenant: "acme", Principal: r.Header.Get("X-User")}, nil // from your own authentication
	}})

	orders := 0
	mux := http.NewServeMux()
	mux.Handle("/.idempotency/", idem)
	mux.Handle("POST /orders", idem.Wrap(createOrder)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		orders++
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, "order %d", orders)
	})))

	for range 2 { // the client got no answer, and sends the same again
		r := httptest.NewRequest("POST", "/orders", nil)
		r.Header.Set("Idempotency-Key", "k-1")
		r.Header.Set("X-User", "ann")
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		fmt.Printf("%d %s, replayed: %q\n", w.Code, w.Body, w.Header().Get("Idempotent-Replayed"))
	}
	// Output:
	// 201 order 1, replayed: ""
	// 201 order 1, replayed: "true"
}

package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"sync"

	"github.com/einmal-dev/einmal/fault"
)

const paymentsPath = "/payments"

// payment is what the partner is asked for, and with its number what it did.
type payment struct {
	Payment int    `json:"payment,omitempty"` // its number at the partner
	Ref     string `json:"ref"`               // what is paid
	Cents   int64  `json:"cents"`
	Key     string `json:"key,omitempty"` // the partner key that came with it
}

// partnerServer is the payment partner, and beside it the levers of the demo: what the next payment for a ref meets, and whether something happened yet.
type partnerServer struct {
	fault.Partner

	mu    sync.Mutex
	gates map[string]chan struct{}
}

// RunPartner is the payment partner of the demo, in a process of its own.
func RunPartner(ctx context.Context, child Child) error {
	ctx, cancel := untilParentLeaves(ctx, child.Stdin)
	defer cancel()
	p := &partnerServer{gates: map[string]chan struct{}{}}
	p.Reply = func(e fault.Effect) (string, []byte) {
		body, _ := json.Marshal(paymentOf(e))
		return "application/json", append(body, '\n')
	}
	defer p.Close()
	mux := http.NewServeMux()
	mux.Handle("POST "+paymentsPath, &p.Partner)
	mux.HandleFunc("GET "+paymentsPath, p.list)
	mux.HandleFunc("POST /next", p.next)
	mux.HandleFunc("POST /release", p.release)
	mux.HandleFunc("GET /await", p.await)
	return serve(ctx, mux, newReporter(child.Stdout))
}

func paymentOf(e fault.Effect) payment {
	var p payment
	_ = json.Unmarshal(e.Body, &p) // what is no payment was charged all the same, and is shown as nothing
	p.Payment, p.Key = e.N, e.Key
	return p
}

// list writes every payment, one a line.
func (p *partnerServer) list(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/jsonl")
	enc := json.NewEncoder(w)
	for _, e := range p.List() {
		_ = enc.Encode(paymentOf(e))
	}
}

// Levers: what the next payment for a ref meets.
const (
	holdPayment = "hold"        // it waits, before it is done, until released
	holdAnswer  = "hold-answer" // it is done, and its answer waits until released
)

func (p *partnerServer) next(w http.ResponseWriter, r *http.Request) {
	ref := r.FormValue("ref")
	switch r.FormValue("do") {
	case holdPayment:
		p.ThenFor(ref, fault.Hang(p.gate(ref)))
	case holdAnswer:
		p.ThenFor(ref, fault.HangAfter(p.gate(ref)))
	default:
		http.Error(w, "do: "+holdPayment+" or "+holdAnswer, http.StatusBadRequest)
	}
}

// gate makes what the next held payment for a ref waits for.
func (p *partnerServer) gate(ref string) chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	gate := p.gates[ref]
	if gate == nil {
		gate = make(chan struct{})
		p.gates[ref] = gate
	}
	return gate
}

func (p *partnerServer) release(_ http.ResponseWriter, r *http.Request) {
	ref := r.FormValue("ref")
	p.mu.Lock()
	defer p.mu.Unlock()
	if gate := p.gates[ref]; gate != nil {
		close(gate)
		delete(p.gates, ref)
	}
}

func (p *partnerServer) await(w http.ResponseWriter, r *http.Request) {
	n, err := strconv.Atoi(r.FormValue("n"))
	if err == nil {
		err = p.Await(r.Context(), fault.What(r.FormValue("what")), r.FormValue("ref"), n)
	}
	if err != nil {
		http.Error(w, fmt.Sprint("await: ", err), http.StatusBadRequest)
	}
}

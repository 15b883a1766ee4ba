package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/einmal-dev/einmal"
	"github.com/einmal-dev/einmal/einmalhttp"
	"github.com/einmal-dev/einmal/sqlitestore"
)

// The operations of the shop. Both charge the same partner; only the second sends it a key.
const (
	createOrder        = "create-order"
	createSubscription = "create-subscription"
	ordersPath         = "/orders"
	subscriptionsPath  = "/subscriptions"
	shopOwner          = "shop@example.com"
)

// lease is short, so that the demo does not have to wait long for the death of a server to be noticed.
const lease = 2 * time.Second

// people are who may call the shop, by their token.
var people = map[string]einmal.Caller{
	"alice": {Tenant: "acme", Principal: "alice"},
	"bob":   {Tenant: "acme", Principal: "bob"},
	"carol": {Tenant: "globex", Principal: "carol"},
}

func identify(r *http.Request) (einmal.Caller, error) {
	caller, ok := people[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")]
	if !ok {
		return einmal.Caller{}, errors.New("no such token: there are alice, bob and carol")
	}
	return caller, nil
}

// RunShop is the server of the demo, in a process of its own.
func RunShop(ctx context.Context, child Child, storePath, partnerURL string) error {
	ctx, cancel := untilParentLeaves(ctx, child.Stdin)
	defer cancel()
	rep := newReporter(child.Stdout)
	store, err := sqlitestore.Open(ctx, storePath, sqlitestore.Options{})
	if err != nil {
		return err
	}
	defer store.Close()
	engine, err := einmal.New(einmal.Config{
		Store: store, Log: slog.Default(), Poll: 100 * time.Millisecond,
		Observe: func(_ context.Context, ev einmal.Event) {
			op := &ev.Operation
			rep.report(message{Event: &event{ev.Name, op.Operation, op.Tenant, op.Key, op.ID, ev.Attempt, ev.Reason}})
		},
	})
	if err != nil {
		return err
	}
	defer func() {
		draining, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = engine.Close(draining) // what is left is marked unclear
	}()
	return serve(ctx, newShop(engine, partnerURL), rep)
}

// newShop is the whole server: one handler, as two operations of different effect classes.
func newShop(engine *einmal.Engine, partnerURL string) http.Handler {
	order := engine.Define(einmal.Policy{Name: createOrder, Owner: shopOwner, Lease: lease})
	subscription := engine.Define(einmal.Policy{Name: createSubscription, Owner: shopOwner, Lease: lease, Effect: einmal.Keyed(24 * time.Hour)})
	idem := einmalhttp.New(engine, einmalhttp.Config{Identify: identify})
	charge := &charger{
		url: partnerURL + paymentsPath,
		// One attempt is one wire attempt: without reused connections the transport has nothing to send again.
		http: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}},
	}
	mux := http.NewServeMux()
	mux.Handle("/.idempotency/", idem)
	mux.Handle("POST "+ordersPath, idem.Wrap(order)(charge))
	mux.Handle("POST "+subscriptionsPath, idem.Wrap(subscription)(charge))
	return mux
}

// order is what a client sends, and with a payment what it gets.
type order struct {
	Order   string `json:"order"`
	Cents   int64  `json:"cents"`
	Payment int    `json:"payment,omitempty"`
}

// charger is the handler: it charges the partner, and answers.
type charger struct {
	url  string
	http *http.Client
}

func (c *charger) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var o order
	if err := json.NewDecoder(r.Body).Decode(&o); err != nil || o.Order == "" || o.Cents <= 0 {
		http.Error(w, `want {"order": "…", "cents": …}`, http.StatusBadRequest)
		return
	}
	caller, _ := identify(r) // the middleware has refused everybody else
	paid, err := c.charge(r.Context(), payment{Ref: caller.Tenant + "/" + o.Order, Cents: o.Cents})
	if err != nil {
		// Nobody knows whether it was charged, and 502 does not pretend to.
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	o.Payment = paid.Payment
	body, _ := json.Marshal(o)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	_, _ = w.Write(append(body, '\n'))
}

func (c *charger) charge(ctx context.Context, p payment) (payment, error) {
	req, err := newWrite(ctx, c.url, einmal.PartnerKey(ctx), p)
	if err != nil {
		return payment{}, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return payment{}, fmt.Errorf("partner: %w", err)
	}
	defer resp.Body.Close()
	var paid payment
	if err := json.NewDecoder(resp.Body).Decode(&paid); err != nil || resp.StatusCode != http.StatusCreated {
		return payment{}, fmt.Errorf("partner: answered %s", resp.Status)
	}
	return paid, nil
}

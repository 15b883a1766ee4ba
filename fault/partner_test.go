package fault_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/einmal-dev/einmal/fault"
)

// seen is what a client gets; err says only that the answer did not come whole.
type seen struct {
	status int
	body   string
	err    bool
}

func serve(t *testing.T, h http.Handler) (url string) {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return srv.URL
}

func startPartner(t *testing.T, p *fault.Partner) (url string) {
	t.Helper()
	url = serve(t, p)
	t.Cleanup(p.Close)
	return url
}

func testContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func post(ctx context.Context, client *http.Client, url, key, body string) (seen, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return seen{err: true}, err
	}
	r.GetBody = nil
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	res, err := client.Do(r)
	if err != nil {
		return seen{err: true}, err
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	return seen{res.StatusCode, string(b), err != nil}, err
}

// newClient has its own connections and sends nothing twice behind the caller's back.
func newClient(t *testing.T) *http.Client {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

func mustAwait(t *testing.T, p interface {
	Await(context.Context, fault.What, string, int) error
}, what fault.What, ref string, n int,
) {
	t.Helper()
	if err := p.Await(testContext(t), what, ref, n); err != nil {
		t.Fatal(err)
	}
}

func TestPartnerMoves(t *testing.T) {
	t.Parallel()
	const first, torn = `{"id":"effect-1","ref":"order-1"}`, `{"id":"effect-1"`
	tests := []struct {
		name    string
		move    fault.Move
		want    seen
		effects int
	}{
		{"normal does it and says so", fault.Normal(), seen{201, first, false}, 1},
		{"a lie that it failed, after it was done", fault.LieFailed(500), seen{500, `{"error":"Internal Server Error"}`, false}, 1},
		{"a lie that it is done, when it is not", fault.LieDone(), seen{200, `{"id":"effect-0"}`, false}, 0},
		{"the answer is lost", fault.LoseAnswer(), seen{err: true}, 1},
		{"the answer is torn", fault.TearAnswer(), seen{201, torn, true}, 1},
		{"a refusal before the effect", fault.Refuse(429), seen{429, `{"error":"Too Many Requests"}`, false}, 0},
		{"a delivery that is doubled, to a partner that deduplicates", fault.Twice(), seen{201, first, false}, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var p fault.Partner
			url := startPartner(t, &p)
			p.Then(tt.move)
			got, _ := post(testContext(t), newClient(t), url, "k-1", `{"ref":"order-1"}`)
			if got != tt.want {
				t.Errorf("the client got %+v, want %+v", got, tt.want)
			}
			if got := p.Effects("order-1"); got != tt.effects || p.Total() != tt.effects {
				t.Errorf("%d effects for the order, %d in all, want %d", got, p.Total(), tt.effects)
			}
		})
	}
}

func TestPartnerDeduplicates(t *testing.T) {
	t.Parallel()
	type call struct {
		key, body string
		move      fault.Move
	}
	const a, b = `{"ref":"a"}`, `{"ref":"b"}`
	twice := []call{{key: "k", body: a}, {key: "k", body: a}}
	tests := []struct {
		name     string
		partner  *fault.Partner
		calls    []call
		statuses []int
		effects  int
	}{
		{"the same key", &fault.Partner{}, twice, []int{201, 201}, 1},
		{"the same key, sent to an opaque partner", &fault.Partner{Opaque: true}, twice, []int{201, 201}, 2},
		{"no key", &fault.Partner{}, []call{{body: a}, {body: a}}, []int{201, 201}, 2},
		{"another key", &fault.Partner{}, []call{{key: "k", body: a}, {key: "l", body: a}}, []int{201, 201}, 2},
		{"the same key with another body", &fault.Partner{}, []call{{key: "k", body: a}, {key: "k", body: b}}, []int{201, 422}, 1},
		{"the same key in another field", &fault.Partner{KeyHeader: "X-Request-Id"}, twice, []int{201, 201}, 2},
		{"a lie is not stored", &fault.Partner{}, []call{{"k", a, fault.LieFailed(500)}, {key: "k", body: a}}, []int{500, 201}, 1},
		{
			"a lie that is stored under the key", &fault.Partner{},
			[]call{{"k", a, fault.Move{Status: 500, Bound: true}}, {key: "k", body: a}},
			[]int{500, 500},
			1,
		},
		{"a refusal is not stored", &fault.Partner{}, []call{{"k", a, fault.Refuse(402)}, {key: "k", body: a}}, []int{402, 201}, 1},
		{
			"a refusal that is stored under the key", &fault.Partner{},
			[]call{{"k", a, fault.Move{NoEffect: true, Status: 402, Bound: true}}, {key: "k", body: a}},
			[]int{402, 402},
			0,
		},
		{"a lie about a call that is repeated", &fault.Partner{}, []call{{key: "k", body: a}, {"k", a, fault.LieFailed(503)}}, []int{201, 503}, 1},
		{"a doubled delivery without a key", &fault.Partner{}, []call{{"", a, fault.Twice()}}, []int{201}, 2},
		{"a doubled delivery to an opaque partner", &fault.Partner{Opaque: true}, []call{{"k", a, fault.Twice()}}, []int{201}, 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			url, client := startPartner(t, tt.partner), newClient(t)
			var statuses []int
			var bodies []string
			for _, c := range tt.calls {
				tt.partner.Then(c.move)
				got, err := post(testContext(t), client, url, c.key, c.body)
				if err != nil {
					t.Fatal(err)
				}
				statuses, bodies = append(statuses, got.status), append(bodies, got.body)
			}
			if diff := cmp.Diff(tt.statuses, statuses); diff != "" {
				t.Errorf("answers (-want +got):\n%s", diff)
			}
			if tt.partner.Total() != tt.effects {
				t.Errorf("%d effects, want %d", tt.partner.Total(), tt.effects)
			}
			if tt.effects == 1 && len(statuses) == 2 && statuses[0] == 201 && statuses[1] == 201 && bodies[0] != bodies[1] {
				t.Errorf("a repeated call got another answer: %s, then %s", bodies[0], bodies[1])
			}
		})
	}
}

func TestPartnerForgetsAKeyAfterItsWindow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := fault.Partner{Window: time.Hour}
		call := func() {
			w := httptest.NewRecorder()
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader("pay"))
			r.Header.Set("Idempotency-Key", "k")
			p.ServeHTTP(w, r)
		}
		call()
		time.Sleep(time.Hour - 1)
		call()
		if got := p.Effects("k"); got != 1 {
			t.Errorf("%d effects just inside the window, want 1", got)
		}
		time.Sleep(time.Nanosecond)
		call()
		if got := p.Effects("k"); got != 2 {
			t.Fatalf("%d effects after the window, want 2: the key is forgotten", got)
		}
		p.ForgetKeys()
		call()
		if got := p.Effects("k"); got != 3 {
			t.Errorf("%d effects after ForgetKeys, want 3", got)
		}

		began := time.Now()
		p.ForgetKeys()
		p.Then(fault.Late(3 * time.Second))
		call()
		if late := p.List()[3].At.Sub(began); late != 3*time.Second {
			t.Errorf("the effect came after %v, want 3s", late)
		}
	})
}

func TestPartnerHoldsACallUntilTold(t *testing.T) {
	t.Parallel()
	var p fault.Partner
	url, client := startPartner(t, &p), newClient(t)
	gate := make(chan struct{})
	p.Then(fault.Hang(gate))

	ctx, leave := context.WithCancel(testContext(t))
	left := make(chan error, 1)
	go func() {
		_, err := post(ctx, client, url, "k", "pay")
		left <- err
	}()
	mustAwait(t, &p, fault.Arrived, "k", 1)
	if again, err := post(testContext(t), client, url, "k", "pay"); err != nil || again.status != http.StatusConflict {
		t.Errorf("while the first call is in progress the second got %+v, %v, want 409", again, err)
	}
	leave()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("the client that left got %v", err)
	}
	if p.Total() != 0 {
		t.Error("an effect before the gate was opened")
	}
	close(gate)
	mustAwait(t, &p, fault.Effected, "k", 1)
	if again, err := post(testContext(t), client, url, "k", "pay"); err != nil || again.status != http.StatusCreated || p.Total() != 1 {
		t.Errorf("after the effect the key got %+v, %v, with %d effects; want 201 and 1", again, err, p.Total())
	}
}

func TestPartnerHoldsAnAnswerUntilTold(t *testing.T) {
	t.Parallel()
	var p fault.Partner
	url, client := startPartner(t, &p), newClient(t)
	gate := make(chan struct{})
	p.Then(fault.HangAfter(gate))
	got := make(chan seen, 1)
	go func() {
		s, _ := post(testContext(t), client, url, "k", "pay")
		got <- s
	}()
	mustAwait(t, &p, fault.Effected, "", 1)
	select {
	case s := <-got:
		t.Fatalf("answered %+v while held", s)
	default:
	}
	if n := p.Count(fault.Answered, ""); n != 0 {
		t.Errorf("%d answers while held", n)
	}
	close(gate)
	if s := <-got; s.status != http.StatusCreated {
		t.Errorf("got %+v, want 201", s)
	}
	want := []fault.What{fault.Arrived, fault.Effected, fault.Answered}
	mustAwait(t, &p, fault.Answered, "k", 1)
	var what []fault.What
	for _, e := range p.Events() {
		what = append(what, e.What)
	}
	if diff := cmp.Diff(want, what); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

func TestPartnerScriptsAreTakenByRefThenInOrderThenAlways(t *testing.T) {
	t.Parallel()
	var p fault.Partner
	url, client := startPartner(t, &p), newClient(t)
	p.Always(fault.Refuse(403))
	p.Then(fault.Refuse(401), fault.Refuse(402))
	p.ThenFor("b", fault.Refuse(410))
	var got []int
	for _, key := range []string{"a", "b", "b", "a"} {
		s, err := post(testContext(t), client, url, key, "pay")
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, s.status)
	}
	if diff := cmp.Diff([]int{401, 410, 402, 403}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestPartnerCloseEndsWhatIsHeld(t *testing.T) {
	t.Parallel()
	var p fault.Partner
	url, client := startPartner(t, &p), newClient(t)
	p.Then(fault.Hang(make(chan struct{})))
	got := make(chan seen, 1)
	go func() {
		s, _ := post(testContext(t), client, url, "k", "pay")
		got <- s
	}()
	mustAwait(t, &p, fault.Arrived, "k", 1)
	p.Close()
	p.Close()
	if s := <-got; !s.err || p.Total() != 0 {
		t.Errorf("got %+v with %d effects, want a cut connection and none", s, p.Total())
	}
	if s, err := post(testContext(t), client, url, "k", "pay"); s.status != http.StatusCreated {
		t.Errorf("a call after Close got %+v, %v: the key is still in progress", s, err)
	}
}

func TestPartnerRefAndReply(t *testing.T) {
	t.Parallel()
	p := fault.Partner{
		Ref:   func(r *http.Request, _ []byte) string { return r.URL.Path },
		Reply: func(e fault.Effect) (string, []byte) { return "text/plain", []byte(e.Ref + " paid") },
	}
	s, err := post(testContext(t), newClient(t), startPartner(t, &p)+"/order/7", "", "pay")
	if err != nil || s.body != "/order/7 paid" || p.Effects("/order/7") != 1 {
		t.Errorf("got %+v, %v, %d effects", s, err, p.Effects("/order/7"))
	}
	if e := p.List()[0]; e.N != 1 || string(e.Body) != "pay" || e.Key != "" || e.At.IsZero() {
		t.Errorf("the effect is kept as %+v", e)
	}
}

func TestAwaitSaysWhatDidNotHappen(t *testing.T) {
	t.Parallel()
	var p fault.Partner
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := p.Await(ctx, fault.Effected, "order-1", 2)
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), `awaited "effected" 2 times for "order-1", saw 0`) {
		t.Errorf("got %v", err)
	}
}

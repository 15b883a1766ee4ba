package einmal_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/einmal-dev/einmal"
	"github.com/einmal-dev/einmal/contract"
	"github.com/einmal-dev/einmal/fingerprint"
	"github.com/einmal-dev/einmal/memstore"
)

var discard = slog.New(slog.NewTextHandler(io.Discard, nil))

func newStorage() *memstore.Storage { return memstore.NewStorage(memstore.Options{}) }

// world is an engine on a memstore inside a synctest bubble, with everything it told.
type world struct {
	t       *testing.T
	storage *memstore.Storage
	store   einmal.Store
	eng     *einmal.Engine
	poll    time.Duration
	mu      sync.Mutex
	events  []einmal.Event
}

// inWorld runs a test in virtual time.
func inWorld(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	inWorldWithPoll(t, time.Second, test)
}

// inWorldWithPoll is for tests that pass days: the loop looks less often.
func inWorldWithPoll(t *testing.T, poll time.Duration, test func(t *testing.T, w *world)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, poll: poll, storage: newStorage()}
		w.store = w.storage.Open()
		w.eng = w.engine(w.store)
		test(t, w)
	})
}

// engine opens another engine of this world; it is closed at the end.
func (w *world) engine(store einmal.Store) *einmal.Engine {
	w.t.Helper()
	eng, err := einmal.New(einmal.Config{Store: store, Log: discard, Observe: w.observe, Poll: w.poll})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
		defer cancel()
		if err := eng.Close(ctx); err != nil {
			w.t.Errorf("close: %v", err)
		}
	})
	return eng
}

func (w *world) observe(_ context.Context, ev einmal.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, ev)
}

func (w *world) told(name string) (evs []einmal.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, ev := range w.events {
		if ev.Name == name {
			evs = append(evs, ev)
		}
	}
	return evs
}

func policy(name string) einmal.Policy { return einmal.Policy{Name: name, Owner: "team@example.com"} }

func keyed(name string) einmal.Policy {
	p := policy(name)
	p.Effect = einmal.Keyed(24 * time.Hour)
	return p
}

func request(key string) einmal.Request {
	return einmal.Request{
		Caller: einmal.Caller{Tenant: "acme", Principal: "alice"}, Key: key,
		Parts: fingerprint.Parts{Method: "POST", Body: []byte(`{"amount":1}`)},
	}
}

func success(body string) einmal.Ending {
	return einmal.Ending{End: einmal.EndSuccess, Result: &einmal.Result{Status: 201, Body: []byte(body)}}
}

func ends(end einmal.End) func(context.Context) einmal.Ending {
	return func(context.Context) einmal.Ending { return einmal.Ending{End: end} }
}

func never(t *testing.T) func(context.Context) einmal.Ending {
	return func(context.Context) einmal.Ending {
		t.Helper()
		t.Error("the handler ran")
		return einmal.Ending{}
	}
}

func problem(t *testing.T, err error, kind contract.Kind, next contract.Next) *einmal.Problem {
	t.Helper()
	var p *einmal.Problem
	if !errors.As(err, &p) {
		t.Fatalf("got %v, want the problem %s", err, kind)
	}
	if p.Kind != kind || p.Next != next {
		t.Fatalf("got %s next %s (%v), want %s next %s", p.Kind, p.Next, p, kind, next)
	}
	return p
}

func (w *world) state(op *einmal.Op, key string) einmal.Operation {
	w.t.Helper()
	o, err := w.eng.Find(context.Background(), einmal.Identity{Tenant: "acme", Operation: op.Policy().Name, Key: key})
	if err != nil {
		w.t.Fatal(err)
	}
	return o
}

func TestFirstRequestRunsAndEveryLaterOneGetsTheRecordedAnswer(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		op := w.eng.Define(policy("order"))
		first, err := w.eng.Run(t.Context(), op, request("k"), func(ctx context.Context) einmal.Ending {
			if got := einmal.PartnerKey(ctx); got != "" {
				t.Errorf("an opaque operation has the partner key %q", got)
			}
			return success("one")
		})
		if err != nil || !first.Own || !first.Recorded || first.Operation.State != einmal.StateCompleted {
			t.Fatalf("first: %+v, %v", first, err)
		}
		for range 3 {
			again, err := w.eng.Run(t.Context(), op, request("k"), never(t))
			if err != nil || again.Own || !again.Recorded {
				t.Fatalf("again: %+v, %v", again, err)
			}
			if diff := cmp.Diff(&einmal.Result{Status: 201, Body: []byte("one")}, again.Operation.Result); diff != "" {
				t.Error(diff)
			}
		}
		if n := len(w.told(einmal.EventReplayed)); n != 3 {
			t.Errorf("%d replays told", n)
		}
	})
}

func TestAFoundRecordIsJudgedByPrincipalThenParametersThenState(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		op := w.eng.Define(policy("order"))
		settle := map[string]func(context.Context) einmal.Ending{
			"completed":   func(context.Context) einmal.Ending { return success("x") },
			"refused":     ends(einmal.EndRefused),
			"not applied": ends(einmal.EndNoEffect),
			"unclear":     ends(einmal.EndOpen),
		}
		release := make(chan struct{})
		settle["running"] = func(context.Context) einmal.Ending { <-release; return success("late") }
		for key, fn := range settle {
			go func() { _, _ = w.eng.Run(context.Background(), op, request(key), fn) }()
		}
		synctest.Wait()
		for key := range settle {
			other := request(key)
			other.Principal = "bob"
			other.Parts.Body = []byte("other")
			_, err := w.eng.Run(t.Context(), op, other, never(t))
			p := problem(t, err, contract.NotYours, contract.NextResolve)
			if p.ID != "" || p.Detail != "" {
				t.Errorf("%s: not-yours tells %q %q", key, p.ID, p.Detail)
			}
			other = request(key)
			other.Parts.Body = []byte("other")
			_, err = w.eng.Run(t.Context(), op, other, never(t))
			if p := problem(t, err, contract.KeyReused, contract.NextResolve); p.ID != "" || p.Detail != "" {
				t.Errorf("%s: key-reused tells %q %q", key, p.ID, p.Detail)
			}
			other = request(key)
			other.Tenant = "other"
			if out, err := w.eng.Run(t.Context(), op, other, func(context.Context) einmal.Ending { return success("theirs") }); err != nil || !out.Own {
				t.Errorf("%s: another tenant's operation: %+v, %v", key, out, err)
			}
		}
		_, err := w.eng.Run(t.Context(), op, request("running"), never(t))
		if p := problem(t, err, contract.InProgress, contract.NextWait); p.RetryAfter <= 0 || p.ID == "" {
			t.Errorf("in progress: %+v", p)
		}
		_, err = w.eng.Run(t.Context(), op, request("unclear"), never(t))
		if p := problem(t, err, contract.OutcomeUnclear, contract.NextResolve); p.RetryAfter <= 0 || p.ID == "" {
			t.Errorf("unclear: %+v", p)
		}
		close(release)
	})
}

func TestAnOpenAttemptOfAnOpaqueOperationNeverRunsAgain(t *testing.T) {
	inWorldWithPoll(t, time.Hour, func(t *testing.T, w *world) {
		op := w.eng.Define(policy("pay"))
		out, err := w.eng.Run(t.Context(), op, request("k"), ends(einmal.EndOpen))
		if err != nil || !out.Own || out.Operation.State != einmal.StateUnclear {
			t.Fatalf("%+v, %v", out, err)
		}
		for range 200 {
			time.Sleep(12 * time.Hour) // virtual: far beyond the window and every tombstone
			_, err := w.eng.Run(t.Context(), op, request("k"), never(t))
			problem(t, err, contract.OutcomeUnclear, contract.NextResolve)
		}
	})
}

func TestAKeyedOperationRunsAgainWithTheSamePartnerKeyInsideThePartnersWindow(t *testing.T) {
	inWorldWithPoll(t, time.Hour, func(t *testing.T, w *world) {
		p := keyed("pay")
		p.Rules = &einmal.Rules{MaxAttempts: 3, Backoff: time.Minute}
		op := w.eng.Define(p)
		var keys []string
		open := func(ctx context.Context) einmal.Ending {
			keys = append(keys, einmal.PartnerKey(ctx))
			return einmal.Ending{End: einmal.EndOpen}
		}
		if _, err := w.eng.Run(t.Context(), op, request("k"), open); err != nil {
			t.Fatal(err)
		}
		_, err := w.eng.Run(t.Context(), op, request("k"), never(t))
		if p := problem(t, err, contract.OutcomeUnclear, contract.NextWait); p.RetryAfter != time.Minute {
			t.Errorf("retry after %v", p.RetryAfter)
		}
		time.Sleep(time.Minute)
		if _, err := w.eng.Run(t.Context(), op, request("k"), open); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		if _, err := w.eng.Run(t.Context(), op, request("k"), open); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		_, err = w.eng.Run(t.Context(), op, request("k"), never(t)) // attempts are used up
		problem(t, err, contract.OutcomeUnclear, contract.NextResolve)
		if len(keys) != 3 || keys[0] == "" || keys[1] != keys[0] || keys[2] != keys[0] {
			t.Errorf("partner keys %q", keys)
		}

		keys = nil
		if _, err := w.eng.Run(t.Context(), op, request("late"), open); err != nil {
			t.Fatal(err)
		}
		time.Sleep(24*time.Hour - op.Policy().Deadline - op.Policy().Lease + time.Second)
		_, err = w.eng.Run(t.Context(), op, request("late"), never(t))
		problem(t, err, contract.OutcomeUnclear, contract.NextResolve)
	})
}

func TestSuccessOfAKeyedRerunCompletesTheOperation(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		op := w.eng.Define(keyed("pay"))
		_, _ = w.eng.Run(t.Context(), op, request("k"), ends(einmal.EndOpen))
		time.Sleep(time.Minute)
		out, err := w.eng.Run(t.Context(), op, request("k"), func(context.Context) einmal.Ending { return success("paid") })
		if err != nil || !out.Own || out.Operation.Attempt != 2 || out.Operation.State != einmal.StateCompleted {
			t.Fatalf("%+v, %v", out, err)
		}
	})
}

func TestALaterRefusalDoesNotSpeakForAnEarlierOpenAttempt(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		p := keyed("pay")
		p.Rules = &einmal.Rules{BoundToKey: []int{402}}
		op := w.eng.Define(p)
		for _, end := range []einmal.End{einmal.EndRefused, einmal.EndNoEffect} {
			key := "k-" + end.String()
			_, _ = w.eng.Run(t.Context(), op, request(key), ends(einmal.EndOpen))
			time.Sleep(time.Minute)
			_, err := w.eng.Run(t.Context(), op, request(key), ends(end))
			problem(t, err, contract.OutcomeUnclear, contract.NextWait)
			if got := w.state(op, key); got.State != einmal.StateUnclear {
				t.Errorf("%v: %v", end, got.State)
			}
		}
		// The partner stores this refusal under the key, so it speaks for every attempt.
		_, _ = w.eng.Run(t.Context(), op, request("bound"), ends(einmal.EndOpen))
		time.Sleep(time.Minute)
		refusal := einmal.Ending{End: einmal.EndRefused, Bound: true, Result: &einmal.Result{Status: 402}}
		out, err := w.eng.Run(t.Context(), op, request("bound"), func(context.Context) einmal.Ending { return refusal })
		if err != nil || !out.Own || out.Operation.Verdict != einmal.VerdictRefused {
			t.Fatalf("%+v, %v", out, err)
		}
	})
}

func TestNotAppliedRunsAgainWithTheNextRequest(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		op := w.eng.Define(policy("order"))
		for i := range 20 {
			out, err := w.eng.Run(t.Context(), op, request("k"), ends(einmal.EndNoEffect))
			if err != nil || !out.Own || out.Operation.State != einmal.StateNotApplied || out.Operation.Attempt != i+1 {
				t.Fatalf("%+v, %v", out, err)
			}
			if n := len(out.Operation.Ends); n != 0 {
				t.Fatalf("the record grew to %d ends", n)
			}
		}
		if out, err := w.eng.Run(t.Context(), op, request("k"), func(context.Context) einmal.Ending { return success("x") }); err != nil || !out.Own {
			t.Fatalf("%+v, %v", out, err)
		}
	})
}

func TestALostLeaseMakesTheOperationUnclearForTheNextRequest(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		op := w.eng.Define(policy("order"))
		release := make(chan struct{})
		var first einmal.Outcome
		go func() {
			first, _ = w.eng.Run(context.Background(), op, request("k"), func(context.Context) einmal.Ending { <-release; return success("late") })
		}()
		synctest.Wait()
		inFlight := op.Policy().Deadline + op.Policy().Lease
		time.Sleep(op.Policy().Deadline - time.Second) // renewed so far
		_, err := w.eng.Run(t.Context(), op, request("k"), never(t))
		problem(t, err, contract.InProgress, contract.NextWait)
		time.Sleep(inFlight - op.Policy().Deadline + 2*time.Second) // renewal stopped at the deadline
		_, err = w.eng.Run(t.Context(), op, request("k"), never(t))
		problem(t, err, contract.OutcomeUnclear, contract.NextResolve)
		got := w.state(op, "k")
		if got.State != einmal.StateUnclear || got.Changed.Sub(got.Created) > inFlight+time.Second {
			t.Fatalf("%v after %v", got.State, got.Changed.Sub(got.Created))
		}

		close(release) // a late truth
		synctest.Wait()
		if !first.Own || first.Operation.State != einmal.StateCompleted {
			t.Fatalf("the late attempt's caller got %+v", first)
		}
		if out, err := w.eng.Run(t.Context(), op, request("k"), never(t)); err != nil || string(out.Operation.Result.Body) != "late" {
			t.Fatalf("%+v, %v", out, err)
		}
	})
}

func TestADueRecordIsRecoveredAndEscalatedWithoutAnyRequest(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		// The record of a process that died, for a name that this engine has not defined.
		res := einmal.Reservation{
			Identity: einmal.Identity{Tenant: "acme", Operation: "elsewhere", Key: "k"}, Principal: "alice",
			Terms: einmal.Terms{Owner: "them", Class: einmal.ClassOpaque, Deadline: time.Minute, Lease: time.Minute, Window: time.Hour, UnclearDeadline: 10 * time.Minute},
		}
		if _, _, err := w.store.Reserve(t.Context(), res); err != nil {
			t.Fatal(err)
		}
		time.Sleep(62 * time.Second)
		if n := len(w.told(einmal.EventUnclear)); n != 1 {
			t.Fatalf("%d told unclear after the lease", n)
		}
		time.Sleep(10 * time.Minute)
		if n := len(w.told(einmal.EventEscalated)); n != 1 {
			t.Fatalf("%d escalations after the deadline", n)
		}
		time.Sleep(19 * time.Minute)
		if n := len(w.told(einmal.EventEscalated)); n != 1 {
			t.Fatalf("%d escalations, want the second after twice the time", n)
		}
		time.Sleep(2 * time.Minute)
		evs := w.told(einmal.EventEscalated)
		if len(evs) != 2 || !evs[0].Alarm || evs[0].Operation.Terms.Owner != "them" || !evs[0].Operation.Attention {
			t.Fatalf("%+v", evs)
		}
		line, err := w.eng.Timeline(t.Context(), evs[0].Operation.ID)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, entry := range line {
			names = append(names, entry.Event)
		}
		want := []string{einmal.EventReserved, einmal.EventUnclear, einmal.EventEscalated, einmal.EventEscalated}
		if diff := cmp.Diff(want, names); diff != "" {
			t.Error(diff)
		}
	})
}

func TestAPanicIsRecordedAndGoesOn(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		op := w.eng.Define(policy("order"))
		func() {
			defer func() {
				if got := recover(); got != "boom" {
					t.Errorf("recovered %v", got)
				}
			}()
			_, _ = w.eng.Run(t.Context(), op, request("k"), func(context.Context) einmal.Ending { panic("boom") })
		}()
		if got := w.state(op, "k"); got.State != einmal.StateUnclear {
			t.Errorf("%v", got.State)
		}
		done := make(chan struct{})
		go func() { // runtime.Goexit, as t.FailNow does it
			defer close(done)
			_, _ = w.eng.Run(context.Background(), op, request("exit"), func(context.Context) einmal.Ending { runtime.Goexit(); return einmal.Ending{} })
		}()
		<-done
		if got := w.state(op, "exit"); got.State != einmal.StateUnclear {
			t.Errorf("Goexit: %v", got.State)
		}
	})
}

// uuidv7 is a key that tells a time: RFC 9562, section 5.7.
func uuidv7(at time.Time) string {
	ms := fmt.Sprintf("%012x", at.UnixMilli())
	return ms[:8] + "-" + ms[8:] + "-7000-8000-000000000001"
}

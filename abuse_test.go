package einmal_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/einmal-dev/einmal"
	"github.com/einmal-dev/einmal/contract"
	"github.com/einmal-dev/einmal/memstore"
)

func TestTheMarkOfAnInnerOperationSaysNothingOfTheOuterOne(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		outer, inner := w.eng.Define(policy("outer")), w.eng.Define(policy("inner"))
		errBusy := errors.New("429 from the shipper")
		charged := 0
		order := func() error {
			_, err := einmal.Do(t.Context(), outer, doCall("k", nil), func(ctx context.Context, _ string) (int, error) {
				charged++
				_, err := einmal.Do(ctx, inner, doCall("k", nil), func(context.Context, string) (int, error) {
					return 0, fmt.Errorf("shipping: %w", einmal.NoEffect(errBusy))
				})
				return 0, fmt.Errorf("order: %w", err)
			})
			return err
		}
		for range 2 {
			if err := order(); !errors.Is(err, einmal.ErrUnclear) {
				t.Fatalf("%v", err)
			}
		}
		if charged != 1 {
			t.Errorf("charged %d times", charged)
		}
		if err := func() error {
			_, err := einmal.Do(t.Context(), inner, doCall("k2", nil), func(context.Context, string) (int, error) { return 0, einmal.NoEffect(errBusy) })
			return err
		}(); !errors.Is(err, errBusy) || err.Error() != errBusy.Error() {
			t.Errorf("the handler's own error is not found any more: %v", err)
		}
	})
}

func TestWhatAnErrorSaysOfItsAttempt(t *testing.T) {
	t.Parallel()
	unknown := errors.New("timeout")
	none, final := einmal.NoEffect(unknown), einmal.Final(unknown)
	for name, tt := range map[string]struct {
		err  error
		want einmal.End
	}{
		"nil":                              {nil, einmal.EndSuccess},
		"unmarked":                         {unknown, einmal.EndOpen},
		"a certificate":                    {none, einmal.EndNoEffect},
		"a refusal, wrapped":               {fmt.Errorf("x: %w", final), einmal.EndRefused},
		"a certificate and an unknown one": {errors.Join(unknown, none), einmal.EndOpen},
		"the same in a format":             {fmt.Errorf("%w, %w", none, unknown), einmal.EndOpen},
		"two certificates":                 {errors.Join(none, fmt.Errorf("x: %w", none)), einmal.EndNoEffect},
		"a certificate and a refusal":      {errors.Join(none, final), einmal.EndOpen},
		"a certificate inside a refusal":   {einmal.Final(none), einmal.EndRefused},
		"a list of nothing":                {nothing{}, einmal.EndOpen},
	} {
		if got := einmal.EndOf(tt.err); got != tt.want {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
}

// nothing is an error that wraps a list of nil.
type nothing struct{}

func (nothing) Error() string   { return "x" }
func (nothing) Unwrap() []error { return []error{nil} }

func TestInputsThatJSONWouldMakeEqualAreRefused(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		op := w.eng.Define(policy("pay"))
		run := func(key string, input any) error {
			_, err := einmal.Do(t.Context(), op, doCall(key, input), func(context.Context, string) (int, error) { return 1, nil })
			return err
		}
		if err := run("a", map[string]string{"to": "account-\xff"}); err == nil {
			t.Error("a string that is no UTF-8 was taken")
		}
		for i, good := range []string{"\ufffd", `\ufffd`, `\\ufffd`, "ä\\"} {
			if err := run(fmt.Sprint("good", i), good); err != nil {
				t.Errorf("%q: %v", good, err)
			}
		}
	})
}

func TestAnOutageLeavesNoGoroutinesBehind(t *testing.T) {
	inLossyWorld(t, func(t *testing.T, w *world, store *lossy, eng *einmal.Engine) {
		op := eng.Define(policy("order"))
		store.reserve.Store(lose(1<<40, true)) // every reservation is made, and nobody hears of it
		store.get.Store(lose(1<<40, false))
		before := runtime.NumGoroutine()
		const requests = 500
		for i := range requests {
			_, err := eng.Run(t.Context(), op, request(fmt.Sprint(i)), never(t))
			problem(t, err, contract.StoreUnavailable, contract.NextWait)
		}
		if n := runtime.NumGoroutine() - before; n > 10 {
			t.Errorf("%d goroutines more after %d refused requests", n, requests)
		}
		store.reserve.Store(nil)
		store.get.Store(nil)
		time.Sleep(3 * time.Second)
		for i := range requests {
			if got := w.find("order", fmt.Sprint(i)); got.State != einmal.StateNotApplied {
				t.Fatalf("%d: %v", i, got.State)
			}
		}
	})
}

func (w *world) find(op, key string) einmal.Operation {
	w.t.Helper()
	o, err := w.eng.Find(context.Background(), einmal.Identity{Tenant: "acme", Operation: op, Key: key})
	if err != nil {
		w.t.Fatal(err)
	}
	return o
}

// hung is a store whose calls of one kind answer only when their context ends.
type hung struct {
	einmal.Store
	reserve, apply atomic.Bool
}

func (s *hung) Reserve(ctx context.Context, r einmal.Reservation) (einmal.Record, bool, error) {
	if s.reserve.Load() {
		<-ctx.Done()
		return einmal.Record{}, false, ctx.Err()
	}
	return s.Store.Reserve(ctx, r)
}

func (s *hung) Apply(ctx context.Context, c einmal.Change) (einmal.Record, error) {
	if s.apply.Load() {
		<-ctx.Done()
		return einmal.Record{}, ctx.Err()
	}
	return s.Store.Apply(ctx, c)
}

func TestAStoreThatHangsHoldsNobodyForEver(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		store := &hung{Store: w.storage.Open()}
		eng := w.engine(store)
		op := eng.Define(policy("order"))
		began := time.Now()
		out, err := eng.Run(t.Context(), op, request("after"), func(context.Context) einmal.Ending { store.apply.Store(true); return success("x") })
		if err != nil || !out.Own || out.Recorded || time.Since(began) != einmal.DefaultRecordGrace {
			t.Fatalf("%+v, %v after %v", out, err, time.Since(began))
		}
		store.apply.Store(false)
		time.Sleep(15 * time.Second) // what hangs gives up, and the word is stored
		if got := w.find("order", "after"); got.State != einmal.StateCompleted {
			t.Errorf("%v", got.State)
		}
		store.reserve.Store(true)
		_, err = eng.Run(t.Context(), op, request("before"), never(t))
		problem(t, err, contract.StoreUnavailable, contract.NextWait)
		store.reserve.Store(false)
	})
}

func TestCloseWaitsForWordsThatTheStoreHasNotTaken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		storage := newStorage()
		store := &lossy{Store: storage.Open()}
		eng, err := einmal.New(einmal.Config{Store: store, Log: discard})
		if err != nil {
			t.Fatal(err)
		}
		op := eng.Define(policy("order"))
		out, err := eng.Run(t.Context(), op, request("k"), func(context.Context) einmal.Ending {
			store.apply.Store(lose(1<<40, false))
			return success("x")
		})
		if err != nil || out.Recorded {
			t.Fatal(err)
		}
		time.AfterFunc(3*time.Second, func() { store.apply.Store(nil) })
		if err := eng.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got, err := eng.Find(t.Context(), einmal.Identity{Tenant: "acme", Operation: "order", Key: "k"}); err != nil || got.State != einmal.StateCompleted {
			t.Fatalf("%v, %v", got.State, err)
		}
	})
}

func TestAnOperationThatChangedItsClassNeverRunsWithoutTheKeyThatItMayBeRepeatedWith(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		asKeyed := w.eng.Define(keyed("pay"))
		other := w.engine(w.storage.Open())
		asOpaque := other.Define(policy("pay"))
		noEffect := ends(einmal.EndNoEffect)

		_, _ = w.eng.Run(t.Context(), asKeyed, request("was-keyed"), noEffect)
		_, err := other.Run(t.Context(), asOpaque, request("was-keyed"), never(t))
		problem(t, err, contract.Paused, contract.NextWait)

		_, _ = other.Run(t.Context(), asOpaque, request("was-opaque"), noEffect)
		keys := map[string]bool{}
		for range 2 {
			_, err := w.eng.Run(t.Context(), asKeyed, request("was-opaque"), func(ctx context.Context) einmal.Ending {
				keys[einmal.PartnerKey(ctx)] = true
				return einmal.Ending{End: einmal.EndNoEffect}
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		if len(keys) != 1 || keys[""] {
			t.Errorf("partner keys %v", keys)
		}
	})
}

func TestLimitsHoldForEveryStart(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		p := policy("order")
		p.Rules = &einmal.Rules{Limits: einmal.Limits{Open: 1}}
		op := w.eng.Define(p)
		for _, key := range []string{"a", "b"} {
			_, _ = w.eng.Run(t.Context(), op, request(key), ends(einmal.EndNoEffect))
		}
		_, err := w.eng.Run(t.Context(), op, request("a"), func(context.Context) einmal.Ending {
			_, err := w.eng.Run(t.Context(), op, request("b"), never(t))
			problem(t, err, contract.TooManyOpen, contract.NextWait)
			return success("x")
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}

func TestSmallStepsBackDoNotSlowTheStoresTime(t *testing.T) {
	t.Parallel()
	began := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	wall, mono := began, time.Duration(0)
	g := einmal.ClockGuard{Clock: func() (time.Time, time.Duration) { return wall, mono }}
	mark, _ := g.Read(time.Time{})
	for range 100 { // each minute the clock is set back by two
		wall, mono = wall.Add(-time.Minute), mono+time.Minute
		now, jumped := g.Read(mark)
		if jumped || now.Before(began.Add(mono)) {
			t.Fatalf("jumped %v; the store's time is %v after %v", jumped, now.Sub(began), mono)
		}
		mark = now
	}
	wall = g.Accept()
	if now, jumped := g.Read(wall); jumped || !now.Equal(wall) {
		t.Errorf("after the clock was accepted: %v, jumped %v", now.Sub(wall), jumped)
	}
	for range 1000 { // and no step, however long between two readings
		wall, mono = wall.Add(time.Hour), mono+time.Hour
		if _, jumped := g.Read(mark); jumped {
			t.Fatal("a clock that goes right was told")
		}
	}
}

func TestNoWordIsTooLargeToBeRecorded(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		p := policy("order")
		p.Rules = &einmal.Rules{MaxResult: 1 << 10}
		op := w.eng.Define(p)
		huge := strings.Repeat("ä", 1<<20)
		for key, tt := range map[string]struct {
			word einmal.Ending
			kept einmal.Kept
		}{
			"body":   {einmal.Ending{End: einmal.EndSuccess, Result: &einmal.Result{Status: 200, Body: []byte(huge)}}, einmal.KeptTooLarge},
			"header": {einmal.Ending{End: einmal.EndSuccess, Result: &einmal.Result{Status: 200, Header: []einmal.Field{{Name: "Link", Value: huge}}}}, einmal.KeptTooLarge},
			"text":   {einmal.Ending{End: einmal.EndOpen, Reason: huge, Detail: huge}, 0},
		} {
			out, err := w.eng.Run(t.Context(), op, request(key), func(context.Context) einmal.Ending { return tt.word })
			if err != nil {
				t.Fatal(err)
			}
			if r := out.Operation.Result; r != nil && (r.Kept != tt.kept || r.Status != 200 || len(r.Body) > 0) {
				t.Errorf("%s: %v %d", key, r.Kept, len(r.Body))
			}
			line, err := w.eng.Timeline(t.Context(), out.Operation.ID)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range line {
				if len(e.Reason) > 10<<10 || strings.ContainsRune(e.Reason, '\ufffd') {
					t.Errorf("%s: an entry of %d bytes", key, len(e.Reason))
				}
			}
		}
	})
}

func TestAnAnswerThatCannotBeReplayedIsNotTakenFromAPerson(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		op := w.eng.Define(policy("pay"))
		r := good(w.unclear(op, "k"), einmal.ResolveApplied)
		for name, result := range map[string]einmal.Result{
			"no status":     {},
			"informational": {Status: 101},
			"no such":       {Status: 1000},
			"a cookie":      {Status: 200, Header: []einmal.Field{{Name: "Set-Cookie", Value: "a=b"}}},
			"a line break":  {Status: 200, Header: []einmal.Field{{Name: "Location", Value: "/a\r\nSet-Cookie: a=b"}}},
			"not whole":     {Status: 200, Kept: einmal.KeptTooLarge},
			"huge":          {Status: 200, Body: make([]byte, 17<<20)},
		} {
			r.Result = &result
			if _, err := w.eng.Resolve(t.Context(), r); !errors.As(err, new(*einmal.ResolveError)) {
				t.Errorf("%s: %v", name, err)
			}
		}
		r.Result, r.Reason = nil, strings.Repeat("x", 5<<10)
		if _, err := w.eng.Resolve(t.Context(), r); !errors.As(err, new(*einmal.ResolveError)) {
			t.Errorf("a long reason: %v", err)
		}
		r.Reason = "x"
		r.Result = &einmal.Result{Status: 201, Header: []einmal.Field{{Name: "content-type", Value: "text/plain"}}, Body: []byte("ok")}
		if _, err := w.eng.Resolve(t.Context(), r); err != nil {
			t.Error(err)
		}
	})
}

// readOnly is a store on a disk that is full.
type readOnly struct{ einmal.Store }

func (s readOnly) Settings(ctx context.Context, set ...einmal.Setting) ([]einmal.Setting, error) {
	if len(set) > 0 {
		return nil, errors.New("disk full")
	}
	return s.Store.Settings(ctx)
}

func TestLookingWritesNothing(t *testing.T) {
	t.Parallel()
	storage := memstore.NewStorage(memstore.Options{})
	if _, err := einmal.NewOperator(t.Context(), storage.Open()); err != nil { // makes the store's secret
		t.Fatal(err)
	}
	if _, err := einmal.NewOperator(t.Context(), readOnly{storage.Open()}); err != nil {
		t.Errorf("an operator's look needs a write: %v", err)
	}
}

// lateReserve makes its reservation after it has given up, and after the engine has looked for it.
type lateReserve struct {
	einmal.Store
	held chan einmal.Reservation
}

func (s *lateReserve) Reserve(_ context.Context, r einmal.Reservation) (einmal.Record, bool, error) {
	s.held <- r
	return einmal.Record{}, false, errStoreLost
}

func TestAReservationThatIsMadeAfterItGaveUpIsFoundAndDisowned(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		store := &lateReserve{w.storage.Open(), make(chan einmal.Reservation, 1)}
		eng := w.engine(store)
		op := eng.Define(policy("order"))
		_, err := eng.Run(t.Context(), op, request("k"), never(t))
		problem(t, err, contract.StoreUnavailable, contract.NextWait)
		time.Sleep(5 * time.Second)
		if _, _, err := store.Store.Reserve(t.Context(), <-store.held); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second)
		if got := w.find("order", "k"); got.State != einmal.StateNotApplied {
			t.Errorf("%v", got.State)
		}
	})
}

func TestCloseDoesNotWaitForAStoreThatIsClosed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newStorage().Open()
		eng, err := einmal.New(einmal.Config{Store: store, Log: discard})
		if err != nil {
			t.Fatal(err)
		}
		op := eng.Define(policy("order"))
		out, err := eng.Run(t.Context(), op, request("k"), func(context.Context) einmal.Ending { _ = store.Close(); return success("x") })
		if err != nil || out.Recorded {
			t.Fatalf("%+v, %v", out, err)
		}
		_ = eng.Close(context.Background())
	})
}

func TestARetriedCertificateDoesNotGrowTheTimeline(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		op := w.eng.Define(policy("order"))
		for range 50 {
			if _, err := w.eng.Run(t.Context(), op, request("k"), ends(einmal.EndNoEffect)); err != nil {
				t.Fatal(err)
			}
		}
		line, err := w.eng.Timeline(t.Context(), w.find("order", "k").ID)
		if err != nil || len(line) != 2 || line[1].Event != einmal.EventNotApplied || line[1].Attempt != 50 {
			t.Errorf("%+v, %v", line, err)
		}
	})
}

func TestACallerWithoutAPrincipalIsNobody(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		op := w.eng.Define(policy("order"))
		req := request("k")
		req.Principal = ""
		if _, err := w.eng.Run(t.Context(), op, req, never(t)); err == nil {
			t.Error("all who are nobody share their answers")
		}
	})
}

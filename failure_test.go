package einmal_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/einmal-dev/einmal"
	"github.com/einmal-dev/einmal/contract"
)

var errStoreLost = errors.New("the store is lost")

// lossy is a store that can be lost before or after it has done what it was asked for.
type lossy struct {
	einmal.Store
	reserve, apply, get atomic.Pointer[loss]
}

// loss says what happens to the next calls of one kind.
type loss struct {
	calls atomic.Int64 // how many are hit
	after bool         // the write happens, its answer is lost
}

func lose(calls int64, after bool) *loss {
	l := &loss{after: after}
	l.calls.Store(calls)
	return l
}

func (l *loss) hit() bool { return l != nil && l.calls.Add(-1) >= 0 }

func (s *lossy) Reserve(ctx context.Context, r einmal.Reservation) (einmal.Record, bool, error) {
	l := s.reserve.Load()
	if !l.hit() {
		return s.Store.Reserve(ctx, r)
	}
	if l.after {
		_, _, _ = s.Store.Reserve(ctx, r)
	}
	return einmal.Record{}, false, errStoreLost
}

func (s *lossy) Apply(ctx context.Context, c einmal.Change) (einmal.Record, error) {
	l := s.apply.Load()
	if !l.hit() {
		return s.Store.Apply(ctx, c)
	}
	if l.after {
		_, _ = s.Store.Apply(ctx, c)
	}
	return einmal.Record{}, errStoreLost
}

func (s *lossy) Get(ctx context.Context, r einmal.Ref) (einmal.Record, error) {
	if s.get.Load().hit() {
		return einmal.Record{}, errStoreLost
	}
	return s.Store.Get(ctx, r)
}

// inLossyWorld is inWorld with a second engine on a lossy handle.
func inLossyWorld(t *testing.T, test func(t *testing.T, w *world, store *lossy, eng *einmal.Engine)) {
	t.Helper()
	inWorld(t, func(t *testing.T, w *world) {
		store := &lossy{Store: w.storage.Open()}
		test(t, w, store, w.engine(store))
	})
}

func TestAStoreLostBeforeTheEffectExecutesNothing(t *testing.T) {
	inLossyWorld(t, func(t *testing.T, w *world, store *lossy, eng *einmal.Engine) {
		op := eng.Define(policy("order"))
		store.reserve.Store(lose(1, false))
		_, err := eng.Run(t.Context(), op, request("k"), never(t))
		if p := problem(t, err, contract.StoreUnavailable, contract.NextWait); p.RetryAfter <= 0 || !errors.Is(err, errStoreLost) {
			t.Errorf("%+v", p)
		}
		if _, err := eng.Find(t.Context(), einmal.Identity{Tenant: "acme", Operation: "order", Key: "k"}); !errors.Is(err, einmal.ErrNotFound) {
			t.Errorf("a row is left: %v", err)
		}
	})
}

func TestAReservationWhoseAnswerIsLostIsFoundByItsNonce(t *testing.T) {
	inLossyWorld(t, func(t *testing.T, w *world, store *lossy, eng *einmal.Engine) {
		op := eng.Define(policy("order"))
		store.reserve.Store(lose(1, true))
		out, err := eng.Run(t.Context(), op, request("k"), func(context.Context) einmal.Ending { return success("x") })
		if err != nil || !out.Own {
			t.Fatalf("%+v, %v", out, err)
		}
		// The same, but the record that is found is somebody else's.
		other := w.eng.Define(policy("order"))
		if _, err := w.eng.Run(t.Context(), other, request("theirs"), func(context.Context) einmal.Ending { return success("theirs") }); err != nil {
			t.Fatal(err)
		}
		store.reserve.Store(lose(1, true))
		if out, err := eng.Run(t.Context(), op, request("theirs"), never(t)); err != nil || out.Own {
			t.Fatalf("%+v, %v", out, err)
		}
	})
}

func TestAReservationWhoseFateIsLearnedTooLateIsRecordedAsNeverStarted(t *testing.T) {
	inLossyWorld(t, func(t *testing.T, w *world, store *lossy, eng *einmal.Engine) {
		op := eng.Define(policy("order"))
		store.reserve.Store(lose(1, true))
		store.get.Store(lose(3, false))
		_, err := eng.Run(t.Context(), op, request("k"), never(t))
		problem(t, err, contract.StoreUnavailable, contract.NextWait)
		time.Sleep(5 * time.Second) // shorter than the lease
		got, err := eng.Find(t.Context(), einmal.Identity{Tenant: "acme", Operation: "order", Key: "k"})
		if err != nil || got.State != einmal.StateNotApplied {
			t.Fatalf("%v, %v", got.State, err)
		}
	})
}

func TestAnAnswerWhoseRecordingIsUnknownIsFoundByItsNonce(t *testing.T) {
	inLossyWorld(t, func(t *testing.T, w *world, store *lossy, eng *einmal.Engine) {
		op := eng.Define(policy("order"))
		out, err := eng.Run(t.Context(), op, request("k"), func(context.Context) einmal.Ending {
			store.apply.Store(lose(1, true))
			return success("x")
		})
		if err != nil || !out.Own || !out.Recorded || out.Operation.State != einmal.StateCompleted {
			t.Fatalf("%+v, %v", out, err)
		}
	})
}

func TestAStoreLostAfterTheEffectIsTriedForTheGraceAndThenTheTrueAnswerGoesOutUnrecorded(t *testing.T) {
	inLossyWorld(t, func(t *testing.T, w *world, store *lossy, eng *einmal.Engine) {
		op := eng.Define(policy("order"))
		var away time.Time
		out, err := eng.Run(t.Context(), op, request("k"), func(context.Context) einmal.Ending {
			store.apply.Store(lose(1<<40, false))
			away = time.Now()
			return success("x")
		})
		if err != nil || !out.Own || out.Recorded {
			t.Fatalf("%+v, %v", out, err)
		}
		if took := time.Since(away); took < einmal.DefaultRecordGrace || took > einmal.DefaultRecordGrace+2*time.Second {
			t.Errorf("gave up after %v", took)
		}
		if evs := w.told(einmal.EventUnrecorded); len(evs) != 1 || !evs[0].Alarm {
			t.Errorf("told %+v", evs)
		}
		store.apply.Store(nil)
		time.Sleep(3 * time.Second)
		if again, err := eng.Run(t.Context(), op, request("k"), never(t)); err != nil || string(again.Operation.Result.Body) != "x" {
			t.Fatalf("after the store is back: %+v, %v", again, err)
		}
	})
}

func TestAShortLossAfterTheEffectIsNotSeenByTheCaller(t *testing.T) {
	inLossyWorld(t, func(t *testing.T, w *world, store *lossy, eng *einmal.Engine) {
		op := eng.Define(policy("order"))
		out, err := eng.Run(t.Context(), op, request("k"), func(context.Context) einmal.Ending {
			store.apply.Store(lose(4, false))
			return success("x")
		})
		if err != nil || !out.Recorded || out.Operation.State != einmal.StateCompleted {
			t.Fatalf("%+v, %v", out, err)
		}
	})
}

func TestACallerThatLeftBeforeTheHandlerBeganIsRecordedAsNeverStarted(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		op := w.eng.Define(policy("order"))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := w.eng.Run(ctx, op, request("k"), never(t)); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		if got := w.state(op, "k"); got.State != einmal.StateNotApplied {
			t.Fatalf("%v", got.State)
		}
	})
}

// slowReserve answers a reservation late.
type slowReserve struct {
	einmal.Store
	delay time.Duration
}

func (s slowReserve) Reserve(ctx context.Context, r einmal.Reservation) (einmal.Record, bool, error) {
	rec, created, err := s.Store.Reserve(ctx, r)
	time.Sleep(s.delay)
	return rec, created, err
}

func TestAReservationThatTookLongerThanTheDeadlineStartsNothing(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		eng := w.engine(slowReserve{w.storage.Open(), einmal.DefaultDeadline})
		op := eng.Define(policy("order"))
		_, err := eng.Run(t.Context(), op, request("k"), never(t))
		problem(t, err, contract.StoreUnavailable, contract.NextWait)
		if got := w.state(op, "k"); got.State != einmal.StateNotApplied {
			t.Fatalf("%v", got.State)
		}
	})
}

func TestACallerThatLeavesWhileTheHandlerRunsChangesNothing(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		op := w.eng.Define(policy("order"))
		ctx, cancel := context.WithCancel(t.Context())
		out, err := w.eng.Run(ctx, op, request("k"), func(ctx context.Context) einmal.Ending {
			cancel()
			time.Sleep(time.Second)
			if ctx.Err() != nil {
				t.Error("the handler's context ended with its caller's")
			}
			return success("x")
		})
		if err != nil || out.Operation.State != einmal.StateCompleted {
			t.Fatalf("%+v, %v", out, err)
		}
	})
}

func TestTheHandlersContextEndsAtTheDeadline(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		op := w.eng.Define(policy("order"))
		began := time.Now()
		out, err := w.eng.Run(t.Context(), op, request("k"), func(ctx context.Context) einmal.Ending {
			<-ctx.Done()
			return einmal.Ending{End: einmal.EndOpen, Reason: context.Cause(ctx).Error()}
		})
		if took := time.Since(began); took != op.Policy().Deadline {
			t.Errorf("ended after %v", took)
		}
		if err != nil || out.Operation.State != einmal.StateUnclear {
			t.Fatalf("%+v, %v", out, err)
		}
	})
}

func TestAWaiterGetsTheAnswerAndNeverExecutes(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		op := w.eng.Define(policy("order"))
		second := w.engine(w.storage.Open()) // another node: its waiters are not woken, they look
		secondOp := second.Define(policy("order"))
		for key, end := range map[string]einmal.Ending{"ok": success("x"), "none": {End: einmal.EndNoEffect}} {
			release := make(chan struct{})
			go func() {
				_, _ = w.eng.Run(context.Background(), op, request(key), func(context.Context) einmal.Ending { <-release; return end })
			}()
			synctest.Wait()
			type answer struct {
				out einmal.Outcome
				err error
			}
			answers := make(chan answer, 2)
			waiting := request(key)
			waiting.Wait = time.Minute
			go func() {
				out, err := w.eng.Run(context.Background(), op, waiting, never(t))
				answers <- answer{out, err}
			}()
			go func() {
				out, err := second.Run(context.Background(), secondOp, waiting, never(t))
				answers <- answer{out, err}
			}()
			time.Sleep(3 * time.Second)
			close(release)
			for range 2 {
				a := <-answers
				if key == "none" {
					problem(t, a.err, contract.InProgress, contract.NextRetry)
				} else if a.err != nil || string(a.out.Operation.Result.Body) != "x" {
					t.Errorf("%+v, %v", a.out, a.err)
				}
			}
		}
		// The time is over first.
		release := make(chan struct{})
		go func() {
			_, _ = w.eng.Run(context.Background(), op, request("slow"), func(context.Context) einmal.Ending { <-release; return success("x") })
		}()
		synctest.Wait()
		waiting := request("slow")
		waiting.Wait = 2 * time.Second
		_, err := w.eng.Run(t.Context(), op, waiting, never(t))
		problem(t, err, contract.InProgress, contract.NextWait)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := w.eng.Run(ctx, op, waiting, never(t)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a waiter that left: %v", err)
		}
		close(release)
	})
}

func TestAuthorizeIsAskedAfterTheWait(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		op := w.eng.Define(policy("order"))
		release := make(chan struct{})
		go func() {
			_, _ = w.eng.Run(context.Background(), op, request("k"), func(context.Context) einmal.Ending { <-release; return success("secret") })
		}()
		synctest.Wait()
		var revoked atomic.Bool
		errRevoked := errors.New("revoked")
		req := request("k")
		req.Wait = time.Minute
		req.Authorize = func(context.Context, einmal.Operation) error {
			if revoked.Load() {
				return errRevoked
			}
			return nil
		}
		go func() { revoked.Store(true); close(release) }()
		if _, err := w.eng.Run(t.Context(), op, req, never(t)); !errors.Is(err, errRevoked) {
			t.Fatal(err)
		}
	})
}

func TestCloseDrainsAndMarksTheRestUnclear(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t}
		storage := newStorage()
		eng, err := einmal.New(einmal.Config{Store: storage.Open(), Observe: w.observe, Log: discard})
		if err != nil {
			t.Fatal(err)
		}
		op := eng.Define(policy("order"))
		release := make(chan struct{})
		late := make(chan einmal.Outcome)
		go func() {
			_, _ = eng.Run(context.Background(), op, request("quick"), func(context.Context) einmal.Ending { time.Sleep(time.Second); return success("q") })
		}()
		go func() {
			out, _ := eng.Run(context.Background(), op, request("stuck"), func(context.Context) einmal.Ending { <-release; return success("s") })
			late <- out
		}()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		closed := make(chan error)
		go func() { closed <- eng.Close(ctx) }()
		synctest.Wait()
		_, err = eng.Run(t.Context(), op, request("new"), never(t))
		problem(t, err, contract.Stopping, contract.NextWait)
		if err := <-closed; !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("close: %v", err)
		}
		for key, want := range map[string]einmal.State{"quick": einmal.StateCompleted, "stuck": einmal.StateUnclear} {
			got, err := eng.Find(t.Context(), einmal.Identity{Tenant: "acme", Operation: "order", Key: key})
			if err != nil || got.State != want {
				t.Errorf("%s: %v, %v", key, got.State, err)
			}
		}
		close(release)
		if out := <-late; out.Operation.State != einmal.StateCompleted {
			t.Errorf("the late word: %+v", out)
		}
	})
}

package einmal_test

import (
	"context"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/einmal-dev/einmal"
	"github.com/einmal-dev/einmal/contract"
	"github.com/einmal-dev/einmal/memstore"
)

// slowStart lets time pass between the engine's decision to start another attempt and the store's write.
type slowStart struct {
	einmal.Store
	delay time.Duration
}

func (s slowStart) Apply(ctx context.Context, c einmal.Change) (einmal.Record, error) {
	if c.Guard.Start {
		time.Sleep(s.delay)
	}
	return s.Store.Apply(ctx, c)
}

func TestThePartnersWindowIsCheckedWhenTheAttemptStartsAndNotBefore(t *testing.T) {
	inWorldWithPoll(t, time.Hour, func(t *testing.T, w *world) {
		eng := w.engine(slowStart{w.storage.Open(), 2 * time.Second})
		op := eng.Define(keyed("pay"))
		if _, err := eng.Run(t.Context(), op, request("k"), ends(einmal.EndOpen)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(24*time.Hour - op.Policy().Deadline - op.Policy().Lease - time.Second)
		_, err := eng.Run(t.Context(), op, request("k"), never(t))
		problem(t, err, contract.OutcomeUnclear, contract.NextResolve)
	})
}

func TestAfterAClockJumpNothingIsPurgedAndNoUnclearOperationRunsAgain(t *testing.T) {
	var jump atomic.Int64
	clock := func() (time.Time, time.Duration) {
		wall, mono := einmal.SystemClock()
		return wall.Add(time.Duration(jump.Load())), mono
	}
	inWorld(t, func(t *testing.T, w *world) {
		storage := memstore.NewStorage(memstore.Options{Clock: clock})
		store := storage.Open()
		eng := w.engine(store)
		op := eng.Define(keyed("pay"))
		if _, err := eng.Run(t.Context(), op, request("unclear"), ends(einmal.EndOpen)); err != nil {
			t.Fatal(err)
		}
		if _, err := eng.Run(t.Context(), op, request("done"), func(context.Context) einmal.Ending { return success("x") }); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		jump.Store(int64(-6 * time.Minute)) // a partner's window would seem longer than it is
		time.Sleep(2 * time.Minute)
		_, err := eng.Run(t.Context(), op, request("unclear"), never(t))
		problem(t, err, contract.OutcomeUnclear, contract.NextWait)
		if n := len(w.told(einmal.EventClock)); n != 1 {
			t.Errorf("the jump was told %d times", n)
		}
		if out, err := eng.Run(t.Context(), op, request("new"), func(context.Context) einmal.Ending { return success("x") }); err != nil || !out.Own {
			t.Errorf("a new operation: %v", err)
		}
		jump.Store(int64(48 * time.Hour)) // beyond the window of what is completed
		time.Sleep(2 * time.Minute)
		if _, err := eng.Run(t.Context(), op, request("done"), never(t)); err != nil {
			t.Errorf("purged after a jump: %v", err)
		}
		jump.Store(0)
		if _, err := store.Settings(t.Context(), einmal.Setting{Name: "clock", Value: "accept"}); err != nil {
			t.Fatal(err)
		}
		if out, err := eng.Run(t.Context(), op, request("unclear"), func(context.Context) einmal.Ending { return success("x") }); err != nil || !out.Own {
			t.Errorf("after the clock was accepted: %v", err)
		}
	})
}

func TestPublicIDsCannotBeGuessed(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		op := w.eng.Define(policy("order"))
		form := regexp.MustCompile(`^op_[0-9a-z]{26}$`)
		seen := map[string]bool{}
		var last string
		for _, key := range []string{"a", "b", "c", "d"} {
			o := w.unclear(op, key)
			if !form.MatchString(o.ID) || seen[o.ID] {
				t.Errorf("%q", o.ID)
			}
			seen[o.ID] = true
			if last != "" && strings.HasPrefix(o.ID, last[:8]) {
				t.Errorf("%q and %q are neighbours to the eye", last, o.ID)
			}
			last = o.ID
			if again, err := w.engine(w.storage.Open()).Get(t.Context(), o.ID); err != nil || again.Key != key {
				t.Errorf("another node: %+v, %v", again, err)
			}
		}
	})
}

func TestThePartnerKeyDependsOnEverythingThatNamesTheOperation(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		keys := map[string]string{}
		note := func(name string, op *einmal.Op, req einmal.Request) {
			_, err := w.eng.Run(t.Context(), op, req, func(ctx context.Context) einmal.Ending {
				k := einmal.PartnerKey(ctx)
				if other, ok := keys[k]; ok || len(k) != 36 {
					t.Errorf("%s and %s have the partner key %q", name, other, k)
				}
				keys[k] = name
				return success("x")
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		pay, refund := w.eng.Define(keyed("pay")), w.eng.Define(keyed("refund"))
		note("pay", pay, request("k"))
		note("refund", refund, request("k"))
		note("another key", pay, request("k2"))
		tenant := request("k")
		tenant.Tenant = "other"
		note("another tenant", pay, tenant)
		body := request("k3")
		body.Parts.Body = nil
		note("another body", pay, body)
		if einmal.PartnerKey(t.Context()) != "" {
			t.Error("a partner key outside of an attempt")
		}
	})
}

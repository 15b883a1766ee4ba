package einmal_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/einmal-dev/einmal"
	"github.com/einmal-dev/einmal/contract"
)

type receipt struct {
	ID     string `json:"id"`
	Amount int64  `json:"amount"`
}

func doCall(key string, input any) einmal.Call {
	return einmal.Call{Caller: einmal.Caller{Tenant: "acme", Principal: "queue"}, Key: key, Input: input}
}

func TestDoReturnsTheStoredResultToTheFirstCallAndToEveryReplay(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		op := w.eng.Define(keyed("charge"))
		ran := 0
		charge := func(_ context.Context, partnerKey string) (receipt, error) {
			ran++
			if partnerKey == "" {
				t.Error("no partner key")
			}
			return receipt{"r-1", 9007199254740993}, nil
		}
		for range 3 {
			got, err := einmal.Do(t.Context(), op, doCall("k", map[string]any{"b": 1, "a": 2}), charge)
			if diff := cmp.Diff(receipt{"r-1", 9007199254740993}, got); diff != "" || err != nil {
				t.Error(diff, err)
			}
		}
		if ran != 1 {
			t.Errorf("ran %d times", ran)
		}
	})
}

func TestDoComparesTheInput(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		op := w.eng.Define(policy("charge"))
		run := func(input any) error {
			_, err := einmal.Do(t.Context(), op, doCall("k", input), func(context.Context, string) (int, error) { return 1, nil })
			return err
		}
		if err := run(json.RawMessage(`{"n":9007199254740993}`)); err != nil {
			t.Fatal(err)
		}
		for name, input := range map[string]any{
			"a number that differs beyond a float's precision": json.RawMessage(`{"n":9007199254740992}`),
			"raw bytes in another order":                       []byte(`{ "n":9007199254740993}`),
		} {
			if err := run(input); !errors.Is(err, einmal.ErrKeyReused) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if err := run(struct {
			N json.Number `json:"n"`
		}{"9007199254740993"}); err != nil {
			t.Errorf("the same input as a struct: %v", err)
		}
		if err := run(func() {}); err == nil {
			t.Error("an input that cannot be encoded was taken")
		}
	})
}

func TestDoStoresARefusalAndReplaysIt(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		op := w.eng.Define(policy("charge"))
		want := &einmal.Refusal{Code: "card_declined", Message: "no", Detail: json.RawMessage(`{"try":"cash"}`)}
		for i := range 2 {
			_, err := einmal.Do(t.Context(), op, doCall("k", nil), func(context.Context, string) (int, error) {
				if i > 0 {
					t.Error("ran again")
				}
				return 0, einmal.Final(want)
			})
			var got *einmal.Refusal
			if !errors.As(err, &got) {
				t.Fatalf("%d: %v", i, err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		}
	})
}

func TestDoSaysWhatIsKnownOfAFailure(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		errBroken := errors.New("connection reset")
		op := w.eng.Define(policy("opaque"))
		fail := func(err error) func(context.Context, string) (int, error) {
			return func(context.Context, string) (int, error) { return 0, err }
		}
		_, err := einmal.Do(t.Context(), op, doCall("open", nil), fail(errBroken))
		p := problem(t, err, contract.OutcomeUnclear, contract.NextResolve)
		if !errors.Is(err, errBroken) || !errors.Is(err, einmal.ErrUnclear) || p.ID == "" {
			t.Errorf("%v", err)
		}
		_, err = einmal.Do(t.Context(), op, doCall("open", nil), fail(nil))
		problem(t, err, contract.OutcomeUnclear, contract.NextResolve)

		_, err = einmal.Do(t.Context(), op, doCall("none", nil), fail(einmal.NoEffect(errBroken)))
		if !errors.Is(err, errBroken) || errors.Is(err, einmal.ErrUnclear) {
			t.Errorf("%v", err)
		}
		if _, err = einmal.Do(t.Context(), op, doCall("none", nil), fail(nil)); err != nil {
			t.Errorf("after no effect: %v", err)
		}

		again := w.eng.Define(keyed("keyed"))
		_, err = einmal.Do(t.Context(), again, doCall("open", nil), fail(errBroken))
		if p := problem(t, err, contract.OutcomeUnclear, contract.NextWait); p.RetryAfter <= 0 {
			t.Errorf("%+v", p)
		}
	})
}

func TestAResultThatCannotBeKeptIsNotRepeated(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		p := policy("export")
		p.Rules = &einmal.Rules{MaxResult: 10}
		op := w.eng.Define(p)
		for range 2 {
			_, err := einmal.Do(t.Context(), op, doCall("chan", nil), func(context.Context, string) (chan int, error) { return make(chan int), nil })
			if !errors.Is(err, einmal.ErrResultUnknown) {
				t.Errorf("%v", err)
			}
		}
		for range 2 {
			_, err := einmal.Do(t.Context(), op, doCall("large", nil), func(context.Context, string) (string, error) { return strings.Repeat("x", 100), nil })
			if problem(t, err, contract.ResultNotStored, contract.NextResolve).ID == "" {
				t.Error("no ID")
			}
		}
	})
}

func TestDoGivesTheTrueResultWhenTheStoreIsLostAfterTheEffect(t *testing.T) {
	inLossyWorld(t, func(t *testing.T, w *world, store *lossy, eng *einmal.Engine) {
		op := eng.Define(policy("charge"))
		got, err := einmal.Do(t.Context(), op, doCall("k", nil), func(context.Context, string) (receipt, error) {
			store.apply.Store(lose(1<<40, false))
			return receipt{ID: "r"}, nil
		})
		if err != nil || got.ID != "r" {
			t.Errorf("%+v, %v", got, err)
		}
		store.apply.Store(nil)
		time.Sleep(3 * time.Second)
	})
}

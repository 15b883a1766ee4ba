package einmal_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/einmal-dev/einmal"
	"github.com/einmal-dev/einmal/memstore"
)

// A queue delivers a message twice. The charge happens once, and both deliveries get the same result.
func ExampleDo() {
	eng, err := einmal.New(einmal.Config{Store: memstore.New()})
	if err != nil {
		panic(err)
	}
	defer eng.Close(context.Background())
	charge := eng.Define(einmal.Policy{
		Name: "charge", Owner: "payments@example.com",
		Effect: einmal.Keyed(24 * time.Hour), // the partner deduplicates on our key for a day
	})

	type receipt struct{ ID string }
	for delivery := 1; delivery <= 2; delivery++ {
		r, err := einmal.Do(context.Background(), charge, einmal.Call{
			Caller: einmal.Caller{Tenant: "acme", Principal: "queue"}, Key: "message-17", Input: map[string]int{"cents": 1250},
		}, func(_ context.Context, partnerKey string) (receipt, error) {
			fmt.Println("charging, with a partner key:", partnerKey != "")
			return receipt{ID: "r-1"}, nil
		})
		fmt.Println("delivery", delivery, r.ID, err)
	}
	// Output:
	// charging, with a partner key: true
	// delivery 1 r-1 <nil>
	// delivery 2 r-1 <nil>
}

// A connection breaks while the effect may have happened. Nobody guesses: the operation is unclear, and a person resolves it.
func ExampleOperator_Resolve() {
	ctx := context.Background()
	eng, err := einmal.New(einmal.Config{Store: memstore.New()})
	if err != nil {
		panic(err)
	}
	defer eng.Close(ctx)
	pay := eng.Define(einmal.Policy{Name: "pay", Owner: "payments@example.com"})
	call := einmal.Call{Caller: einmal.Caller{Tenant: "acme", Principal: "shop"}, Key: "order-17"}
	do := func() error {
		_, err := einmal.Do(ctx, pay, call, func(context.Context, string) (string, error) {
			return "", errors.New("connection reset by the bank")
		})
		return err
	}

	var p *einmal.Problem
	if errors.As(do(), &p) {
		fmt.Println(p.Kind, "next:", p.Next)
	}
	op, _ := eng.Get(ctx, p.ID)
	_, err = eng.Resolve(ctx, einmal.Resolution{
		ID: op.ID, Version: op.Version, As: einmal.ResolveWithdrawn, Actor: "eve", Reason: "the bank knows nothing of it",
	})
	fmt.Println("resolved:", err == nil)
	fmt.Println("withdrawn:", errors.Is(do(), einmal.ErrWithdrawn))
	// Output:
	// outcome-unclear next: resolve
	// resolved: true
	// withdrawn: true
}

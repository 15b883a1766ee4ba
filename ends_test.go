package einmal_test

import (
	"context"
	"testing"
	"time"

	"github.com/einmal-dev/einmal"
	"github.com/einmal-dev/einmal/contract"
	"github.com/einmal-dev/einmal/memstore"
)

// Clients rely on the defaults that package contract publishes, so they must be the engine's.
func TestTheDefaultEndsAreThePublishedOnes(t *testing.T) {
	t.Parallel()
	eng, err := einmal.New(einmal.Config{Store: memstore.New(), Log: discard})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := eng.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	for effect, e := range map[string]einmal.Effect{contract.EffectOpaque: einmal.Opaque(), contract.EffectKeyed: einmal.Keyed(time.Hour)} {
		op := eng.Define(einmal.Policy{Name: effect, Owner: "team@example.com", Effect: e})
		if got := op.Policy().Effect.Class().String(); got != effect {
			t.Errorf("class %q is published as %q", got, effect)
		}
		for status := 200; status <= 599; status++ {
			end, bound := op.End(status)
			if published := contract.DefaultEnd(effect, status); string(published) != end.String() || bound {
				t.Errorf("%s, %d: the engine says %v (bound %v), the contract %s", effect, status, end, bound, published)
			}
		}
	}
}

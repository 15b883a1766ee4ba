package einmal_test

import (
	"context"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/einmal-dev/einmal"
	"github.com/einmal-dev/einmal/memstore"
)

// BenchmarkRun is the engine's own cost of a new operation and of a replay, on a store that costs almost nothing.
func BenchmarkRun(b *testing.B) {
	for _, replay := range []bool{false, true} {
		b.Run(map[bool]string{false: "new", true: "replay"}[replay], func(b *testing.B) {
			eng, err := einmal.New(einmal.Config{Store: memstore.New(), Log: discard})
			if err != nil {
				b.Fatal(err)
			}
			defer eng.Close(context.Background())
			op := eng.Define(policy("order"))
			handler := func(context.Context) einmal.Ending { return success("x") }
			var n atomic.Int64
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					key := "k"
					if !replay {
						key = strconv.FormatInt(n.Add(1), 10)
					}
					if _, err := eng.Run(context.Background(), op, request(key), handler); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}

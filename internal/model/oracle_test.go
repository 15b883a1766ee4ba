package model_test

import (
	"context"
	"errors"
	"flag"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"

	"github.com/einmal-dev/einmal"
	"github.com/einmal-dev/einmal/internal/model"
	"github.com/einmal-dev/einmal/memstore"
	"github.com/einmal-dev/einmal/sqlitestore"
)

// makers are the stores that the engine is driven on.
var makers = []maker{
	{"memstore", func(_ *testing.T, clock einmal.Clock) func() einmal.Store {
		return memstore.NewStorage(memstore.Options{Clock: clock}).Open
	}},
	{"sqlitestore", func(t *testing.T, clock einmal.Clock) func() einmal.Store {
		path := filepath.Join(t.TempDir(), "einmal.db")
		return func() einmal.Store {
			s, err := sqlitestore.Open(context.Background(), path, sqlitestore.Options{Create: true, Clock: clock})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			})
			return s
		}
	}},
}

// init lets rapid shrink for as long as it likes: in a synctest bubble its time is the walks' own.
func init() {
	if err := flag.Set("rapid.shrinktime", "2h"); err != nil {
		panic(err)
	}
}

// TestTheEngineDoesWhatTheModelDoes walks at random: every event is one that the model allows, and after each the real record, the answers and the alarms
// must be the model's.
func TestTheEngineDoesWhatTheModelDoes(t *testing.T) {
	t.Parallel()
	for _, m := range makers {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, m)
				defer w.close(t)
				rapid.Check(noDeadline{t}, func(rt *rapid.T) {
					k := newWalk(t, w, rapid.SampledFrom([]model.Class{model.Opaque, model.Keyed}).Draw(rt, "class"), rapid.Bool().Draw(rt, "early"))
					defer k.close()
					for _, c := range choices.Draw(rt, "choices") {
						if err := errors.Join(k.next(c), k.meetStrangers()); err != nil {
							rt.Fatal(err)
						}
						if c.Which == 9 {
							if err := k.sweep(); err != nil {
								rt.Fatal(err)
							}
						}
					}
				})
			})
		})
	}
}

// TestTheEngineFollowsEveryEventOnEveryReachableRecord walks, on the memory store, until the engine has met every pair of a record and an event that the
// model can reach.
func TestTheEngineFollowsEveryEventOnEveryReachableRecord(t *testing.T) {
	t.Parallel()
	for class := range sizes {
		t.Run(class.String(), func(t *testing.T) {
			t.Parallel()
			if underRace && class == model.Keyed {
				t.Skip("the random walks are enough for the race detector")
			}
			report := explored[class]()
			synctest.Test(t, func(t *testing.T) { follow(t, class, report) })
		})
	}
}

func follow(t *testing.T, class model.Class, report *model.Report) {
	pairs := report.Pairs()
	seen := make(map[uint64]bool)
	var w *world
	walks, events := 0, 0
	for i := len(pairs) - 1; i >= 0; i-- { // the farthest first: their ways lead past nearer ones
		if seen[pairs[i]] {
			continue
		}
		if walks%100 == 0 {
			if w != nil {
				w.close(t)
			}
			w = newWorld(t, makers[0])
		}
		walks++
		k := newWalk(t, w, class, walks%2 == 0)
		err := k.along(report, seen, report.Way(i))
		events += len(k.trace)
		k.close()
		if err != nil {
			t.Error(err)
			break
		}
	}
	w.close(t)
	missing := 0
	for i, p := range pairs {
		if seen[p] {
			continue
		}
		missing++
		way := report.Way(i)
		if last := way[len(way)-1]; last.Kind != model.Requests && last.Kind != model.Hurries {
			t.Errorf("the engine never met: %v", way)
		}
	}
	t.Logf("%d pairs, %d not walked, %d walks, %d events", len(pairs), missing, walks, events)
}

// along goes a way to a pair that has not been seen, and on from there as long as there is something new.
func (k *walk) along(report *model.Report, seen map[uint64]bool, way []model.Event) error {
	for {
		edges := k.edges()
		at := slices.IndexFunc(edges, func(e model.Edge) bool {
			if len(way) > 0 {
				return e.Event == way[0]
			}
			pair := report.Pair(&k.state, e.Event)
			return pair != 0 && !seen[pair]
		})
		if at < 0 {
			return nil
		}
		seen[report.Pair(&k.state, edges[at].Event)] = true
		if err := k.follow(edges[at]); err != nil {
			return err
		}
		way = way[min(1, len(way)):]
	}
}

// choice picks one of the events that are possible: first a kind, then which of that kind. Kind 0 is none, so that rapid can shrink a walk to what matters.
type choice struct{ Kind, Which int }

var choices = rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) choice {
	return choice{rapid.IntRange(0, 99).Draw(rt, "kind"), rapid.IntRange(0, 9).Draw(rt, "which")}
}), 25, 60)

// next walks one event that the model allows, if there is one left.
func (k *walk) next(c choice) error {
	byKind := make(map[model.Kind][]model.Edge)
	var kinds []model.Kind // a kind is as likely as it is often here
	for _, e := range k.edges() {
		if byKind[e.Kind] == nil {
			kinds = append(kinds, slices.Repeat([]model.Kind{e.Kind}, 1+often[e.Kind])...)
		}
		byKind[e.Kind] = append(byKind[e.Kind], e)
	}
	if len(kinds) == 0 || c.Kind == 0 {
		return nil
	}
	can := byKind[kinds[c.Kind%len(kinds)]]
	return k.follow(can[c.Which%len(can)])
}

// often makes walks long before they end at a tombstone.
var often = map[model.Kind]int{
	model.Requests: 6, model.Sends: 3, model.Arrives: 4, model.Reports: 3, model.LeaseEnds: 3, model.Resolves: 3, model.GivesUp: 1, model.Offers: 1,
	model.TimeGoes: 1,
}

// noDeadline hides the test's deadline, which is in real time and must not be asked for inside a synctest bubble.
type noDeadline struct{ rapid.TB }

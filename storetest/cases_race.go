package storetest

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/einmal-dev/einmal"
)

const atomicRule = "a guard is checked and its change written in one atomic step, over all handles: whatever two writers do to one record must be what " +
	"one after the other would have done, or a takeover and a completion could both be told that they won"

var raceCases = []testCase{
	{
		name:  "any two writers of one record are one after the other",
		rule:  atomicRule,
		check: func(e *env) { e.run(e.races(allScenes(), pairs, rounds(10)), moment{}) },
	},
	{
		name:  "all writers of one record at once are one after the other",
		rule:  atomicRule,
		check: func(e *env) { e.run(e.races(allScenes(), everybody, rounds(20)), moment{}) },
	},
	{
		name: "purging and any other writer of one record are one after the other",
		rule: atomicRule + "; nor may Purge expire what was just started again",
		check: func(e *env) {
			for round := range rounds(16) {
				races := e.races(purgeableScenes(), each, 2)
				e.run(races, moment{purge: true}, func() error {
					yield(round % 8)
					_, err := e.handle(round).Purge(e.ctx, 1000)
					return err
				})
			}
		},
	},
	{
		name: "a lease is held or lost, never both",
		rule: "a renewal, a takeover and a completion that meet at the very end of a lease are one after the other: " +
			"a takeover must not win over a renewal that was acknowledged, nor the other way round",
		check: func(e *env) {
			for round := range rounds(8) {
				var races []*race
				for range atATime {
					rec := e.running()
					s := sceneOf(rec)
					rec.Now = rec.Now.Add(lease - time.Minute)
					races = append(races, &race{scene: "a running record at the end of its lease", start: rec, writers: []writer{
						{"a renewal", s.renewal()}, {"a takeover", s.takeover()}, {"a completion", s.completion()}, {"a renewal", s.renewal()},
					}})
				}
				e.maker.Advance(lease - time.Minute)
				e.run(races, moment{advance: 2 * time.Minute}, func() error {
					yield(round % 8)
					e.maker.Advance(2 * time.Minute)
					return nil
				})
			}
		},
	},
	{
		name: "of many completions one counts",
		rule: "of many that complete one attempt with different answers exactly one is told that it did, and its answer is the record's: " +
			"a completed answer never changes",
		check: func(e *env) {
			for range rounds(10) {
				rec := e.running()
				var mu sync.Mutex
				var won []string
				e.together(16, func(i int) error {
					c := toCompleted(rec, answer(strconv.Itoa(i)))
					c.Guard = einmal.Guard{State: einmal.StateRunning, Attempt: 1}
					_, err := e.handle(i).Apply(e.ctx, c)
					mu.Lock()
					defer mu.Unlock()
					if err == nil {
						won = append(won, strconv.Itoa(i))
					}
					return ignoreStale(err)
				})
				final := e.get(e.b, rec.ID)
				if len(won) != 1 || final.Result == nil || string(final.Result.Body) != won[0] || final.Version != 2 {
					e.fail("told that they completed it: %v; the record's answer is %s at version %d", won, bodyOf(final), final.Version)
				}
			}
		},
	},
	{
		name: "notes are never lost",
		rule: "notes of many writers are each one timeline entry and one escalation: evidence that was acknowledged is there",
		check: func(e *env) {
			const n = 24
			rec := e.running()
			e.together(n, func(i int) error {
				c := evidence(rec)
				c.DueIn, c.Entry.Reason = lease, strconv.Itoa(i)
				_, err := e.handle(i).Apply(e.ctx, c)
				return err
			})
			reasons := map[string]bool{}
			for _, entry := range e.timeline(e.b, rec.ID) {
				reasons[entry.Reason] = true
			}
			if got := e.get(e.a, rec.ID); len(reasons) != n || got.Escalations != n || got.Version != rec.Version {
				e.fail("%d notes: %d different timeline entries, %d escalations, version %d after %d", n, len(reasons), got.Escalations, got.Version, rec.Version)
			}
		},
	},
	{
		name: "a key is old or new while its tombstone is deleted",
		rule: "a Reserve that meets the deletion of its tombstone either finds it or creates the record anew, once, and what it was told created stays",
		check: func(e *env) {
			const n = 16
			requests := make([]einmal.Reservation, n)
			old := map[string]einmal.ID{}
			for i := range requests {
				requests[i] = e.request()
				rec := e.reserve(requests[i])
				e.apply(rec, toNotApplied(rec))
				old[rec.Key] = rec.ID
			}
			e.maker.Advance(window + slack)
			e.purge()
			e.maker.Advance(tombstone)
			var mu sync.Mutex
			created := map[string][]einmal.ID{}
			e.together(2*n+2, func(i int) error {
				if i >= 2*n {
					_, err := e.handle(i).Purge(e.ctx, 1000)
					return err
				}
				r := requests[i/2]
				rec, is, err := e.handle(i).Reserve(e.ctx, r)
				mu.Lock()
				defer mu.Unlock()
				if is {
					created[r.Key] = append(created[r.Key], rec.ID)
				} else if err == nil && rec.ID != old[r.Key] && rec.State != einmal.StateRunning {
					err = fmt.Errorf("found %s", describe(rec))
				}
				return err
			})
			e.purge()
			for _, r := range requests {
				switch ids := created[r.Key]; len(ids) {
				case 0:
					e.noRow("a deleted tombstone that nobody reserved again", r.Identity)
				case 1:
					if got := e.get(e.b, ids[0]); got.Identity != r.Identity || got.State != einmal.StateRunning || ids[0] <= old[r.Key] {
						e.see("created as %d after %d, and there is %s", ids[0], old[r.Key], describe(got))
					}
				default:
					e.see("%d callers were told that they created the record", len(ids))
				}
			}
		},
	},
}

// rounds multiplies n by EINMAL_STORETEST_ROUNDS, for a long night.
func rounds(n int) int {
	if more, err := strconv.Atoi(os.Getenv("EINMAL_STORETEST_ROUNDS")); err == nil && more > 1 {
		return n * more
	}
	return n
}

func ignoreStale(err error) error {
	if errors.Is(err, einmal.ErrStale) {
		return nil
	}
	return err
}

// scene is a record in a state, and makes the writers that such a record may meet.
type scene struct{ einmal.Record }

func sceneOf(rec einmal.Record) scene { return scene{rec} }

// An attempt's own end: fenced by state and attempt.
func (s scene) completion() *einmal.Change {
	c := toCompleted(s.Record, answer("by the attempt "+fmt.Sprint(nonce()[0])))
	c.Guard = einmal.Guard{State: einmal.StateRunning, Attempt: s.Attempt}
	c.Recognise = keep
	return &c
}

func (s scene) renewal() *einmal.Change {
	c := renewal(s.Record)
	return &c
}

func (s scene) takeover() *einmal.Change {
	c := toUnclear(s.Record)
	c.Guard = einmal.Guard{State: einmal.StateRunning, Attempt: s.Attempt, LeaseLapsed: true}
	c.Entry = entry(s.Record, einmal.EventUnclear)
	return &c
}

func (s scene) restart() *einmal.Change {
	c := toRunning(s.Record)
	c.Guard.MaxAge = 20 * time.Hour
	c.Entry = entry(s.Record, einmal.EventStarted)
	c.Recognise = window
	return &c
}

// An earlier attempt's success.
func (s scene) lateTruth() *einmal.Change {
	c := toCompleted(s.Record, answer("late"))
	c.Guard = einmal.Guard{State: s.State, Version: s.Version}
	c.Entry = entry(s.Record, einmal.EventLateTruth)
	c.Ends = withEnd(s.Record, einmal.AttemptEnd{Attempt: 1, End: einmal.EndSuccess})
	c.Recognise = keep
	return &c
}

// An earlier attempt's word while another runs: only its end is kept.
func (s scene) earlierWord() *einmal.Change {
	c := to(s.Record, einmal.StateRunning)
	c.Guard = einmal.Guard{State: einmal.StateRunning, Version: s.Version}
	c.Ends = withEnd(s.Record, einmal.AttemptEnd{Attempt: 1, End: einmal.EndOpen})
	c.Entry = entry(s.Record, einmal.EventLateTruth)
	return &c
}

// A person's word: fenced by version.
func (s scene) resolve() *einmal.Change {
	c := toNotApplied(s.Record)
	if s.State == einmal.StateNotApplied {
		c = toCompleted(s.Record, nil)
		c.Verdict = einmal.VerdictWithdrawn
	}
	c.Guard = einmal.Guard{State: s.State, Version: s.Version}
	c.Entry = entry(s.Record, einmal.EventResolved)
	c.Recognise = keep
	return &c
}

func (s scene) note() *einmal.Change {
	c := evidence(s.Record)
	c.Attention = true
	if s.State.Open() {
		c.DueIn = lease
	}
	return &c
}

// writers are those that would be applied if they were alone.
func (s scene) writers() []writer {
	ws := []writer{{"a note", s.note()}}
	held := !s.Lapsed()
	switch s.State {
	case einmal.StateRunning:
		ws = append(ws, writer{"a completion", s.completion()})
		if held {
			ws = append(ws, writer{"a renewal", s.renewal()})
		} else {
			ws = append(ws, writer{"a takeover", s.takeover()})
		}
		if s.Attempt > 1 {
			ws = append(ws, writer{"a late truth", s.lateTruth()}, writer{"an earlier attempt's word", s.earlierWord()})
		}
	case einmal.StateUnclear, einmal.StateNotApplied:
		ws = append(ws, writer{"a restart", s.restart()}, writer{"a late truth", s.lateTruth()}, writer{"a resolution", s.resolve()})
	}
	return ws
}

// setting is how a record that writers meet came to be.
type setting struct {
	name   string
	lease  time.Duration // what is a minute is over when the race begins
	window time.Duration
	steps  []func(einmal.Record) einmal.Change
}

func allScenes() []setting {
	done := func(rec einmal.Record) einmal.Change { return toCompleted(rec, answer("first")) }
	type steps = []func(einmal.Record) einmal.Change
	return []setting{
		{"running", 10 * lease, 20 * time.Hour, nil},
		{"running, lease lost", time.Minute, 20 * time.Hour, nil},
		{"running again", 10 * lease, 20 * time.Hour, steps{toUnclear, toRunning}},
		{"running again, lease lost", time.Minute, 20 * time.Hour, steps{toUnclear, toRunning}},
		{"unclear", lease, 20 * time.Hour, steps{toUnclear}},
		{"not applied", lease, 20 * time.Hour, steps{toNotApplied}},
		{"completed", lease, 20 * time.Hour, steps{done}},
		{"not applied, window over", lease, time.Minute, steps{toNotApplied}},
		{"completed, window over", lease, time.Minute, steps{done}},
	}
}

func purgeableScenes() []setting {
	return slices.DeleteFunc(allScenes(), func(s setting) bool { return s.window != time.Minute })
}

// pairs are all pairs of writers, each with itself too.
func pairs(ws []writer) (all [][]int) {
	for i := range ws {
		for j := i; j < len(ws); j++ {
			all = append(all, []int{i, j})
		}
	}
	return all
}

// everybody is all writers at once.
func everybody(ws []writer) [][]int {
	all := make([]int, len(ws))
	for i := range all {
		all[i] = i
	}
	return [][]int{all}
}

// each is every writer alone.
func each(ws []writer) (all [][]int) {
	for i := range ws {
		all = append(all, []int{i})
	}
	return all
}

// yield lets others go first, the more the larger n is.
func yield(n int) {
	for range n {
		runtime.Gosched()
	}
}

// pass is how long before a race its records are made.
const pass = 5 * time.Minute

// races prepares repeat records for each combination of writers, and lets some time pass.
func (e *env) races(settings []setting, combine func([]writer) [][]int, repeat int) []*race {
	var races []*race
	var combos [][]int
	for _, s := range settings {
		r := e.request()
		r.Terms.Lease, r.Terms.Window = s.lease, s.window
		trial, err := e.prepared(e.a, r, s.steps)
		e.must(err, "preparing a record")
		trial.Now = trial.Now.Add(pass)
		own := slices.Repeat(combine(sceneOf(trial).writers()), repeat)
		requests := make([]einmal.Reservation, len(own))
		for i := range requests {
			requests[i] = e.request()
			requests[i].Terms = r.Terms
		}
		made := make([]*race, len(own))
		e.together(atATime, func(worker int) error {
			for i := worker; i < len(made); i += atATime {
				rec, err := e.prepared(e.handle(i), requests[i], s.steps)
				if err != nil {
					return err
				}
				made[i] = &race{scene: s.name, start: rec}
			}
			return nil
		})
		races, combos = append(races, made...), append(combos, own...)
	}
	e.maker.Advance(pass)
	for i, r := range races {
		r.start.Now = r.start.Now.Add(pass)
		for _, w := range combos[i] {
			r.writers = append(r.writers, sceneOf(r.start).writers()[w]) // made anew: each has a nonce of its own
		}
	}
	return races
}

func (e *env) prepared(s einmal.Store, r einmal.Reservation, steps []func(einmal.Record) einmal.Change) (einmal.Record, error) {
	rec, _, err := s.Reserve(e.ctx, r)
	for _, step := range steps {
		if err == nil {
			rec, err = s.Apply(e.ctx, step(rec))
		}
	}
	return rec, err
}

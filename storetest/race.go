package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/einmal-dev/einmal"
)

// race is several writers on one record at once. Whatever happens must be what some order of them, one after the other, would have done: then no writer
// was told a success that the record contradicts, and no transition was lost or counted twice.
type race struct {
	scene   string
	start   einmal.Record
	writers []writer
	said    []word // what each writer was told
	final   einmal.Record
	entries int
}

// writer is one kind of change to a record that is in a state for it.
type writer struct {
	name   string
	change *einmal.Change
}

// word is what a store told a writer.
type word struct {
	rec einmal.Record
	err error
}

// run lets the writers go at once when the gate opens, over two handles, and then looks at the record.
func (r *race) run(ctx context.Context, handles [2]einmal.Store, gate <-chan struct{}) error {
	r.said = make([]word, len(r.writers))
	var done sync.WaitGroup
	for i, w := range r.writers {
		s := handles[i%2]
		done.Go(func() {
			<-gate
			r.said[i].err = guarded(func() (err error) {
				r.said[i].rec, err = s.Apply(ctx, *w.change)
				return err
			})
		})
	}
	done.Wait()
	var err error
	if r.final, err = handles[0].Get(ctx, einmal.Ref{ID: r.start.ID}); err != nil {
		return fmt.Errorf("after the race, Get: %w", err)
	}
	entries, err := handles[1].Timeline(ctx, r.start.ID)
	r.entries = len(entries)
	return err
}

// moment is a point in an order of the writers.
type moment struct {
	rec     einmal.Record
	entries int
	left    []int         // writers that have not had their turn
	advance time.Duration // how far the clock still moves
	purge   bool          // Purge may come
}

// explained reports whether some order of the writers gives what was seen.
func (r *race) explained(m moment) bool {
	if len(m.left) == 0 && m.entries == r.entries && alike(r.final, m.rec) {
		return true
	}
	for i, w := range m.left {
		next, ok := r.turn(m, w)
		if ok {
			next.left = slices.Delete(slices.Clone(m.left), i, i+1)
			if r.explained(next) {
				return true
			}
		}
	}
	if m.advance != 0 {
		next := m
		next.rec.Now, next.advance = m.rec.Now.Add(m.advance), 0
		if r.explained(next) {
			return true
		}
	}
	if m.purge && !m.rec.State.Open() && m.rec.State != einmal.StateExpired && !m.rec.RecognisedUntil.After(m.rec.Now) {
		next := m
		next.rec, next.purge = expired(m.rec, m.rec.Now), false
		return r.explained(next)
	}
	return false
}

// turn gives one writer its turn, and reports whether it was told what it should have been.
func (r *race) turn(m moment, w int) (after moment, ok bool) {
	said, c := r.said[w], r.writers[w].change
	if !c.Guard.Holds(&m.rec) {
		var stale *einmal.StaleError
		return m, errors.As(said.err, &stale) && alike(stale.Record, m.rec)
	}
	if said.err != nil {
		return m, false
	}
	m.rec = changed(m.rec, *c, m.rec.Now)
	if c.Entry != nil {
		m.entries++
	}
	return m, alike(said.rec, m.rec)
}

func alike(got, want einmal.Record) bool {
	return got.Version == want.Version && got.State == want.State && got.Nonce == want.Nonce && len(differences(got, want)) == 0
}

func (r *race) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %s:", r.scene, describe(r.start))
	for i, w := range r.writers {
		told := "done, " + describe(r.said[i].rec)
		var stale *einmal.StaleError
		switch err := r.said[i].err; {
		case errors.As(err, &stale):
			told = "stale, " + describe(stale.Record)
		case err != nil:
			told = err.Error()
		}
		fmt.Fprintf(&b, " %s was told: %s;", w.name, told)
	}
	fmt.Fprintf(&b, " afterwards there is %s with verdict %q, result %v, %d timeline entries, escalations %d: no order of the writers explains that",
		describe(r.final), r.final.Verdict, bodyOf(r.final), r.entries, r.final.Escalations)
	return b.String()
}

func bodyOf(rec einmal.Record) string {
	if rec.Result == nil {
		return "none"
	}
	return fmt.Sprintf("%q", rec.Result.Body)
}

// atATime is how many races run at once.
const atATime = 16

// run runs races, several at a time, and tells of those that no order explains. Something that all records feel may happen among the first ones.
func (e *env) run(races []*race, m moment, also ...func() error) {
	var mu sync.Mutex
	failed := 0
	for some := range slices.Chunk(races, atATime) {
		gate := make(chan struct{})
		var wg sync.WaitGroup
		for _, f := range also {
			wg.Go(func() {
				<-gate
				if err := guarded(f); err != nil {
					mu.Lock()
					defer mu.Unlock()
					e.see("%v", err)
				}
			})
		}
		also = nil
		for _, r := range some {
			wg.Go(func() {
				err := guarded(func() error { return r.run(e.ctx, [2]einmal.Store{e.a, e.b}, gate) })
				begin := m
				begin.rec, begin.left = r.start, make([]int, len(r.writers))
				for i := range begin.left {
					begin.left[i] = i
				}
				if err == nil && r.explained(begin) {
					return
				}
				mu.Lock()
				defer mu.Unlock()
				failed++
				if err != nil {
					e.see("%s: %v", r.scene, err)
					return
				}
				e.see("%v", r)
			})
		}
		close(gate)
		wg.Wait()
		if failed >= 3 {
			return
		}
	}
}

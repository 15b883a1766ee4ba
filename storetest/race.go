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

// writer is one kind of change to a record that is in a state for it. Its change is nil where it is Purge.
type writer struct {
	name   string
	change *einmal.Change
}

// word is what a store told a writer.
type word struct {
	rec einmal.Record
	err error
}

// run lets the writers go at once, each over a handle of its own, and then looks at the record.
func (r *race) run(ctx context.Context, handles [2]einmal.Store) error {
	r.said = make([]word, len(r.writers))
	var done sync.WaitGroup
	start := make(chan struct{})
	for i, w := range r.writers {
		s := handles[i%2]
		done.Go(func() {
			<-start
			if w.change == nil {
				_, r.said[i].err = s.Purge(ctx, 1000)
				return
			}
			r.said[i].rec, r.said[i].err = s.Apply(ctx, *w.change)
		})
	}
	close(start)
	done.Wait()
	var err error
	if r.final, err = handles[0].Get(ctx, einmal.Ref{ID: r.start.ID}); err != nil {
		return fmt.Errorf("Get after the race: %w", err)
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
	purge   bool          // some Purge, anybody's, may come at any time
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
		next.rec = expired(m.rec, m.rec.Now)
		return r.explained(next)
	}
	return false
}

// turn gives one writer its turn, and reports whether it was told what it should have been.
func (r *race) turn(m moment, w int) (after moment, ok bool) {
	said, c := r.said[w], r.writers[w].change
	if c == nil {
		return m, said.err == nil
	}
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
		case w.change == nil:
			told = "done"
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

// run runs races, and tells of the first few that no order explains.
func (e *env) run(races []*race, m moment) {
	var wg sync.WaitGroup
	var mu sync.Mutex
	slots := make(chan struct{}, atATime)
	failed := 0
	for _, r := range races {
		slots <- struct{}{}
		mu.Lock()
		enough := failed >= 3
		mu.Unlock()
		if enough {
			break
		}
		wg.Go(func() {
			defer func() { <-slots }()
			err := r.run(e.ctx, [2]einmal.Store{e.a, e.b})
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
	wg.Wait()
}

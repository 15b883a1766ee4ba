package model_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/einmal-dev/einmal"
	"github.com/einmal-dev/einmal/contract"
	"github.com/einmal-dev/einmal/internal/model"
)

// walk drives one real operation along the model's edges.
type walk struct {
	t     *testing.T
	w     *world
	rules model.Rules
	key   string
	state model.State
	trace []model.Edge

	attempts [model.Attempts]*attempt
	early    bool             // attempts speak as soon as they know, and the line holds what they say until the model lets it arrive
	looked   einmal.Operation // what the person saw
	far      bool             // the clock is beyond the window: phases are over
}

// attempt is the handler of a real attempt, held until the model lets it speak.
type attempt struct {
	word    chan einmal.Ending
	heard   chan heard
	spoken  bool // its handler has returned
	offered bool // it has spoken, and its engine does not know that the store heard it
	alarm   bool // what was then heard calls for an alarm
}

type heard struct {
	out einmal.Outcome
	err error
}

func newWalk(t *testing.T, w *world, class model.Class, early bool) *walk {
	w.keys++
	return &walk{t: t, w: w, early: early, rules: model.Rules{Class: class, MaxAttempts: model.Attempts}, key: fmt.Sprintf("k%d", w.keys)}
}

// close lets every handler that is still held go.
func (k *walk) close() {
	for n, a := range k.attempts {
		if a == nil {
			continue
		}
		k.w.workers[n].line.set(whole)
		if !a.spoken {
			close(a.word)
		}
		if a.offered {
			k.offers()
		} else {
			<-a.heard
		}
	}
	k.w.takeAlarms()
}

// edges are the model's next edges that can be walked: the real operation has no fourth attempt to run, and no way to hurry when no backoff is left.
func (k *walk) edges() []model.Edge {
	var can []model.Edge
	r := &k.state.Record
	for _, e := range k.rules.Next(k.state, nil) {
		switch {
		case e.Kind == model.Requests && r.Status == model.NotApplied && e.To == k.state,
			e.Kind == model.Hurries && r.Status == model.Unclear && !k.fresh():
		default:
			can = append(can, e)
		}
	}
	return can
}

// fresh reports whether the record's last change was just now, by the store's clock.
func (k *walk) fresh() bool {
	rec, err := k.record()
	return err == nil && rec.Now.Sub(rec.Changed) < backoff
}

func (k *walk) record() (einmal.Record, error) {
	return k.w.store.Get(context.Background(), einmal.Ref{Identity: einmal.Identity{Tenant: "t", Operation: k.rules.Class.String(), Key: k.key}})
}

// follow makes an edge's event happen to the real operation and compares what came of it with the model. The error tells the difference.
func (k *walk) follow(e model.Edge) error {
	before, _ := k.record()
	k.trace = append(k.trace, e)
	stale := k.looked
	if err := k.happen(&e, &before); err != nil {
		return fmt.Errorf("%w\n%s", err, k)
	}
	dropped := k.state.Says != model.SaysNothing && e.To.Says == model.SaysNothing && e.Kind != model.Resolves
	k.state = e.To
	if k.early {
		k.speakEarly()
	}
	if err := k.compare(&before); err != nil {
		return fmt.Errorf("%w\n%s", err, k)
	}
	if dropped {
		if err := k.mustBeStale(stale); err != nil {
			return fmt.Errorf("%w\n%s", err, k)
		}
	}
	return nil
}

func (k *walk) String() string {
	v := model.Violation{Invariant: "the engine does what the model does", Trace: k.trace}
	return v.String()
}

func (k *walk) happen(e *model.Edge, before *einmal.Record) error {
	switch e.Kind {
	case model.Requests, model.Hurries:
		if since := before.Now.Sub(before.Changed); e.Kind == model.Requests && before.State == einmal.StateUnclear && since < backoffOver {
			k.w.clock.Advance(backoffOver - since)
		}
		if e.To.Record.Attempt > k.state.Record.Attempt {
			return k.begin(e.To.Record.Attempt)
		}
		return k.ask(e)
	case model.Reports, model.Offers:
		return k.speak(e)
	case model.Renews:
		time.Sleep(lease/3 + time.Second) // every engine renews what it runs; the store's clock stands
		synctest.Wait()
	case model.LeaseEnds:
		k.w.clock.Advance(before.LeaseUntil.Sub(before.Now))
	case model.Recovers:
		eng, _ := k.w.newEngine(k.t, k.w.open()) // a new node's loop looks at what is due at once
		synctest.Wait()
		return eng.Close(context.Background())
	case model.TimeGoes:
		return k.timeGoes(e, before)
	case model.Looks:
		var err error
		k.looked, err = k.w.asked.Find(context.Background(), before.Identity)
		return err
	case model.Resolves:
		return k.resolve(e)
	case model.Purges:
		k.far = true
		over := before.RecognisedUntil
		if before.State == einmal.StateExpired {
			over = over.Add(before.Terms.Tombstone)
		}
		k.w.clock.Advance(max(0, over.Sub(before.Now)))
		_, err := k.w.store.Purge(context.Background(), 1000)
		return err
	}
	return nil // the world's business, of which the record learns nothing
}

// begin sends a request that must start attempt n, and holds its handler.
func (k *walk) begin(n uint8) error {
	a := &attempt{word: make(chan einmal.Ending), heard: make(chan heard, 1)}
	began := make(chan error, 1)
	w := k.w.workers[n-1]
	go func() {
		out, err := w.engine.Run(context.Background(), w.ops[k.rules.Class], request(k.key), func(ctx context.Context) einmal.Ending {
			began <- ctx.Err()
			if word, ok := <-a.word; ok {
				return word
			}
			return einmal.Ending{End: einmal.EndOpen}
		})
		a.heard <- heard{out, err}
	}()
	select {
	case err := <-began:
		k.attempts[n-1] = a
		if err != nil {
			return fmt.Errorf("attempt %d begins with a context that has ended: %w", n, err)
		}
	case h := <-a.heard:
		return fmt.Errorf("the request did not start attempt %d but got %+v, %w", n, h.out, h.err)
	}
	return nil
}

// ask sends a request that must not start anything.
func (k *walk) ask(e *model.Edge) error {
	ran := false
	out, err := k.w.asked.Run(context.Background(), k.w.askedOp[k.rules.Class], request(k.key), func(context.Context) einmal.Ending {
		ran = true
		return einmal.Ending{End: einmal.EndOpen}
	})
	if ran {
		return errors.New("the request ran")
	}
	return told(e, heard{out, err}, 0)
}

// meetStrangers sends requests that must learn nothing and change nothing: another principal's, and one with other parameters.
func (k *walk) meetStrangers() error {
	if s := k.state.Record.Status; s == model.Absent || s == model.Deleted {
		return nil
	}
	theirs, other := request(k.key), request(k.key)
	theirs.Principal = "q"
	other.Parts.Body = []byte(`{"amount":2}`)
	for want, req := range map[contract.Kind]einmal.Request{contract.NotYours: theirs, contract.KeyReused: other} {
		_, err := k.w.asked.Run(context.Background(), k.w.askedOp[k.rules.Class], req, func(context.Context) einmal.Ending {
			return einmal.Ending{End: einmal.EndSuccess}
		})
		var p *einmal.Problem
		if !errors.As(err, &p) || p.Kind != want || p.ID != "" {
			return fmt.Errorf("a stranger, who must get %s, got %v\n%s", want, err, k)
		}
	}
	before, _ := k.record()
	return k.compare(&before)
}

// sweep lets far more time pass than any window and purges: an open record must stay. A keyed one's phases would be over, so it is left alone.
func (k *walk) sweep() error {
	r := &k.state.Record
	if k.rules.Class != model.Opaque || r.Status != model.Unclear && !r.Lapsed {
		return nil
	}
	before, _ := k.record()
	k.w.clock.Advance(2 * (window + tombstone))
	if _, err := k.w.store.Purge(context.Background(), 1000); err != nil {
		return err
	}
	if err := k.compare(&before); err != nil {
		return fmt.Errorf("after purging: %w\n%s", err, k)
	}
	return nil
}

// say lets the handler return with what its attempt holds, unless it has.
func (a *attempt) say(n uint8, holds model.Attempt) {
	if a.spoken {
		return
	}
	a.spoken = true
	end := map[model.Word]einmal.End{
		model.Open: einmal.EndOpen, model.NoEffect: einmal.EndNoEffect, model.Refused: einmal.EndRefused, model.Success: einmal.EndSuccess,
	}[holds.Holds]
	a.word <- einmal.Ending{End: end, Bound: holds.Bound, Result: resultOf(n, holds.Holds, holds.Bound)}
}

// speakEarly lets every attempt that knows how it ended say so. Its engine decides on the record as it is now, and the store gets that decision later.
func (k *walk) speakEarly() {
	for i, a := range k.attempts {
		if a != nil && !a.spoken && k.state.Attempts[i].Doing == model.Holding {
			k.w.workers[i].line.set(held)
			a.say(uint8(i+1), k.state.Attempts[i])
			synctest.Wait()
		}
	}
}

// speak lets an attempt say what it holds.
func (k *walk) speak(e *model.Edge) error {
	n := e.Attempt
	a, line := k.attempts[n-1], k.w.workers[n-1].line
	k.w.takeAlarms()
	line.set(map[model.Kind]lineState{model.Reports: whole, model.Offers: cutAfter}[e.Kind])
	var h heard
	if a.offered {
		k.offers()
	} else {
		a.say(n, k.state.Attempts[n-1])
		h = <-a.heard
	}
	defer func() { a.offered = a.offered || e.Kind == model.Offers }()
	if e.Kind == model.Offers {
		a.alarm = a.alarm || e.Alarm // it may come now, or when the engine learns that it was heard
		if got := line.get(); got != cut {
			return errors.New("the engine wrote nothing")
		}
		a.alarm = a.alarm && k.w.takeAlarms() == 0
		return nil
	}
	if alarm := k.w.takeAlarms() > 0; alarm != (e.Alarm || a.alarm) {
		return fmt.Errorf("alarm: %v", alarm)
	}
	k.attempts[n-1] = nil
	if a.offered {
		return nil // its caller went away with an unrecorded answer
	}
	return told(e, h, n)
}

// offers waits until every engine has offered again what it could not store.
func (k *walk) offers() {
	time.Sleep(2 * time.Second)
	synctest.Wait()
}

// timeGoes moves the store's clock into the operation's next phase. An attempt that holds its lease keeps it.
func (k *walk) timeGoes(e *model.Edge, before *einmal.Record) error {
	if k.far {
		return nil
	}
	age := map[model.Phase]time.Duration{model.Closed: partnerWindow - deadline - lease, model.Past: partnerWindow}[e.To.Phase] + time.Second
	left := age - before.Now.Sub(before.Created)
	if left <= 0 {
		return fmt.Errorf("the test's clock is already %v beyond this phase", -left)
	}
	if before.State != einmal.StateRunning || before.Lapsed() {
		k.w.clock.Advance(left)
		return nil
	}
	for left > 0 {
		step := min(left, lease/2)
		left -= step
		k.w.clock.Advance(step)
		if _, err := k.w.store.Apply(context.Background(), einmal.Change{
			ID: before.ID, Kind: einmal.Renewal, LeaseFor: lease,
			Guard: einmal.Guard{State: einmal.StateRunning, Attempt: before.Attempt, LeaseHeld: true},
		}); err != nil {
			return err
		}
	}
	return nil
}

var resolveAs = map[model.Statement]einmal.ResolveAs{
	model.SaysApplied: einmal.ResolveApplied, model.SaysNotApplied: einmal.ResolveNotApplied, model.SaysWithdrawn: einmal.ResolveWithdrawn,
}

func resolution(op einmal.Operation, as einmal.ResolveAs) einmal.Resolution {
	return einmal.Resolution{ID: op.ID, Version: op.Version, As: as, Actor: "eve", Reason: "she knows", AcceptLive: true}
}

func (k *walk) resolve(e *model.Edge) error {
	_, err := k.w.asked.Resolve(context.Background(), resolution(k.looked, resolveAs[e.Statement]))
	var stale *einmal.StaleError
	if errors.As(err, &stale) { // a word was written that changed nothing but the version: the person looks again
		k.looked.Version = stale.Record.Version
		_, err = k.w.asked.Resolve(context.Background(), resolution(k.looked, resolveAs[e.Statement]))
	}
	return err
}

// mustBeStale checks that a person's statement on an old version is refused.
func (k *walk) mustBeStale(looked einmal.Operation) error {
	for _, as := range resolveAs {
		if _, err := k.w.asked.Resolve(context.Background(), resolution(looked, as)); !errors.Is(err, einmal.ErrStale) && !errors.Is(err, einmal.ErrNotFound) {
			return fmt.Errorf("a statement on version %d, which is over, got %v", looked.Version, err)
		}
	}
	return nil
}

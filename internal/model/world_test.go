package model_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/einmal-dev/einmal"
	"github.com/einmal-dev/einmal/fingerprint"
	"github.com/einmal-dev/einmal/internal/model"
	"github.com/einmal-dev/einmal/storetest"
)

// The real operations' terms. The store's clock stands still unless the test moves it, so every phase of the model has its place: early is the first 7 minutes,
// with room for three lost leases, and the partner's window ends after 16.
const (
	deadline      = 8 * time.Minute
	lease         = time.Minute
	partnerWindow = 16 * time.Minute
	window        = 2 * time.Hour
	tombstone     = 3 * time.Hour
	never         = 1_000_000 * time.Hour
	backoff       = time.Second
	backoffOver   = 10 * backoff
)

// boundStatus is kept by the partner under the key.
const boundStatus = 402

// maker opens handles on one storage, whose clock is given.
type maker struct {
	name string
	open func(t *testing.T, clock einmal.Clock) (handle func() einmal.Store)
}

// world is the real thing: three engines that run one attempt each, and one that is asked and resolves. All must be made inside a synctest bubble.
type world struct {
	clock   *storetest.Clock
	open    func() einmal.Store
	store   einmal.Store
	asked   *einmal.Engine
	askedOp map[model.Class]*einmal.Op
	workers [model.Attempts]*worker
	keys    int

	mu     sync.Mutex
	alarms int
}

// worker is an engine that runs attempts of one number, over a store that can be cut off.
type worker struct {
	line   *line
	engine *einmal.Engine
	ops    map[model.Class]*einmal.Op
}

func newWorld(t *testing.T, m maker) *world {
	t.Helper()
	w := &world{clock: storetest.NewClock()}
	w.open = m.open(t, w.clock.Read)
	w.store = w.open()
	w.asked, w.askedOp = w.newEngine(t, w.store)
	shared := w.open()
	for i := range w.workers {
		l := &line{Store: shared}
		eng, ops := w.newEngine(t, l)
		w.workers[i] = &worker{line: l, engine: eng, ops: ops}
	}
	synctest.Wait() // every engine's loop has looked at the empty store
	return w
}

func (w *world) newEngine(t *testing.T, store einmal.Store) (*einmal.Engine, map[model.Class]*einmal.Op) {
	t.Helper()
	eng, err := einmal.New(einmal.Config{
		Store: store, Log: slog.New(slog.NewTextHandler(io.Discard, nil)), Observe: w.observe, RecordGrace: time.Nanosecond, Poll: never,
	})
	if err != nil {
		t.Fatal(err)
	}
	rules := einmal.Rules{MaxAttempts: model.Attempts, Backoff: backoff, UnclearDeadline: never, Tombstone: tombstone, KeepResult: time.Minute}
	policy := einmal.Policy{Owner: "o@example.com", Window: window, Deadline: deadline, Lease: lease}
	opaque, keyed := policy, policy
	opaque.Name, opaque.Rules = "opaque", &rules
	boundRules := rules
	boundRules.BoundToKey = []int{boundStatus}
	keyed.Name, keyed.Rules, keyed.Effect = "keyed", &boundRules, einmal.Keyed(partnerWindow)
	return eng, map[model.Class]*einmal.Op{model.Opaque: eng.Define(opaque), model.Keyed: eng.Define(keyed)}
}

// close ends the engines.
func (w *world) close(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	engines := []*einmal.Engine{w.asked}
	for _, worker := range w.workers {
		worker.line.set(whole)
		engines = append(engines, worker.engine)
	}
	for _, e := range engines {
		if err := e.Close(ctx); err != nil {
			t.Error(err)
		}
	}
}

// observe counts alarms that speak of a contradiction.
func (w *world) observe(_ context.Context, ev einmal.Event) {
	if ev.Alarm && ev.Name != einmal.EventUnrecorded && ev.Name != einmal.EventEscalated {
		w.mu.Lock()
		w.alarms++
		w.mu.Unlock()
	}
}

func (w *world) takeAlarms() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := w.alarms
	w.alarms = 0
	return n
}

// line is a worker's way to the store.
type line struct {
	einmal.Store
	mu      sync.Mutex
	state   lineState
	changed chan struct{} // closed when the state changes
}

type lineState int

const (
	whole    lineState = iota
	held               // what is sent arrives when the line is whole again, and may be out of date by then
	cutAfter           // the next change is made, but its answer is lost, and then the line is cut
	cut                // nothing gets through
)

var errCut = errors.New("the line to the store is cut")

func (l *line) set(s lineState) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state = s
	if l.changed != nil {
		close(l.changed)
	}
	l.changed = make(chan struct{})
}

// get waits while the line is held.
func (l *line) get() lineState {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.state == held {
		changed := l.changed
		l.mu.Unlock()
		<-changed
		l.mu.Lock()
	}
	return l.state
}

func (l *line) Apply(ctx context.Context, c einmal.Change) (einmal.Record, error) {
	ctx = context.WithoutCancel(ctx) // what was sent arrives, however long the line holds it
	state := l.get()
	if state == cut {
		return einmal.Record{}, errCut
	}
	rec, err := l.Store.Apply(ctx, c)
	if state == cutAfter && err == nil && c.Kind != einmal.Renewal {
		l.set(cut)
		return einmal.Record{}, errCut
	}
	return rec, err
}

func (l *line) Get(ctx context.Context, ref einmal.Ref) (einmal.Record, error) {
	if l.get() == cut {
		return einmal.Record{}, errCut
	}
	return l.Store.Get(ctx, ref)
}

func request(key string) einmal.Request {
	return einmal.Request{
		Caller: einmal.Caller{Tenant: "t", Principal: "p"}, Key: key,
		Parts: fingerprint.Parts{Method: "POST", Body: []byte(`{"amount":1}`)},
	}
}

// answerOf reads from a result whose answer it is.
func answerOf(verdict einmal.Verdict, r *einmal.Result) (model.Answer, error) {
	a := model.Answer{Verdict: map[einmal.Verdict]model.Verdict{
		einmal.NoVerdict: model.NoVerdict, einmal.VerdictApplied: model.Applied, einmal.VerdictRefused: model.Rejected, einmal.VerdictWithdrawn: model.Withdrawn,
	}[verdict]}
	if r == nil || r.Kept == einmal.KeptUnknown {
		return a, nil
	}
	if _, err := fmt.Sscanf(string(r.Body), "attempt %d", &a.From); err != nil {
		return a, fmt.Errorf("the answer %q is no attempt's: %w", r.Body, err)
	}
	return a, nil
}

// resultOf is what attempt n's handler answers.
func resultOf(n uint8, word model.Word, bound bool) *einmal.Result {
	r := &einmal.Result{Body: fmt.Appendf(nil, "attempt %d", n)}
	switch {
	case word == model.Success:
		r.Status = 201
	case bound:
		r.Status = boundStatus
	case word == model.Refused:
		r.Status = 422
	default:
		return nil
	}
	return r
}

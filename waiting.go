package einmal

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/einmal-dev/einmal/contract"
)

// How often a waiter looks at the store, for attempts of other processes.
const (
	firstLook = 50 * time.Millisecond
	lastLook  = time.Second
)

// wait holds a duplicate until the running attempt ends or the time is over. It holds nothing of the store meanwhile.
func (c *call) wait(ctx context.Context, rec Record) (Record, error) {
	woken := c.waitFor(rec.ID)
	defer c.forget(rec.ID, woken)
	over := time.NewTimer(c.req.Wait)
	defer over.Stop()
	look := firstLook
	for {
		timer := time.NewTimer(look)
		last := false
		select {
		case <-ctx.Done():
			timer.Stop()
			return Record{}, context.Cause(ctx)
		case <-over.C:
			last = true
		case <-woken:
		case <-timer.C:
		}
		timer.Stop()
		storeCtx, cancel := storeContext(ctx)
		now, err := c.store.Get(storeCtx, Ref{ID: rec.ID})
		cancel()
		if err != nil {
			p := contract.NewProblem(contract.StoreUnavailable, "")
			p.Cause = err
			return Record{}, c.refuse(ctx, nil, p, retryStore)
		}
		if last || now.State != StateRunning || now.Lapsed() {
			return now, nil
		}
		look = min(2*look, lastLook)
	}
}

func (e *Engine) waitFor(id ID) chan struct{} {
	ch := make(chan struct{}, 1)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.waiters[id] = append(e.waiters[id], ch)
	return ch
}

func (e *Engine) forget(id ID, ch chan struct{}) {
	e.mu.Lock()
	defer e.mu.Unlock()
	rest := slices.DeleteFunc(e.waiters[id], func(c chan struct{}) bool { return c == ch })
	if len(rest) == 0 {
		delete(e.waiters, id)
	} else {
		e.waiters[id] = rest
	}
}

func (e *Engine) wake(id ID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, ch := range e.waiters[id] {
		select {
		case ch <- struct{}{}:
		default:
		}
	}
}

// saw remembers how far into the store's history this node has seen.
func (e *Engine) saw(p Position) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if p.Store != e.seen.Store {
		return // another store in the same place: the next write is refused
	}
	if p.Epoch > e.seen.Epoch || p.Epoch == e.seen.Epoch && p.Seq > e.seen.Seq {
		e.seen = p
	}
}

func (e *Engine) position() Position {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.seen
}

type heldAttempt struct {
	id      ID
	attempt int
}

// runningSet knows the calls that are under way and the records that they hold.
type runningSet struct {
	mu      sync.Mutex
	closed  bool
	calls   int
	records map[heldAttempt]Record
	idle    chan struct{} // made by wait, closed when the last call leaves
}

// enter is false once the set is closed.
func (s *runningSet) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.calls++
	return true
}

// enterAgain is enter for work that a call leaves behind while it is inside itself.
func (s *runningSet) enterAgain() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
}

func (s *runningSet) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls--
	if s.calls == 0 && s.idle != nil {
		close(s.idle)
		s.idle = nil
	}
}

func (s *runningSet) hold(rec Record) heldAttempt {
	key := heldAttempt{rec.ID, rec.Attempt}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.records == nil {
		s.records = make(map[heldAttempt]Record)
	}
	s.records[key] = rec
	return key
}

func (s *runningSet) release(key heldAttempt) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.records, key)
}

func (s *runningSet) held() []Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	recs := make([]Record, 0, len(s.records))
	for _, rec := range s.records {
		recs = append(recs, rec)
	}
	return recs
}

// closeAndWait lets nobody in any more and waits until everybody has left or ctx ends.
func (s *runningSet) closeAndWait(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	if s.calls == 0 {
		s.mu.Unlock()
		return nil
	}
	if s.idle == nil {
		s.idle = make(chan struct{})
	}
	idle := s.idle
	s.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// backoff sleeps longer each time, with full jitter. The zero backoff begins at 10 ms and ends at 1 s.
type backoff struct{ next time.Duration }

// sleep returns false when ctx ended.
func (b *backoff) sleep(ctx context.Context) bool {
	b.next = min(max(2*b.next, 10*time.Millisecond), time.Second)
	timer := time.NewTimer(rand.N(b.next) + time.Millisecond)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

package fault

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// What names a kind of Event.
type What string

// What a Partner sees.
const (
	Arrived  What = "arrived"  // a call is there: at a Partner whole, at a Proxy its head; nothing was done about it
	Effected What = "effected" // an effect was done
	Answered What = "answered" // an answer was written: by a Partner, or by the server behind a Proxy
	Cut      What = "cut"      // a connection was cut instead
)

// What a Proxy sees besides Arrived, Answered and Cut.
const (
	PassedOn     What = "passed on"      // the whole request was written to the server
	CopyPassedOn What = "copy passed on" // and so was a copy of it
	CopyAnswered What = "copy answered"  // the server's answer to a copy arrived; nobody gets it
)

// Event is something that happened.
type Event struct {
	At   time.Time
	What What
	Ref  string // see Partner.Ref; at a Proxy the value of the request's Idempotency-Key field
	Key  string // the partner key as sent, "" if there was none
}

// journal keeps events and wakes who waits for them.
type journal struct {
	mu      sync.Mutex
	events  []Event
	changed chan struct{} // closed at the next event; nil: nobody waits
}

func (j *journal) add(what What, ref, key string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.events = append(j.events, Event{At: time.Now(), What: what, Ref: ref, Key: key})
	if j.changed != nil {
		close(j.changed)
		j.changed = nil
	}
}

// count returns how often it happened for ref, "" for all, and a channel that the next event closes.
func (j *journal) count(what What, ref string) (n int, next <-chan struct{}) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, e := range j.events {
		if e.What == what && (ref == "" || e.Ref == ref) {
			n++
		}
	}
	if j.changed == nil {
		j.changed = make(chan struct{})
	}
	return n, j.changed
}

func (j *journal) await(ctx context.Context, what What, ref string, n int) error {
	for {
		seen, next := j.count(what, ref)
		if seen >= n {
			return nil
		}
		select {
		case <-next:
		case <-ctx.Done():
			return fmt.Errorf("fault: awaited %q %d times for %q, saw %d: %w", what, n, ref, seen, context.Cause(ctx))
		}
	}
}

func (j *journal) list() []Event {
	j.mu.Lock()
	defer j.mu.Unlock()
	return append([]Event(nil), j.events...)
}

// queue hands out scripted moves or rules, one a call.
type queue[T any] struct {
	mu     sync.Mutex
	next   []T
	forRef map[string][]T
	always T
}

func (q *queue[T]) add(ref string, items []T) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if ref == "" {
		q.next = append(q.next, items...)
		return
	}
	if q.forRef == nil {
		q.forRef = map[string][]T{}
	}
	q.forRef[ref] = append(q.forRef[ref], items...)
}

func (q *queue[T]) setAlways(item T) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.always = item
}

func (q *queue[T]) take(ref string) T {
	q.mu.Lock()
	defer q.mu.Unlock()
	if items := q.forRef[ref]; len(items) > 0 {
		q.forRef[ref] = items[1:]
		return items[0]
	}
	if len(q.next) > 0 {
		item := q.next[0]
		q.next = q.next[1:]
		return item
	}
	return q.always
}

// wait waits for the delay and then for hold; it reports false when closed came first.
func wait(delay time.Duration, hold, closed <-chan struct{}) bool {
	if delay > 0 {
		timer := time.NewTimer(delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-closed:
			return false
		}
	}
	if hold == nil {
		return true
	}
	select {
	case <-hold:
		return true
	case <-closed:
		return false
	}
}

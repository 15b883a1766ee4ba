package einmal

import (
	"context"
	"errors"
	"sync"
	"time"
)

const (
	claimLimit = 100
	claimLease = 30 * time.Second
	purgeLimit = 100
	purgeEvery = time.Minute // when there is nothing more to purge
)

// dueLoop looks at whatever is due: lapsed leases become unclear, unclear records beyond their deadline are escalated, old ones are purged. It does so
// for every name, defined here or not.
func (e *Engine) dueLoop(ctx context.Context) {
	tick := time.NewTicker(e.cfg.Poll)
	defer tick.Stop()
	var purgeAt time.Time
	var down bool // the store did not answer; said once
	for {
		more, err := e.attend(ctx)
		if err == nil {
			err = e.disown(ctx)
		}
		if err == nil && !time.Now().Before(purgeAt) {
			var n int
			n, err = e.purge(ctx)
			if n == 0 {
				purgeAt = time.Now().Add(purgeEvery)
			}
			more = more || n > 0
		}
		if ctx.Err() != nil {
			return
		}
		if (err != nil) != down {
			down = err != nil
			if down {
				e.log.ErrorContext(ctx, "einmal: the due loop cannot reach the store", logError, err)
			} else {
				e.log.InfoContext(ctx, "einmal: the due loop reaches the store again")
			}
		}
		if more && err == nil {
			continue
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// attend takes one batch of due records; more says that there may be another.
func (e *Engine) attend(ctx context.Context) (more bool, err error) {
	recs, err := e.store.Claim(ctx, Claim{Limit: claimLimit, Lease: claimLease})
	if err != nil {
		return false, err
	}
	for i := range recs {
		rec := &recs[i]
		switch rec.State {
		case StateRunning:
			if rec.Lapsed() {
				_, err = e.recover(ctx, rec)
			}
		case StateUnclear:
			err = e.escalate(ctx, rec)
		default: // a state of a later version: its own engine looks after it
		}
		if err != nil && !errors.Is(err, ErrStale) && !errors.Is(err, ErrNotFound) {
			return false, err
		}
	}
	return len(recs) == claimLimit, nil
}

func (e *Engine) recover(ctx context.Context, rec *Record) (Record, error) {
	return e.apply(ctx, lapse(rec), Event{Name: EventUnclear, Attempt: rec.Attempt, Reason: "lease lost"})
}

func (e *Engine) escalate(ctx context.Context, rec *Record) error {
	_, err := e.apply(ctx, escalate(rec), Event{Name: EventEscalated, Attempt: rec.Attempt, Alarm: true, Reason: rec.Reason})
	return err
}

func (e *Engine) purge(ctx context.Context) (int, error) {
	n, err := e.store.Purge(ctx, purgeLimit)
	if errors.Is(err, ErrClockJumped) {
		if e.clockAlarm.CompareAndSwap(false, true) {
			e.log.ErrorContext(ctx, "einmal: the store's clock jumped: nothing is purged and no unclear operation runs again until the clock is accepted (einmal store accept --clock)")
			e.tell(ctx, nil, Event{Name: EventClock, Reason: err.Error()})
		}
		return 0, nil
	}
	if err == nil {
		e.clockAlarm.Store(false)
	}
	return n, err
}

// orphans are reservations whose fate could not be learned in time. If one was made after all, its attempt never started, and saying so in time spares
// somebody an unclear operation.
type orphans struct {
	mu   sync.Mutex
	list []orphan
}

type orphan struct {
	Reservation
	until time.Time // it was not made, if it is not there by then
}

// Bounds of the orphans. What is beyond them becomes unclear, if it was made at all.
const (
	maxOrphans = 10_000
	orphanLife = 2 * time.Minute
)

func (o *orphans) add(res Reservation) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.list) < maxOrphans {
		o.list = append(o.list, orphan{res, time.Now().Add(orphanLife)})
	}
}

func (o *orphans) take() []orphan {
	o.mu.Lock()
	defer o.mu.Unlock()
	list := o.list
	o.list = nil
	return list
}

func (o *orphans) giveBack(list []orphan) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.list = append(list, o.list...)
}

// disown settles the orphans that are there. An error of the store leaves the rest for the next turn.
func (e *Engine) disown(ctx context.Context) (err error) {
	list := e.orphans.take()
	var left []orphan
	for i, o := range list {
		var settled bool
		if settled, err = e.disownOne(ctx, o); err != nil {
			left = append(left, list[i:]...)
			break
		}
		if !settled && time.Now().Before(o.until) {
			left = append(left, o)
		}
	}
	e.orphans.giveBack(left)
	return err
}

func (e *Engine) disownOne(ctx context.Context, o orphan) (settled bool, err error) {
	rec, err := e.store.Get(ctx, Ref{Identity: o.Identity})
	switch {
	case errors.Is(err, ErrNotFound):
		return false, nil
	case errors.Is(err, ErrUnreadable):
		return true, nil
	case err != nil:
		return false, err
	case rec.Nonce != o.Nonce || rec.State != StateRunning:
		return true, nil
	}
	word := neverStarted("the store did not answer in time")
	if _, _, settled, err = e.record(ctx, rec, rec.Attempt, &word); settled {
		return true, nil
	}
	return false, err
}

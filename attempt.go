package einmal

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/einmal-dev/einmal/contract"
	"github.com/einmal-dev/einmal/internal/crashpoint"
)

// attemptInfo travels in the context of a running attempt.
type attemptInfo struct {
	partnerKey string
}

type attemptKey struct{}

// PartnerKey returns the key that a handler must send to its partner: the same for every attempt of the operation. It is "" outside of an attempt and
// where the class sends none.
func PartnerKey(ctx context.Context) string {
	if info, ok := ctx.Value(attemptKey{}).(*attemptInfo); ok {
		return info.partnerKey
	}
	return ""
}

// errDeadline is the cause of a context that ended at the operation's deadline.
var errDeadline = errors.New("einmal: the operation's deadline is over")

// attempt runs the handler on a record that this call holds, and records how that ended.
func (c *call) attempt(ctx context.Context, rec Record, began time.Time) (Outcome, error) {
	if err := ctx.Err(); err != nil {
		_, _, _, _ = c.finish(ctx, rec, neverStarted("the caller had left"))
		return Outcome{}, context.Cause(ctx)
	}
	limit := rec.Terms.Deadline     // a re-run of an unclear operation began so early that this ends before the partner's window does
	if time.Since(began) >= limit { // the store took so long that nobody may rely on this attempt any more
		_, _, _, _ = c.finish(ctx, rec, neverStarted("the deadline was over before the handler began"))
		return Outcome{}, c.refuse(ctx, &rec, contract.NewProblem(contract.StoreUnavailable, ""), retryStore)
	}
	info := &attemptInfo{partnerKey: rec.PartnerKey}
	if info.partnerKey == "" && c.op.terms.Class == ClassKeyed { // the record is older than the policy's class
		info.partnerKey = partnerKey(c.secret, rec.Identity, rec.Fingerprint, "")
	}
	hctx := context.WithValue(context.WithoutCancel(ctx), attemptKey{}, info)
	hctx, cancel := context.WithDeadlineCause(hctx, began.Add(limit), errDeadline)
	defer cancel()
	lease := c.keepLease(rec, began)
	held := c.running.hold(rec)

	spoke := false
	defer func() { // a panic or runtime.Goexit goes on after this
		if !spoke {
			lease.stop()
			_, _, _, _ = c.finish(ctx, rec, Ending{End: EndOpen, Reason: "the handler panicked"})
			c.running.release(held)
		}
	}()
	crashpoint.Here("engine: before the handler")
	word := c.fn(hctx)
	crashpoint.Here("engine: after the handler")
	spoke = true
	lease.stop()
	defer c.running.release(held)
	if word.End < EndOpen || word.End > EndSuccess {
		word = Ending{End: EndOpen, Reason: word.Reason}
	}
	after, ours, recorded, err := c.finish(ctx, rec, word)
	if err != nil {
		return Outcome{}, err
	}
	return c.outcome(ctx, after, rec.Attempt, word, ours, recorded)
}

// outcome decides what the caller of an attempt that has ended gets: what its handler said, unless the operation's verdict is another one.
func (c *call) outcome(ctx context.Context, rec Record, attempt int, word Ending, ours, recorded bool) (Outcome, error) {
	if !recorded || ours && agrees(&rec, attempt, word) {
		return Outcome{Operation: c.operation(rec), Own: true, Recorded: recorded}, nil
	}
	if rec.State == StateCompleted && rec.Verdict != VerdictWithdrawn {
		return c.replay(ctx, rec)
	}
	return Outcome{}, c.refuseState(ctx, &rec, true)
}

// agrees reports whether the record, after an attempt's word was recorded, says the same as the attempt.
func agrees(rec *Record, attempt int, word Ending) bool {
	switch word.End {
	case EndSuccess:
		return rec.State == StateCompleted && rec.Verdict == VerdictApplied
	case EndRefused:
		newer := slices.ContainsFunc(rec.Ends, func(e AttemptEnd) bool { return e.End == EndRefused && e.Attempt > attempt })
		return rec.State == StateCompleted && rec.Verdict == VerdictRefused && !newer
	case EndNoEffect:
		return rec.State == StateNotApplied
	default: // the caller of an open attempt hears what its handler said, as long as nobody knows better
		return rec.State != StateCompleted && rec.State != StateExpired
	}
}

// finish records an attempt's word, and keeps trying for Config.RecordGrace while the store does not answer; then the node goes on offering it.
func (c *call) finish(ctx context.Context, rec Record, word Ending) (after Record, ours, recorded bool, err error) {
	word = fit(c.op, word)
	attempt := rec.Attempt
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.cfg.RecordGrace)
	defer cancel()
	for wait := (backoff{}); ; {
		after, ours, settled, err := c.record(grace, rec, attempt, &word)
		if err == nil || settled {
			return after, ours, err == nil, nil
		}
		if !wait.sleep(grace) {
			c.tell(ctx, &rec, Event{Name: EventUnrecorded, Attempt: attempt, Alarm: true, Reason: word.End.String() + ": " + err.Error()})
			c.running.enterAgain() // Close waits for it
			c.background(func(ctx context.Context) {
				defer c.running.leave()
				c.offer(ctx, rec, attempt, word)
			})
			return rec, false, false, nil
		}
	}
}

// record tries once to store an attempt's word; settled says that trying again is of no use. ours says that the record's state is this word's doing.
func (e *Engine) record(ctx context.Context, rec Record, attempt int, word *Ending) (after Record, ours, settled bool, err error) {
	for {
		change, alarm := speak(&rec, attempt, *word)
		ev := Event{Name: eventOf(&change), Attempt: attempt, Alarm: alarm || word.alarm, Reason: word.Reason}
		after, err = e.apply(ctx, change, ev)
		var stale *StaleError
		switch {
		case err == nil:
			return after, change.Kind == Transition, true, nil
		case errors.As(err, &stale):
			rec = stale.Record
			continue
		case errors.Is(err, ErrNotFound), errors.Is(err, ErrUnreadable), errors.Is(err, ErrStoreClosed):
			e.tell(ctx, &rec, Event{Name: EventUnrecorded, Attempt: attempt, Alarm: true, Reason: word.End.String() + ": " + err.Error()})
			return rec, false, true, err
		}
		word.alarm = ev.Alarm // the change may be made, and then nobody will see the contradiction again
		now, getErr := e.store.Get(ctx, Ref{ID: rec.ID})
		if getErr != nil {
			return rec, false, false, err
		}
		if change.Kind == Transition && now.Nonce == change.Nonce {
			e.wake(now.ID)
			e.tell(ctx, &now, ev)
			return now, true, true, nil
		}
		if now.Version == rec.Version {
			return rec, false, false, err
		}
		rec = now
	}
}

func eventOf(c *Change) string {
	if c.Entry != nil {
		return c.Entry.Event
	}
	return EventCompleted
}

// maxHeader bounds the header fields of a stored answer, maxText each text of a timeline entry, in bytes.
const (
	maxHeader = 64 << 10
	maxText   = 4 << 10
)

// fit bounds what a word makes the store keep, so that no word is too large to be recorded.
func fit(op *Op, word Ending) Ending {
	word.Reason, word.Detail = shorten(word.Reason), shorten(word.Detail)
	if r := word.Result; r != nil {
		header := 0
		for _, f := range r.Header {
			header += len(f.Name) + len(f.Value)
		}
		if header > maxHeader {
			word.Result = &Result{Status: r.Status, Kept: KeptTooLarge}
		} else if int64(len(r.Body)) > op.policy.Rules.MaxResult {
			word.Result = &Result{Status: r.Status, Header: r.Header, Kept: KeptTooLarge}
		}
	}
	return word
}

// shorten keeps the beginning of a text, and valid UTF-8 valid.
func shorten(text string) string {
	if len(text) <= maxText {
		return text
	}
	return strings.ToValidUTF8(text[:maxText-len("…")], "") + "…"
}

// offer keeps a word that could not be stored, and stores it as late truth when the store is back.
func (e *Engine) offer(ctx context.Context, rec Record, attempt int, word Ending) {
	for wait := (backoff{}); wait.sleep(ctx); {
		once, cancel := context.WithTimeout(ctx, storeTimeout)
		_, _, settled, err := e.record(once, rec, attempt, &word)
		cancel()
		if err == nil || settled {
			return
		}
	}
	e.log.ErrorContext(ctx, "einmal: stopping with a word that is not recorded", logOperation, rec.Operation, logTenant, rec.Tenant,
		logID, e.publicID(rec.ID), logAttempt, attempt, logReason, word.End.String())
}

// apply makes one change and tells who waits or watches.
func (e *Engine) apply(ctx context.Context, change Change, ev Event) (Record, error) {
	rec, err := e.store.Apply(ctx, change)
	crashpoint.Here("engine: applied")
	if err != nil {
		return rec, err
	}
	e.saw(rec.At)
	if rec.State != StateRunning {
		e.wake(rec.ID)
	}
	e.tell(ctx, &rec, ev)
	return rec, nil
}

// background runs work that outlives its request and ends with the engine.
func (e *Engine) background(work func(context.Context)) {
	if e.ctx.Err() != nil { // stopped: nobody would wait for it
		work(e.ctx)
		return
	}
	e.loops.Go(func() { work(e.ctx) })
}

// leaseKeeper renews an attempt's lease until it is stopped or the deadline is over.
type leaseKeeper struct {
	mu      sync.Mutex
	timer   *time.Timer
	stopped bool
}

func (k *leaseKeeper) stop() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.stopped = true
	k.timer.Stop()
}

// keepLease renews every third of the lease. It stops at the deadline, whatever the handler does: in flight at most deadline + lease.
func (c *call) keepLease(rec Record, began time.Time) *leaseKeeper {
	k := new(leaseKeeper)
	every := max(rec.Terms.Lease/3, time.Millisecond)
	renew := func() {
		if time.Since(began) >= rec.Terms.Deadline {
			return
		}
		ctx, cancel := context.WithTimeout(c.ctx, min(rec.Terms.Lease, rec.Terms.Deadline-time.Since(began)))
		_, err := c.store.Apply(ctx, Change{
			ID: rec.ID, Kind: Renewal, LeaseFor: rec.Terms.Lease,
			Guard: Guard{State: StateRunning, Attempt: rec.Attempt, LeaseHeld: true},
		})
		cancel()
		if errors.Is(err, ErrStale) || errors.Is(err, ErrNotFound) {
			return // lost; the attempt's word still counts
		}
		k.mu.Lock()
		defer k.mu.Unlock()
		if !k.stopped {
			k.timer.Reset(every)
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.timer = time.AfterFunc(every, renew)
	return k
}

// abandon marks the attempts that are still running unclear, because the process is about to end.
func (e *Engine) abandon() {
	ctx, cancel := context.WithTimeout(context.Background(), storeTimeout)
	defer cancel()
	for _, rec := range e.running.held() {
		now, err := e.store.Get(ctx, Ref{ID: rec.ID})
		if err == nil && now.State == StateRunning && now.Attempt == rec.Attempt {
			_, err = e.apply(ctx, abandoned(&now), Event{Name: EventUnclear, Attempt: rec.Attempt, Reason: "stopping"})
		}
		if err != nil && !errors.Is(err, ErrStale) {
			e.log.ErrorContext(ctx, "einmal: stopping with a running attempt that could not be marked unclear; its lease will", logOperation, rec.Operation,
				logID, e.publicID(rec.ID), logAttempt, rec.Attempt, logError, err)
		}
	}
}

package einmal

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/einmal-dev/einmal/contract"
	"github.com/einmal-dev/einmal/fingerprint"
	"github.com/einmal-dev/einmal/internal/crashpoint"
	"github.com/einmal-dev/einmal/internal/mutant"
)

// Run does one request for an operation: it reserves it and runs fn, or finds what is recorded.
//
// fn runs on this goroutine at most once, with a context that does not end when ctx does but at the operation's deadline; its partner key, if the class
// sends one, is PartnerKey(ctx). A panic of fn is recorded as an open end and goes on. Errors are a *Problem, or what Request.Authorize returned.
func (e *Engine) Run(ctx context.Context, op *Op, req Request, fn func(context.Context) Ending) (Outcome, error) {
	if op.engine != e {
		panic("einmal: operation " + op.policy.Name + " belongs to another engine")
	}
	if !e.running.enter() {
		return Outcome{}, e.refuse(ctx, nil, contract.NewProblem(contract.Stopping, ""), retryStopping)
	}
	defer e.running.leave()

	began := time.Now() // before the reservation: the deadline must not end later than the store believes
	res, err := e.reservation(op, &req)
	if err != nil {
		return Outcome{}, err
	}
	rec, created, err := e.reserve(ctx, res)
	if err != nil {
		if mutant.On("fail-open") {
			fn(ctx)
			return Outcome{Own: true}, nil
		}
		return Outcome{}, err
	}
	c := call{Engine: e, op: op, req: &req, sum: res.Fingerprint, fn: fn}
	if created {
		e.tell(ctx, &rec, Event{Name: EventReserved, Attempt: rec.Attempt})
		return c.attempt(ctx, rec, began)
	}
	return c.meet(ctx, rec)
}

// How long a refused request is told to wait.
const (
	retryInProgress = time.Second
	retryStopping   = 5 * time.Second
	retryStore      = 5 * time.Second
	retryPaused     = 30 * time.Second
	retryTooMany    = 10 * time.Second
)

// maxIdentityPart bounds tenant and principal, in bytes.
const maxIdentityPart = 255

func (e *Engine) reservation(op *Op, req *Request) (Reservation, error) {
	if err := contract.CheckKey(req.Key); err != nil {
		return Reservation{}, contract.NewProblem(contract.KeyInvalid, err.Error())
	}
	if req.Principal == "" {
		return Reservation{}, errors.New("einmal: the caller has no principal: all who are nobody would share their answers")
	}
	if len(req.Tenant) > maxIdentityPart || len(req.Principal) > maxIdentityPart || req.Tenant == "*" {
		return Reservation{}, fmt.Errorf("einmal: the caller's tenant and principal must be at most %d bytes, and the tenant not \"*\"", maxIdentityPart)
	}
	req.Parts.Operation = op.policy.Name
	sum, err := req.Parts.Sum(fingerprint.Latest)
	if err != nil {
		return Reservation{}, err
	}
	res := Reservation{
		Identity:  Identity{Tenant: req.Tenant, Operation: op.policy.Name, Key: req.Key},
		Principal: req.Principal, Fingerprint: sum, Terms: op.terms, Nonce: newNonce(), Holder: e.holder,
		Seen: e.position(), Limits: op.policy.Rules.Limits,
	}
	if op.policy.KeyAge == KeyAgeUUIDv7 {
		if res.KeyTime, err = contract.KeyTime(req.Key); err != nil {
			return Reservation{}, contract.NewProblem(contract.KeyInvalid, err.Error())
		}
	}
	if op.terms.Class == ClassKeyed {
		res.PartnerKey = partnerKey(e.secret, res.Identity, sum, "")
	}
	return res, nil
}

// reserve asks the store, and finds out the fate of a reservation that got no answer.
func (e *Engine) reserve(ctx context.Context, res Reservation) (rec Record, created bool, err error) {
	ctx, cancel := storeContext(ctx) // once asked for, the reservation's fate is ours to learn
	defer cancel()
	rec, created, err = e.store.Reserve(ctx, res)
	crashpoint.Here("engine: reserved")
	if err == nil {
		e.saw(rec.At)
		return rec, created, nil
	}
	refuse := func(p *Problem, retry time.Duration) (Record, bool, error) {
		p.Cause = err
		return Record{}, false, e.refuse(ctx, nil, p, retry)
	}
	known := false
	switch {
	case errors.Is(err, ErrStorePaused):
		return refuse(contract.NewProblem(contract.Paused, ""), retryPaused)
	case errors.Is(err, ErrTooManyOpen):
		return refuse(contract.NewProblem(contract.TooManyOpen, ""), retryTooMany)
	case errors.Is(err, ErrRestored):
		return refuse(contract.NewProblem(contract.StoreRestored, ""), retryPaused)
	case errors.Is(err, ErrUnreadable):
		return refuse(contract.NewProblem(contract.RecordUnreadable, ""), 0)
	case errors.Is(err, ErrKeyFromFuture):
		return refuse(contract.NewProblem(contract.KeyInvalid, "the key's own time is more than "+MaxKeySkew.String()+" in the future"), 0)
	case errors.Is(err, ErrKeyTooOld):
		p := contract.NewProblem(contract.KeyExpired, "the key's own time is more than "+res.Terms.Window.String()+" ago, and nothing is known of it")
		p.Known = &known
		return refuse(p, 0)
	}
	again, cancelAgain := storeContext(ctx)
	defer cancelAgain()
	rec, getErr := e.store.Get(again, Ref{Identity: res.Identity})
	switch {
	case getErr == nil:
		e.saw(rec.At)
		return rec, rec.Nonce == res.Nonce, nil
	case errors.Is(getErr, ErrUnreadable):
		return refuse(contract.NewProblem(contract.RecordUnreadable, ""), 0)
	case !errors.Is(err, ErrStoreClosed):
		e.orphans.add(res) // not found is not never: the write may still be under way
	}
	e.log.ErrorContext(ctx, "einmal: cannot reserve: nothing was executed", logOperation, res.Operation, logError, err)
	return refuse(contract.NewProblem(contract.StoreUnavailable, ""), retryStore)
}

func neverStarted(why string) Ending {
	return Ending{End: EndNoEffect, Reason: "never started: " + why}
}

// call is one request on its way.
type call struct {
	*Engine
	op  *Op
	req *Request
	sum fingerprint.Sum // of the request, by the latest rules
	fn  func(context.Context) Ending
}

// meet judges a record that was found: by principal, parameters, and state, in this order.
func (c *call) meet(ctx context.Context, rec Record) (Outcome, error) {
	waited := false
	for {
		if err := c.compare(ctx, &rec); err != nil {
			return Outcome{}, err
		}
		switch {
		case rec.State == StateCompleted && rec.Verdict != VerdictWithdrawn:
			return c.replay(ctx, rec)
		case rec.Lapsed():
			storeCtx, cancel := storeContext(ctx)
			next, err := c.recover(storeCtx, &rec)
			cancel()
			if rec, err = c.current(ctx, rec, next, err); err != nil {
				return Outcome{}, err
			}
			continue
		case rec.State == StateRunning && !waited && c.req.Wait > 0:
			var err error
			if rec, err = c.wait(ctx, rec); err != nil {
				return Outcome{}, err
			}
			waited = true
			continue
		case !c.startable(&rec) || waited:
			return Outcome{}, c.refuseState(ctx, &rec, waited)
		case rec.Terms.Class == ClassKeyed && c.op.terms.Class != ClassKeyed:
			// An attempt that does not send the partner key would later be taken for one that did.
			return Outcome{}, c.refuse(ctx, &rec, contract.NewProblem(contract.Paused, "its key was first used when this operation had another effect class"), retryPaused)
		}
		began := time.Now()
		change := restart(&rec, c.holder)
		change.Seen, change.Limits = c.position(), c.op.policy.Rules.Limits
		if rec.State == StateUnclear {
			change.Limits.Unclear = 0 // it is one of them, and leaves them
		}
		storeCtx, cancel := storeContext(ctx)
		next, err := c.apply(storeCtx, change, Event{Name: EventStarted, Attempt: change.Attempt})
		cancel()
		if err == nil {
			return c.attempt(ctx, next, began)
		}
		if rec, err = c.current(ctx, rec, next, err); err != nil {
			return Outcome{}, err
		}
		if rec.Nonce == change.Nonce {
			return c.attempt(ctx, rec, began)
		}
		if rec.Version == change.Guard.Version { // the guard's other parts do not hold
			return Outcome{}, c.refuseState(ctx, &rec, true)
		}
	}
}

// startable reports whether this request may start another attempt on the record now.
func (c *call) startable(rec *Record) bool {
	switch rec.State {
	case StateNotApplied:
		return true
	case StateUnclear:
		wait, ok := mayRunAgain(rec)
		return ok && wait == 0 && (rec.Terms.Class == c.op.terms.Class || mutant.On("rerun-opaque"))
	default:
		return false
	}
}

// current turns the outcome of a change that may be stale into the record to judge next, or into the problem that ends the request.
func (c *call) current(ctx context.Context, before, after Record, err error) (Record, error) {
	var stale *StaleError
	switch {
	case err == nil:
		return after, nil
	case errors.As(err, &stale):
		return stale.Record, nil
	case errors.Is(err, ErrStorePaused):
		return Record{}, c.refuse(ctx, &before, contract.NewProblem(contract.Paused, ""), retryPaused)
	case errors.Is(err, ErrRestored):
		return Record{}, c.refuse(ctx, &before, contract.NewProblem(contract.StoreRestored, ""), retryPaused)
	case errors.Is(err, ErrTooManyOpen):
		return Record{}, c.refuse(ctx, &before, contract.NewProblem(contract.TooManyOpen, ""), retryTooMany)
	case errors.Is(err, ErrUnreadable):
		return Record{}, c.refuse(ctx, nil, contract.NewProblem(contract.RecordUnreadable, ""), 0)
	case errors.Is(err, ErrClockJumped):
		return Record{}, c.refuseState(ctx, &before, true)
	}
	storeCtx, cancel := storeContext(ctx)
	defer cancel()
	rec, getErr := c.store.Get(storeCtx, Ref{ID: before.ID})
	if getErr != nil || rec.Version == before.Version {
		p := contract.NewProblem(contract.StoreUnavailable, "")
		p.Cause = err
		return Record{}, c.refuse(ctx, nil, p, retryStore)
	}
	return rec, nil
}

// compare checks that the record is this caller's and this request's.
func (c *call) compare(ctx context.Context, rec *Record) error {
	if rec.Principal != c.req.Principal && !mutant.On("principal-not-compared") {
		return c.refuse(ctx, nil, contract.NewProblem(contract.NotYours, ""), 0)
	}
	if mutant.On("fingerprint-after-state") && rec.State != StateCompleted {
		return nil
	}
	sum := c.sum
	if sum.Version != rec.Fingerprint.Version {
		var err error
		if sum, err = c.req.Parts.Sum(rec.Fingerprint.Version); err != nil {
			p := contract.NewProblem(contract.RecordUnreadable, "")
			p.Cause = err
			return c.refuse(ctx, nil, p, 0)
		}
	}
	if sum != rec.Fingerprint {
		return c.refuse(ctx, nil, contract.NewProblem(contract.KeyReused, ""), 0)
	}
	return nil
}

func (c *call) replay(ctx context.Context, rec Record) (Outcome, error) {
	op := c.operation(rec)
	if c.req.Authorize != nil {
		if err := c.req.Authorize(ctx, op); err != nil {
			return Outcome{}, err
		}
	}
	if c.observe != nil {
		c.observe(ctx, Event{Name: EventReplayed, Operation: op})
	}
	return Outcome{Operation: op, Recorded: true}, nil
}

// refuseState is the refusal of a request that meets a record in a state that is no answer.
func (c *call) refuseState(ctx context.Context, rec *Record, waited bool) error {
	switch rec.State {
	case StateUnclear:
		p := contract.NewProblem(contract.OutcomeUnclear, rec.Reason)
		retry := max(rec.Due.Sub(rec.Now), retryInProgress)
		if wait, ok := mayRunAgain(rec); ok {
			p.Next, retry = contract.NextWait, max(wait, retryInProgress)
		}
		return c.refuse(ctx, rec, p, retry)
	case StateCompleted: // withdrawn
		return c.refuse(ctx, rec, contract.NewProblem(contract.Withdrawn, rec.Reason), 0)
	case StateExpired:
		p := contract.NewProblem(contract.KeyExpired, "")
		known := true
		p.Known = &known
		return c.refuse(ctx, rec, p, 0)
	case StateNotApplied: // a waiter never executes
		p := contract.NewProblem(contract.InProgress, "the attempt that this request waited for had no effect: send it again")
		if waited {
			p.Next = contract.NextRetry
		}
		return c.refuse(ctx, rec, p, retryInProgress)
	default:
		return c.refuse(ctx, rec, contract.NewProblem(contract.InProgress, ""), retryInProgress)
	}
}

// refuse completes a problem and tells the hook. rec is the caller's own record, nil where nothing may be told of it.
func (e *Engine) refuse(ctx context.Context, rec *Record, p *Problem, retry time.Duration) *Problem {
	p.RetryAfter = retry
	if rec != nil {
		p.ID = e.publicID(rec.ID)
	}
	e.tell(ctx, rec, Event{Name: EventRefused, Reason: string(p.Kind)})
	return p
}

func newNonce() (n Nonce) {
	_, _ = rand.Read(n[:]) // never fails
	return n
}

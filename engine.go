package einmal

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/einmal-dev/einmal/contract"
	"github.com/einmal-dev/einmal/fingerprint"
)

// Config is what an Engine needs. Only Store is required.
type Config struct {
	Store   Store
	Log     *slog.Logger                 // nil: slog.Default()
	Observe func(context.Context, Event) // the one hook: metrics, tracing, escalation; called synchronously, must be quick

	RunDir      string        // folder of the lock file that proves this process alive; "": the store's own, if it has one (see RunDirer)
	RecordGrace time.Duration // 10s: how long a finished attempt waits for a lost store before its answer goes out unrecorded
	Poll        time.Duration // 1s: how often the due loop looks
}

// Defaults of a Config.
const (
	DefaultRecordGrace = 10 * time.Second
	DefaultPoll        = time.Second
)

func (c Config) withDefaults() (Config, error) {
	if c.Store == nil {
		return c, errors.New("einmal: Config.Store is nil: open one, for example sqlitestore.Open")
	}
	if c.RecordGrace < 0 || c.Poll < 0 {
		return c, errors.New("einmal: Config.RecordGrace and Config.Poll must not be negative")
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	c.RecordGrace = or(c.RecordGrace, DefaultRecordGrace)
	c.Poll = or(c.Poll, DefaultPoll)
	return c, nil
}

// Engine decides everything: what a request meets, who may run, what an attempt's end means. One process needs one Engine per store; engines of several
// processes share a store.
//
// The Operator's methods (Get, List, Timeline, Resolve) are the engine's too.
type Engine struct {
	*Operator
	cfg    Config
	log    *slog.Logger
	holder Holder
	life   *life // the operating-system lock; nil where there is none

	mu      sync.Mutex
	ops     map[string]*Op
	waiters map[ID][]chan struct{}
	seen    Position

	ctx        context.Context    // of the due loop and whatever outlives its request
	stop       context.CancelFunc // ends it
	loops      sync.WaitGroup
	running    runningSet
	orphans    orphans
	clockAlarm atomic.Bool // the clock's jump has been told
}

// Op is a defined operation.
type Op struct {
	engine *Engine
	policy Policy // with defaults
	terms  Terms
	ends   endTable
}

// Policy returns the operation's policy with every default filled in.
func (o *Op) Policy() Policy { return o.policy }

// End says how an attempt that answered with this HTTP status ended, and whether the partner stores such a refusal under the key.
func (o *Op) End(status int) (end End, bound bool) { return o.ends.of(status) }

// New opens an engine on a store and starts its loop, which recovers and escalates every name. The error names what the store lacks.
func New(cfg Config) (*Engine, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), storeTimeout)
	defer cancel()
	operator, err := NewOperator(ctx, cfg.Store)
	if err != nil {
		return nil, err
	}
	operator.log, operator.observe = cfg.Log, cfg.Observe
	e := &Engine{
		Operator: operator, cfg: cfg, log: cfg.Log,
		ops: make(map[string]*Op), waiters: make(map[ID][]chan struct{}),
	}
	if cfg.RunDir == "" {
		if d, ok := cfg.Store.(RunDirer); ok {
			cfg.RunDir = d.RunDir()
		}
	}
	if e.life, e.holder, err = openLife(cfg.RunDir); err != nil {
		return nil, err
	}
	operator.runDir = cfg.RunDir
	e.seen = operator.start
	e.ctx, e.stop = context.WithCancel(context.Background())
	e.background(e.dueLoop)
	return e, nil
}

// Define adds an operation. It panics on a mistake in the policy and on a name that is already defined: both are bugs to be found at start.
func (e *Engine) Define(p Policy) *Op {
	p = p.withDefaults()
	if err := p.validate(); err != nil {
		panic(err.Error())
	}
	op := &Op{engine: e, policy: p, terms: p.terms(), ends: newEndTable(p)}
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, ok := e.ops[p.Name]; ok {
		panic(fmt.Sprintf("einmal: operation %q is defined twice", p.Name))
	}
	e.ops[p.Name] = op
	return op
}

// Ops returns the defined operations in no order.
func (e *Engine) Ops() []*Op {
	e.mu.Lock()
	defer e.mu.Unlock()
	ops := make([]*Op, 0, len(e.ops))
	for _, op := range e.ops {
		ops = append(ops, op)
	}
	return ops
}

// Close drains: new requests are refused with "stopping", and running attempts may finish, and words that the store has not taken yet may be stored, until
// ctx ends. Attempts that have not finished are marked unclear then (their word still counts if they speak before the process ends), and words that are not
// stored are logged. It returns ctx's error if anything was left. It does not close the store.
func (e *Engine) Close(ctx context.Context) error {
	err := e.running.closeAndWait(ctx)
	if err != nil {
		e.abandon()
	}
	e.stop()
	e.loops.Wait()
	if err == nil {
		e.life.close()
	}
	return err
}

// Request is one request for an operation.
type Request struct {
	Caller
	Key   string            // unquoted, see contract.CheckKey
	Parts fingerprint.Parts // what makes the operation what it is; Operation is filled in
	Wait  time.Duration     // how long a duplicate waits for a running attempt; it never executes then

	// Authorize, if set, is asked right before a stored answer is given. Its error goes to the caller of Run as it is.
	Authorize func(context.Context, Operation) error
}

// Ending is an attempt's word about itself.
type Ending struct {
	End    End     // EndOpen, EndNoEffect, EndRefused or EndSuccess; anything else counts as EndOpen
	Bound  bool    // a refusal that the partner stores under the partner key: it speaks for every attempt
	Result *Result // the answer of EndSuccess and EndRefused; nil: not known
	Reason string  // why; the caller sees it
	Detail string  // more of why, for the timeline only

	alarm bool // a change that was perhaps made, with no answer, contradicted what was settled
}

// Outcome is what Run found or did.
type Outcome struct {
	Operation Operation
	// Own: the caller's own attempt ran, and what it said is what the caller gets. Otherwise Operation.Result is, and the state is completed.
	Own bool
	// Recorded is false when the store was lost after the effect: the answer is true, but a retry may not find it yet.
	Recorded bool
}

// Problem is a refusal, the same over HTTP and in Go. See contract.Problem.
type Problem = contract.Problem

// Problems for errors.Is.
var (
	ErrInProgress  error = contract.NewProblem(contract.InProgress, "")
	ErrUnclear     error = contract.NewProblem(contract.OutcomeUnclear, "")
	ErrKeyReused   error = contract.NewProblem(contract.KeyReused, "")
	ErrNotYours    error = contract.NewProblem(contract.NotYours, "")
	ErrKeyExpired  error = contract.NewProblem(contract.KeyExpired, "")
	ErrPaused      error = contract.NewProblem(contract.Paused, "")
	ErrWithdrawn   error = contract.NewProblem(contract.Withdrawn, "")
	ErrUnavailable error = contract.NewProblem(contract.StoreUnavailable, "")
)

// storeTimeout bounds one call to the store. What was begun may still happen after it.
const storeTimeout = 10 * time.Second

// storeContext is for a call to the store on behalf of a request, whose fate does not depend on the request's caller.
func storeContext(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
}

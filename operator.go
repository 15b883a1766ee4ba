package einmal

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base32"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/einmal-dev/einmal/contract"
)

// Operation is an operation as people and callers see it.
type Operation struct {
	ID string // opaque, for URLs and commands; hides Record.ID, which would tell how many operations there are
	Record
}

// MayRunAgain reports whether an unclear operation may run again when its caller sends the same request again, and from when on.
func (o *Operation) MayRunAgain() (wait time.Duration, ok bool) {
	if o.State != StateUnclear {
		return 0, false
	}
	return mayRunAgain(&o.Record)
}

// InFlightUntil is when the running attempt is over at the latest, by the store's clock: it renews its lease up to its deadline only.
func (o *Operation) InFlightUntil() time.Time {
	return o.Changed.Add(o.Terms.Deadline + o.Terms.Lease)
}

// Operator is what people in charge can do: look at operations, and resolve the unclear ones.
type Operator struct {
	store   Store
	ids     cipher.Block
	secret  []byte
	runDir  string
	log     *slog.Logger
	observe func(context.Context, Event)
	start   Position
}

const (
	settingSecret = "secret"
	secretSize    = 32
	idPrefix      = "op_"
)

var idEncoding = base32.NewEncoding("0123456789abcdefghjkmnpqrstvwxyz").WithPadding(base32.NoPadding)

// NewOperator opens the operators' view of a store, without an engine. It makes the store's secret if there is none yet.
func NewOperator(ctx context.Context, store Store) (*Operator, error) {
	all, err := store.Settings(ctx)
	if err == nil && !slices.ContainsFunc(all, func(s Setting) bool { return s.Name == settingSecret }) {
		fresh := make([]byte, secretSize)
		_, _ = rand.Read(fresh) // never fails
		all, err = store.Settings(ctx, Setting{Name: settingSecret, Value: hex.EncodeToString(fresh), IfAbsent: true})
	}
	if err != nil {
		return nil, fmt.Errorf("einmal: reading the store's settings: %w", err)
	}
	o := &Operator{store: store, log: slog.Default()}
	for _, s := range all {
		switch s.Name {
		case settingSecret:
			o.secret, err = hex.DecodeString(s.Value)
		case "id":
			o.start.Store = s.Value
		case "epoch":
			_, err = fmt.Sscan(s.Value, &o.start.Epoch)
		case "seq":
			_, err = fmt.Sscan(s.Value, &o.start.Seq)
		}
		if err != nil {
			return nil, fmt.Errorf("einmal: the store's setting %q is damaged: %w", s.Name, err)
		}
	}
	if len(o.secret) != secretSize {
		return nil, errors.New("einmal: the store's secret is missing or damaged")
	}
	if o.ids, err = aes.NewCipher(o.secret); err != nil {
		return nil, fmt.Errorf("einmal: %w", err)
	}
	if d, ok := store.(RunDirer); ok {
		o.runDir = d.RunDir()
	}
	return o, nil
}

// publicID is one AES block over the record's ID and eight zero bytes: it cannot be guessed, and tells nothing of its neighbours.
func (o *Operator) publicID(id ID) string {
	var block [aes.BlockSize]byte
	binary.BigEndian.PutUint64(block[:], uint64(id))
	o.ids.Encrypt(block[:], block[:])
	return idPrefix + idEncoding.EncodeToString(block[:])
}

func (o *Operator) parseID(public string) (ID, bool) {
	raw, err := idEncoding.DecodeString(strings.TrimPrefix(public, idPrefix))
	if err != nil || len(raw) != aes.BlockSize || !strings.HasPrefix(public, idPrefix) {
		return 0, false
	}
	o.ids.Decrypt(raw, raw)
	id := ID(binary.BigEndian.Uint64(raw))
	return id, id > 0 && binary.BigEndian.Uint64(raw[8:]) == 0
}

func (o *Operator) operation(rec Record) Operation {
	return Operation{ID: o.publicID(rec.ID), Record: rec}
}

// Get returns an operation by its public ID. ErrNotFound, also for what is no ID of this store; ErrUnreadable.
func (o *Operator) Get(ctx context.Context, id string) (Operation, error) {
	n, ok := o.parseID(id)
	if !ok {
		return Operation{}, ErrNotFound
	}
	rec, err := o.store.Get(ctx, Ref{ID: n})
	if err != nil {
		return Operation{}, err
	}
	return o.operation(rec), nil
}

// Find returns an operation by its identity. ErrNotFound: that is no proof that a request with this key will not arrive. ErrUnreadable.
func (o *Operator) Find(ctx context.Context, identity Identity) (Operation, error) {
	rec, err := o.store.Get(ctx, Ref{Identity: identity})
	if err != nil {
		return Operation{}, err
	}
	return o.operation(rec), nil
}

// List returns a page of operations, oldest first, and the cursor of the next page.
func (o *Operator) List(ctx context.Context, f Filter) (page []Operation, next string, err error) {
	recs, next, err := o.store.List(ctx, f)
	if err != nil {
		return nil, "", err
	}
	page = make([]Operation, len(recs))
	for i := range recs {
		page[i] = o.operation(recs[i])
	}
	return page, next, nil
}

// Timeline returns every transition of an operation, oldest first. Ordinary ones are derived from the record. ErrNotFound, ErrUnreadable.
func (o *Operator) Timeline(ctx context.Context, id string) ([]Entry, error) {
	op, err := o.Get(ctx, id)
	if err != nil {
		return nil, err
	}
	stored, err := o.store.Timeline(ctx, op.Record.ID)
	if err != nil {
		return nil, err
	}
	line := append([]Entry{{At: op.Created, Event: EventReserved, To: StateRunning, Attempt: 1}}, stored...)
	last := line[len(line)-1]
	now := Entry{At: op.Changed, From: last.To, To: op.State, Attempt: op.Attempt}
	switch {
	case op.State == StateExpired:
		now.Event, now.Reason = EventExpired, op.Verdict.String()
	case op.State == StateCompleted && last.To != StateCompleted:
		now.Event, now.Reason = EventCompleted, op.Verdict.String()
	case op.State == StateNotApplied && last.To != StateNotApplied:
		now.Event, now.Reason = EventNotApplied, op.Reason
	case op.State == StateRunning && last.Attempt < op.Attempt:
		now.Event, now.From = EventStarted, StateNotApplied
	default:
		return line, nil
	}
	return append(line, now), nil
}

// ResolveAs is what a person says of an operation.
type ResolveAs string

const (
	ResolveApplied    ResolveAs = "applied"     // the effect happened
	ResolveNotApplied ResolveAs = "not-applied" // it did not; the next request runs the operation again
	ResolveWithdrawn  ResolveAs = "withdrawn"   // it did not, and shall not: closed for ever
)

// Resolution is a person's word on an operation that is unclear (or, to withdraw it, not applied).
type Resolution struct {
	ID      string
	Version int64 // of the operation as the person saw it; required
	As      ResolveAs
	Result  *Result // with ResolveApplied: the answer that the client shall get; nil: not known
	Actor   string  // who; required
	Reason  string  // why; required
	Link    string  // evidence, optional

	// AcceptLive allows "not applied" and "withdrawn" although an attempt is not provably over: it could still cause the effect.
	AcceptLive bool
}

// ResolveError says why an operation cannot be resolved this way, and what to do.
type ResolveError struct {
	Operation Operation
	Cause     string
	Hint      string
}

func (e *ResolveError) Error() string { return "einmal: cannot resolve: " + e.Cause + ": " + e.Hint }

// Resolve settles an operation with a reason. Errors: *ResolveError, a *StaleError when the version is not the one seen, ErrNotFound, ErrUnreadable.
// After any other error, look at the operation again before you repeat.
func (o *Operator) Resolve(ctx context.Context, r Resolution) (Operation, error) {
	op, err := o.Get(ctx, r.ID)
	if err != nil {
		return Operation{}, err
	}
	if r.Version == 0 || r.Version != op.Version {
		return op, &StaleError{Record: op.Record, Tried: Guard{Version: r.Version}}
	}
	if err := o.checkResolution(op, r); err != nil {
		return op, err
	}
	rec, err := o.store.Apply(ctx, settle(&op.Record, r))
	if err != nil {
		return op, err
	}
	op = o.operation(rec)
	o.tell(ctx, nil, Event{Name: EventResolved, Operation: op, Attempt: rec.Attempt, Reason: string(r.As)})
	return op, nil
}

func (o *Operator) checkResolution(op Operation, r Resolution) error {
	fail := func(cause, hint string) error { return &ResolveError{Operation: op, Cause: cause, Hint: hint} }
	switch {
	case strings.TrimSpace(r.Reason) == "":
		return fail("no reason", "say how you know; it is kept in the timeline")
	case strings.TrimSpace(r.Actor) == "":
		return fail("no actor", "say who you are; it is kept in the timeline")
	case r.As != ResolveApplied && r.As != ResolveNotApplied && r.As != ResolveWithdrawn:
		return fail(fmt.Sprintf("unknown resolution %q", r.As), "use applied, not-applied or withdrawn")
	case len(r.Reason) > maxText || len(r.Actor) > maxText || len(r.Link) > maxText:
		return fail("a text of more than 4 KiB", "keep the evidence elsewhere and link to it")
	case r.Result != nil && r.As != ResolveApplied:
		return fail("a result with "+string(r.As), "only an applied operation has an answer")
	case r.Result != nil && badResult(r.Result) != "":
		return fail(badResult(r.Result), "give the answer that the first caller would have got")
	case op.State == StateRunning && op.Lapsed():
		return fail("it is running, but its lease is over", "wait until recovery has marked it unclear")
	case op.State == StateRunning:
		return fail("it is running", fmt.Sprintf("it ends or becomes unclear by %s at the latest", op.InFlightUntil().UTC().Format(time.RFC3339)))
	case op.State == StateNotApplied && r.As != ResolveWithdrawn:
		return fail("it is not applied", "the next request runs it; to close it for ever, resolve it as withdrawn")
	case op.State != StateUnclear && op.State != StateNotApplied:
		return fail("it is "+op.State.String(), "a settled operation never changes")
	}
	if r.As == ResolveApplied || r.AcceptLive {
		return nil
	}
	for _, a := range o.AttemptsOver(op) {
		if !a.Over {
			return fail(fmt.Sprintf("attempt %d is not provably over (%s)", a.Attempt, a.Why),
				"it could still cause the effect: stop its process first, or accept the risk (AcceptLive)")
		}
	}
	return nil
}

// badResult says what is wrong with an answer that a person gives, "" for nothing.
func badResult(r *Result) string {
	if r.Status < 200 || r.Status > 599 {
		return fmt.Sprintf("the status %d is none of a final answer", r.Status)
	}
	if r.Kept != KeptWhole || len(r.Body) > mostMaxResult {
		return fmt.Sprintf("an answer that is not whole, or larger than %d bytes", mostMaxResult)
	}
	size := 0
	for _, f := range r.Header {
		size += len(f.Name) + len(f.Value)
		stored := slices.ContainsFunc(contract.StoredFields, func(name string) bool { return strings.EqualFold(name, f.Name) })
		if !stored || strings.ContainsFunc(f.Value, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }) {
			return fmt.Sprintf("the header field %q cannot be stored", f.Name)
		}
	}
	if size > maxHeader {
		return fmt.Sprintf("header fields of more than %d bytes", maxHeader)
	}
	return ""
}

// AttemptLife says whether an attempt is provably over, and how that is known.
type AttemptLife struct {
	Attempt int
	Over    bool
	Why     string
	Holder  Holder
}

// AttemptsOver judges every attempt of an operation that has an entry in Ends: over is one that spoke itself, or whose process's lock is free.
func (o *Operator) AttemptsOver(op Operation) []AttemptLife {
	var lives []AttemptLife
	for _, e := range op.Ends {
		l := AttemptLife{Attempt: e.Attempt, Holder: e.Holder}
		if e.Holder == (Holder{}) {
			l.Over, l.Why = true, "it has ended"
		} else {
			l.Over, l.Why = holderOver(o.runDir, e.Holder)
		}
		lives = append(lives, l)
	}
	return lives
}

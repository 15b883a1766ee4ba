package einmal

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/einmal-dev/einmal/internal/mutant"
)

// who is the party that a transition belongs to.
type who string

const (
	whoRequest  who = "request"         // a new or repeated request
	whoAttempt  who = "current attempt" // the attempt that holds the record
	whoEarlier  who = "earlier attempt" // an attempt that lost its lease
	whoRecovery who = "recovery"
	whoPerson   who = "person"
	whoPurge    who = "purge"
)

// transition is one allowed step of the state machine (DESIGN, section 3). From 0 is no record, to 0 is the deleted one.
type transition struct {
	from, to State
	who      who
	when     string
}

// transitions is the whole table. Every change of state goes through move, which refuses what is not here; docs/states.md shows the same rows.
var transitions = []transition{
	{0, StateRunning, whoRequest, "no record with this identity; not paused, not restored, under the limits"},

	{StateRunning, StateCompleted, whoAttempt, "success; or a refusal, when no other attempt's end is open or unknown"},
	{StateRunning, StateNotApplied, whoAttempt, "no effect, when no other attempt's end is open, unknown or a refusal"},
	{StateRunning, StateUnclear, whoAttempt, "open; or any end but success while another attempt's end is open or unknown"},
	{StateRunning, StateUnclear, whoRecovery, "the lease is over, or the engine stops before the attempt has spoken; its end becomes unknown"},

	{StateRunning, StateRunning, whoEarlier, "anything but success: only that attempt's end is kept"},
	{StateRunning, StateCompleted, whoEarlier, "success"},
	{StateUnclear, StateCompleted, whoEarlier, "success; or the verdict over all ends is a refusal"},
	{StateUnclear, StateNotApplied, whoEarlier, "the verdict over all ends is no effect"},
	{StateUnclear, StateUnclear, whoEarlier, "an end is still open or unknown"},
	{StateNotApplied, StateCompleted, whoEarlier, "success against a person's word (alarm); or a refusal"},
	{StateNotApplied, StateNotApplied, whoEarlier, "no effect or open: a certificate stands"},

	{StateUnclear, StateRunning, whoRequest, "keyed; same parameters; age + deadline + lease within the partner window; backoff over; attempts left; clock not jumped"},
	{StateNotApplied, StateRunning, whoRequest, "same parameters"},

	{StateUnclear, StateCompleted, whoPerson, "applied, with the answer or without; or withdrawn"},
	{StateUnclear, StateNotApplied, whoPerson, "not applied: every open or unknown end becomes no effect"},
	{StateNotApplied, StateCompleted, whoPerson, "withdrawn"},

	{StateCompleted, StateExpired, whoPurge, "the window is over"},
	{StateNotApplied, StateExpired, whoPurge, "the window is over"},
	{StateExpired, 0, whoPurge, "the tombstone's time is over"},
}

// move starts a Transition of a record, guarded by its state, attempt and version. A step that the table does not have is a bug in the engine, and panics
// before it can be stored.
func move(rec *Record, to State, by who) Change {
	if !slices.ContainsFunc(transitions, func(t transition) bool { return t.from == rec.State && t.to == to && t.who == by }) {
		panic(fmt.Sprintf("einmal: bug: no transition from %v to %v by %s", rec.State, to, by))
	}
	return Change{
		ID: rec.ID, Kind: Transition, Nonce: newNonce(),
		Guard: Guard{State: rec.State, Attempt: rec.Attempt, Version: rec.Version},
		State: to, Attempt: rec.Attempt, Ends: rec.Ends, Verdict: rec.Verdict, Result: rec.Result, Attention: rec.Attention,
	}
}

// speak is an attempt's own word about itself: the change it makes, and whether it contradicts what was settled.
func speak(rec *Record, attempt int, word Ending) (change Change, alarm bool) {
	by := whoEarlier
	if attempt == rec.Attempt && rec.State == StateRunning {
		by = whoAttempt
	}
	if rec.State == StateCompleted || rec.State == StateExpired {
		return evidence(rec, attempt, word), contradicts(rec, attempt, word)
	}
	ends := slices.Clone(rec.Ends)
	i := slices.IndexFunc(ends, func(e AttemptEnd) bool { return e.Attempt == attempt })
	if i < 0 { // it certified "no effect" itself before
		return evidence(rec, attempt, word), word.End == EndSuccess
	}
	certified := ends[i].End.Certain() && ends[i].By != ActorAttempt
	alarm = certified && ends[i].End == EndNoEffect && word.End == EndSuccess
	if word.End == EndOpen && ends[i].End.Certain() {
		ends[i].Holder = Holder{} // a certificate stands against "I do not know", but the attempt is over now
	} else {
		ends[i] = AttemptEnd{Attempt: attempt, End: word.End, By: ActorAttempt}
		if word.End == EndRefused {
			ends[i].Result = word.Result // for the verdict now; what stays beside an open end is bounded below
		}
	}
	if word.End == EndSuccess {
		return complete(rec, by, attempt, ends, VerdictApplied, word.Result, word), alarm
	}
	if word.End == EndRefused && word.Bound && rec.Terms.Class == ClassKeyed {
		if until := speakForAll(rec, ends, attempt, word.Result); until != 0 {
			defer func() { change.Guard.MaxAge = until }()
		}
	}
	ends = dropOwnNoEffect(ends)
	if rec.State == StateRunning && by == whoEarlier {
		change = move(rec, StateRunning, by)
		change.Ends, change.Reason, change.Entry = boundAnswers(ends), rec.Reason, entryOf(rec, StateRunning, attempt, ActorAttempt, EventLateTruth, word)
		return change, alarm
	}
	state, verdict, result := verdictOver(ends)
	if mutant.On("later-refusal-completes") && word.End == EndRefused {
		state, verdict, result = StateCompleted, VerdictRefused, word.Result
	}
	if state == StateCompleted {
		return complete(rec, by, attempt, ends, verdict, result, word), alarm
	}
	change = move(rec, state, by)
	change.Ends, change.Reason = boundAnswers(ends), word.Reason
	if state == StateNotApplied && by == whoAttempt && len(ends) == 0 {
		return change, alarm // as ordinary as a completion: a client may retry a 429 for ever
	}
	event := EventNotApplied
	if state == StateUnclear {
		event = EventUnclear
		if rec.State != StateUnclear {
			change.DueIn = rec.Terms.UnclearDeadline
		}
		change.Reason = or(word.Reason, rec.Reason)
	}
	if by == whoEarlier {
		event = EventLateTruth
	}
	change.Entry = entryOf(rec, state, attempt, ActorAttempt, event, word)
	return change, alarm
}

// speakForAll lets a refusal that the partner keeps under the key speak for other attempts: no bytes of theirs can take effect any more, as long as they
// arrive while the partner knows the key. That holds for an earlier attempt: it was open when this one began, which was early enough for both. A later one
// may have begun after a certificate, at any time, so that is known only while the operation is so young that every attempt began early. The age up to which
// the change holds is returned, 0 if no end changed.
func speakForAll(rec *Record, ends []AttemptEnd, attempt int, answer *Result) (until time.Duration) {
	age := rec.Now.Sub(rec.Created)
	for i := range ends {
		e := &ends[i]
		if e.End != EndUnknown && e.End != EndOpen {
			continue
		}
		known := rec.Terms.PartnerWindow
		if e.Attempt > attempt {
			known = startableFor(rec)
		}
		if age > known {
			continue
		}
		e.End, e.Result = EndRefused, answer
		if until == 0 || known < until {
			until = known
		}
	}
	return until
}

// complete settles the record by an attempt's word. The ends stay as evidence unless there was only one attempt, whose end the verdict tells.
func complete(rec *Record, by who, attempt int, ends []AttemptEnd, verdict Verdict, result *Result, word Ending) Change {
	change := move(rec, StateCompleted, by)
	if result == nil {
		result = &Result{Kept: KeptUnknown}
	}
	for i := range ends {
		ends[i].Result = nil
	}
	change.Verdict, change.Result, change.Reason, change.Attention = verdict, result, word.Reason, false
	change.Recognise = rec.Terms.KeepResult
	change.Ends = ends
	if rec.Attempt == 1 {
		change.Ends = nil
	}
	if by != whoAttempt || rec.Attempt > 1 {
		event := EventCompleted
		if by == whoEarlier {
			event = EventLateTruth
		}
		change.Entry = entryOf(rec, StateCompleted, attempt, ActorAttempt, event, word)
	}
	return change
}

// dropOwnNoEffect leaves out attempts that certified "no effect" themselves, so that a client may retry a 429 for ever without growing the record.
func dropOwnNoEffect(ends []AttemptEnd) []AttemptEnd {
	return slices.DeleteFunc(ends, func(e AttemptEnd) bool { return e.End == EndNoEffect && e.By == ActorAttempt })
}

// maxKeptRefusal bounds an answer that is kept beside an open end, in bytes: there may be one for each attempt.
const maxKeptRefusal = 64 << 10

func boundAnswers(ends []AttemptEnd) []AttemptEnd {
	for i := range ends {
		if r := ends[i].Result; r != nil && len(r.Body) > maxKeptRefusal {
			ends[i].Result = &Result{Status: r.Status, Header: r.Header, Kept: KeptTooLarge}
		}
	}
	return ends
}

// evidence keeps a word that cannot change the record any more.
func evidence(rec *Record, attempt int, word Ending) Change {
	return Change{
		ID: rec.ID, Kind: Note, Guard: Guard{State: rec.State, Version: rec.Version},
		Entry: entryOf(rec, rec.State, attempt, ActorAttempt, EventEvidence, word),
	}
}

// contradicts reports whether a late word disagrees with a settled record: a success where nothing happened; of an opaque operation, a success of another
// attempt than the one that settled it, or one that a person had certified as no effect; and a certificate that leaves a person's "applied" without any
// attempt that could have done it.
func contradicts(rec *Record, attempt int, word Ending) bool {
	if rec.Verdict != VerdictApplied {
		return word.End == EndSuccess
	}
	byAttempt := slices.IndexFunc(rec.Ends, func(e AttemptEnd) bool { return e.End == EndSuccess })
	switch word.End {
	case EndSuccess:
		another := byAttempt >= 0 && rec.Ends[byAttempt].Attempt != attempt
		denied := slices.ContainsFunc(rec.Ends, func(e AttemptEnd) bool { return e.Attempt == attempt && e.End == EndNoEffect })
		return rec.Terms.Class != ClassKeyed && (another || denied)
	case EndNoEffect, EndRefused:
		byPerson := byAttempt < 0 && len(rec.Ends) > 0
		another := slices.ContainsFunc(rec.Ends, func(e AttemptEnd) bool { return e.Attempt != attempt && !e.End.Certain() })
		return byPerson && !another
	default:
		return false
	}
}

// lapse is what recovery does with a running record whose lease is over.
func lapse(rec *Record) Change {
	ends := slices.Clone(rec.Ends)
	for i := range ends {
		if ends[i].Attempt == rec.Attempt {
			ends[i].End, ends[i].By = EndUnknown, ActorRecovery
		}
	}
	change := move(rec, StateUnclear, whoRecovery)
	change.Guard.LeaseLapsed = true
	change.Ends, change.DueIn = ends, rec.Terms.UnclearDeadline
	change.Reason = "lease lost: the attempt has not spoken"
	change.Entry = entryOf(rec, StateUnclear, rec.Attempt, ActorRecovery, EventUnclear, Ending{End: EndUnknown, Reason: change.Reason})
	return change
}

// abandoned is lapse for an engine's own attempt that is still running when the engine must stop.
func abandoned(rec *Record) Change {
	change := lapse(rec)
	change.Guard.LeaseLapsed = false
	change.Reason = "the server stopped before the attempt had spoken"
	change.Entry.Reason = change.Reason
	return change
}

// mayRunAgain reports whether the class allows another attempt on an unclear record now or later, and how long to wait for it.
func mayRunAgain(rec *Record) (wait time.Duration, ok bool) {
	if mutant.On("rerun-opaque") {
		return 0, true
	}
	if rec.Terms.Class != ClassKeyed || rec.Attempt >= rec.Terms.MaxAttempts {
		return 0, false
	}
	backoff := rec.Terms.Backoff << min(rec.Attempt-1, 16)
	wait = max(0, backoff-rec.Now.Sub(rec.Changed))
	return wait, !rec.Created.After(rec.Now) && rec.Now.Sub(rec.Created)+wait <= startableFor(rec)
}

// startableFor is the age of the first reservation up to which a keyed operation may start another attempt.
func startableFor(rec *Record) time.Duration {
	return rec.Terms.PartnerWindow - rec.Terms.Deadline - rec.Terms.Lease
}

// restart is a request's start of another attempt on an unclear or not applied record.
func restart(rec *Record, holder Holder) Change {
	change := move(rec, StateRunning, whoRequest)
	change.Guard.Start = true
	if rec.State == StateUnclear && !mutant.On("rerun-after-window") && !mutant.On("rerun-opaque") {
		change.Guard.MaxAge = startableFor(rec)
	}
	change.Attempt = rec.Attempt + 1
	if mutant.On("token-reset") {
		change.Attempt = 1
	}
	change.Ends = append(slices.Clone(rec.Ends), AttemptEnd{Attempt: change.Attempt, Holder: holder})
	change.LeaseFor, change.DueIn = rec.Terms.Lease, rec.Terms.Lease
	change.Recognise = rec.Terms.Deadline + rec.Terms.Lease + rec.Terms.KeepResult
	change.Attention = false
	if rec.State == StateUnclear || len(rec.Ends) > 0 {
		change.Entry = entryOf(rec, StateRunning, change.Attempt, ActorAttempt, EventStarted, Ending{Reason: "repeated request"})
	}
	return change
}

// settle is a person's word on a record; the resolution has been checked.
func settle(rec *Record, r Resolution) Change {
	state := StateCompleted
	if r.As == ResolveNotApplied {
		state = StateNotApplied
	}
	change := move(rec, state, whoPerson)
	change.Guard = Guard{State: rec.State, Version: r.Version}
	change.Attention, change.Reason = false, "resolved as "+string(r.As) // the person's own words are for the timeline only
	change.Ends = slices.Clone(rec.Ends)
	switch r.As {
	case ResolveApplied:
		change.Verdict, change.Result = VerdictApplied, r.Result
		if r.Result == nil {
			change.Result = &Result{Kept: KeptUnknown}
		}
	case ResolveWithdrawn:
		change.Verdict, change.Result = VerdictWithdrawn, nil
	case ResolveNotApplied:
		for i := range change.Ends {
			if !change.Ends[i].End.Certain() {
				change.Ends[i].End, change.Ends[i].By = EndNoEffect, ActorPerson
			}
		}
	}
	if state == StateCompleted {
		change.Recognise = rec.Terms.KeepResult
		for i := range change.Ends {
			change.Ends[i].Result = nil
		}
	}
	change.Entry = &Entry{
		Event: EventResolved, From: rec.State, To: state, Attempt: rec.Attempt, Actor: ActorPerson, By: r.Actor,
		Reason: string(r.As) + ": " + r.Reason, Link: r.Link,
	}
	return change
}

// maxEscalationDelay bounds the doubling time between escalations.
const maxEscalationDelay = 24 * time.Hour

// escalate calls the owner of an unclear record and sets the time of the next call.
func escalate(rec *Record) Change {
	next := rec.Terms.UnclearDeadline << min(rec.Escalations+1, 16)
	if next > maxEscalationDelay || next <= 0 {
		next = max(maxEscalationDelay, rec.Terms.UnclearDeadline)
	}
	return Change{
		ID: rec.ID, Kind: Note, Guard: Guard{State: StateUnclear, Version: rec.Version}, DueIn: next, Attention: true,
		Entry: &Entry{Event: EventEscalated, From: StateUnclear, To: StateUnclear, Attempt: rec.Attempt, Actor: ActorRecovery, Reason: "unclear beyond its deadline; told " + rec.Terms.Owner},
	}
}

func entryOf(rec *Record, to State, attempt int, actor Actor, event string, word Ending) *Entry {
	var why []string
	if word.End != EndNone {
		why = append(why, word.End.String())
	}
	for _, text := range []string{word.Reason, word.Detail} {
		if text != "" {
			why = append(why, text)
		}
	}
	return &Entry{Event: event, From: rec.State, To: to, Attempt: attempt, Actor: actor, Reason: strings.Join(why, ": ")}
}

package einmal

import "context"

// Names of timeline entries and of observed events.
const (
	EventReserved   = "reserved"     // the first attempt began
	EventStarted    = "started"      // another attempt began
	EventCompleted  = "completed"    // an attempt settled the operation
	EventNotApplied = "not-applied"  // an attempt certified that nothing happened
	EventUnclear    = "unclear"      // an attempt ended and nobody knows
	EventLateTruth  = "late-truth"   // an earlier attempt spoke
	EventEvidence   = "evidence"     // a word that came after the record was settled
	EventEscalated  = "escalated"    // the owner was told
	EventResolved   = "resolved"     // a person settled it
	EventExpired    = "expired"      // the window is over
	EventReplayed   = "replayed"     // observed only: a stored answer was given
	EventRefused    = "refused"      // observed only: a request met a problem; Reason is its kind
	EventUnrecorded = "unrecorded"   // observed only: an attempt's word could not be stored in time
	EventClock      = "clock-jumped" // observed only: purging and re-runs wait for an operator
)

// Event is one thing that happened, for Config.Observe.
type Event struct {
	Name      string
	Operation Operation // zero where there is none
	Attempt   int
	Alarm     bool // somebody should look
	Reason    string
}

// Attribute names of the log.
const (
	logOperation = "operation"
	logID        = "id"
	logTenant    = "tenant"
	logState     = "state"
	logAttempt   = "attempt"
	logOwner     = "owner"
	logReason    = "reason"
	logSince     = "since"
	logError     = "error"
)

// tell sends an event to the hook, and to the log if it is an alarm.
func (o *Operator) tell(ctx context.Context, rec *Record, ev Event) {
	if o.observe == nil && !ev.Alarm {
		return
	}
	if rec != nil {
		ev.Operation = o.operation(*rec)
	}
	if ev.Alarm {
		op := &ev.Operation
		o.log.ErrorContext(ctx, "einmal: "+ev.Name, logOperation, op.Operation, logTenant, op.Tenant, logID, op.ID,
			logState, op.State.String(), logAttempt, ev.Attempt, logOwner, op.Terms.Owner, logSince, op.Changed, logReason, ev.Reason)
	}
	if o.observe != nil {
		o.observe(ctx, ev)
	}
}

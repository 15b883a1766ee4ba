package model

// Situation is something that an exploration must have seen, or it shows nothing.
type Situation uint8

const (
	BecameUnclear Situation = iota
	TookOver                // another attempt began after a lost lease
	TookOverTwice
	ThreeCrashes
	ReRan             // another attempt began on an unclear record
	ZombieSent        // bytes sent after the lease was lost
	ZombieArrived     // bytes of an attempt whose record had moved on arrived and took effect
	ArrivedAfterCrash // bytes arrived after their worker's crash and took effect
	RenewalRefused
	LateInRunning // an earlier attempt spoke while another ran
	LateInUnclear
	LateInNotApplied
	LateInCompleted
	LateInExpired
	LateSuccess
	LateRefusal
	LateNoEffect
	LateOpen
	LateSuccessOvertook // an earlier attempt's success settled the record under the running one
	RunningBecameEvidence
	SpokeForAll    // a refusal bound to the key settled other attempts' ends
	WordHeardTwice // an attempt offered its word again
	Repeated       // the partner repeated a stored answer
	Forgot         // the partner had forgotten the key and did it again
	OverdueEffect  // bytes overdue at the end of the partner's window took effect
	Replayed       // a duplicate got the recorded answer
	Alarmed
	Withdrew
	PersonApplied
	PersonNotApplied
	PersonLied
	LieReRun
	LieDoubled // and the effect happened twice
	ReRunAfterNoEffect
	ExpiredCompleted
	ExpiredNotApplied
	DeletedTombstone
	AskedExpired // a duplicate met the tombstone
	situations
)

var situationNames = [situations]string{
	"became unclear", "took over after a lost lease", "took over twice", "three crashes", "re-run on an unclear record", "zombie sent after its lease was lost",
	"zombie's bytes took effect", "bytes took effect after their worker's crash", "renewal refused", "late truth while running", "late truth in unclear",
	"late truth in not_applied", "late truth in completed", "late truth in expired", "late success", "late refusal", "late certificate", "late open",
	"earlier success overtook the running attempt", "the running attempt's end was evidence", "refusal spoke for every attempt", "word offered again",
	"partner repeated a stored answer", "partner forgot the key and did it again", "overdue bytes took effect", "replayed", "alarm", "withdrawn",
	"person: applied", "person: not applied", "person: wrongly 'not applied' or 'withdrawn'", "re-run after a wrong 'not applied'",
	"effect twice after a wrong 'not applied'", "re-run after not_applied", "completed expired", "not_applied expired", "tombstone deleted",
	"duplicate met the tombstone",
}

func (s Situation) String() string { return situationNames[s] }

// AllSituations are all of them.
func AllSituations() []Situation {
	all := make([]Situation, situations)
	for i := range all {
		all[i] = Situation(i)
	}
	return all
}

// note counts what an edge shows.
func (p *Report) note(m *Rules, from *State, e *Edge) {
	see := func(s Situation, seen bool) {
		if seen {
			p.Seen[s]++
		}
	}
	was, is := &from.Record, &e.To.Record
	see(BecameUnclear, was.Status != Unclear && is.Status == Unclear)
	see(Alarmed, e.Alarm)
	switch e.Kind {
	case Requests:
		began := is.Attempt > was.Attempt
		lost := 0
		for i := range is.Attempt {
			if e := is.Ends[i]; e.By == Recovery || e.By == Person {
				lost++
			}
		}
		see(TookOver, began && lost > 0)
		see(TookOverTwice, began && lost > 1)
		see(ReRan, began && was.Status == Unclear)
		see(ReRunAfterNoEffect, began && was.Status == NotApplied)
		see(LieReRun, began && from.Lie != NoLie)
		see(Replayed, e.Tell == TheAnswer)
		see(AskedExpired, e.Tell == KeyExpired)
	case Sends:
		see(ZombieSent, !from.holdsLease(e.Attempt))
	case Arrives:
		doubled := e.Reply.effect() && from.Effects > 0
		see(ZombieArrived, e.Reply.effect() && !from.holdsLease(e.Attempt))
		see(ArrivedAfterCrash, e.Reply.effect() && from.at(e.Attempt).Doing == Over)
		see(Repeated, e.Reply == Repeats || e.Reply == RepeatsNo)
		see(Forgot, m.Class == Keyed && doubled)
		see(OverdueEffect, e.Reply.effect() && from.at(e.Attempt).Bytes == Overdue)
		see(LieDoubled, doubled && from.Lie == LiedReRun && !e.To.Late)
	case Renews:
		see(RenewalRefused, !from.holdsLease(e.Attempt))
	case Crashes:
		over := 0
		for _, a := range e.To.Attempts {
			if a.Doing == Over {
				over++
			}
		}
		see(ThreeCrashes, over == Attempts && is.Answer.Verdict == NoVerdict)
	case Reports, Offers:
		p.noteWord(from, e)
	case Resolves:
		see(Withdrew, e.Statement == SaysWithdrawn)
		see(PersonApplied, e.Statement == SaysApplied)
		see(PersonNotApplied, e.Statement == SaysNotApplied)
		see(PersonLied, e.Statement != SaysApplied && !from.Honest)
	case Purges:
		see(ExpiredCompleted, was.Status == Completed)
		see(ExpiredNotApplied, was.Status == NotApplied)
		see(DeletedTombstone, is.Status == Deleted)
	}
}

var (
	lateIn = [...]Situation{
		Running: LateInRunning, Unclear: LateInUnclear, NotApplied: LateInNotApplied, Completed: LateInCompleted, Expired: LateInExpired,
	}
	lateWord = [...]Situation{Success: LateSuccess, Refused: LateRefusal, NoEffect: LateNoEffect, Open: LateOpen}
)

// noteWord counts what an attempt's word shows.
func (p *Report) noteWord(from *State, e *Edge) {
	was, is := &from.Record, &e.To.Record
	word := from.at(e.Attempt).Holds
	current := was.Status == Running && was.Attempt == e.Attempt
	if e.Kind == Offers {
		p.Seen[WordHeardTwice]++
	}
	for i := range is.Attempt {
		if is.Ends[i].By == Key && was.Ends[i].By != Key {
			p.Seen[SpokeForAll]++
			break
		}
	}
	if current {
		return
	}
	p.Seen[lateIn[was.Status]]++
	p.Seen[lateWord[word]]++
	if was.Status == Running && is.Status == Completed {
		p.Seen[LateSuccessOvertook]++
	}
	if was.Status == Completed && was.Attempt == e.Attempt && was.EndOf(e.Attempt).Word == Silent {
		p.Seen[RunningBecameEvidence]++
	}
}

// holdsLease reports whether attempt n is the running one and its lease is not over.
func (s *State) holdsLease(n uint8) bool {
	return s.Record.Status == Running && !s.Record.Lapsed && s.Record.Attempt == n
}

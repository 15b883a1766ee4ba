package model

// Rules are the record's rules for one class, with at most one planted bug.
type Rules struct {
	Class       Class
	MaxAttempts uint8 // on an unclear record
	Bug         Bug
}

// Reserve is the first request.
func (m *Rules) Reserve(r Record) Record {
	r.Status, r.Attempt = Running, 1
	return r
}

// MayStart reports whether a request with the same parameters starts another attempt, once the backoff is over.
func (m *Rules) MayStart(r Record, phase Phase) bool {
	switch r.Status {
	case NotApplied:
		return true
	case Unclear:
		inTime := phase == Early || m.Bug == RerunAfterWindow
		return (m.Class == Keyed || m.Bug == RerunOpaque) && inTime && r.Attempt < m.MaxAttempts
	case Expired:
		return m.Bug == ExpiredRuns
	}
	return false
}

// Start is another attempt by a request.
func (m *Rules) Start(r Record) Record {
	r.Status, r.Lapsed = Running, false
	r.Attempt++
	if m.Bug == TokenReset {
		r.Attempt = 1
	}
	*r.EndOf(r.Attempt) = End{}
	return r
}

// Recover is what a request or the loop does with a lapsed lease.
func (m *Rules) Recover(r Record) Record {
	r.Status, r.Lapsed = Unclear, false
	*r.EndOf(r.Attempt) = End{Word: Unknown, By: Recovery}
	if m.Bug == LapseIsNoEffect {
		*r.EndOf(r.Attempt) = End{Word: NoEffect, By: Recovery}
		r.Status = NotApplied
	}
	return r
}

// verdict is the statement about the operation that all ends allow.
func (m *Rules) verdict(r Record) (Status, Answer) {
	var open, refused bool
	var answer uint8
	for n := uint8(1); n <= r.Attempt; n++ {
		switch e := r.EndOf(n); e.Word {
		case Success:
			return Completed, Answer{Applied, n}
		case Refused:
			refused, answer = true, e.Answer
		case Silent, Unknown, Open:
			open = true
		}
	}
	switch {
	case open:
		return Unclear, Answer{}
	case refused:
		return Completed, Answer{Rejected, answer}
	}
	return NotApplied, Answer{}
}

// Speak is the word of an attempt about itself, whenever it comes, and whether it calls for an alarm: it contradicts what was settled or certified.
// Bound says that the word is a refusal which the partner keeps under the key.
func (m *Rules) Speak(r Record, n uint8, word Word, bound bool, phase Phase) (after Record, alarm bool) {
	after, alarm = m.speak(r, n, word, bound, phase)
	return after, alarm && m.Bug != NoAlarm
}

func (m *Rules) speak(r Record, n uint8, word Word, bound bool, phase Phase) (after Record, alarm bool) {
	own := r.EndOf(n)
	current := r.Status == Running && (n == r.Attempt || m.Bug == NoFence)
	switch {
	case r.Status == Completed && m.Bug == CompletedChanges && word == Success:
		r.Answer = Answer{Applied, n}
		return r, true
	case r.Status == Completed || r.Status == Expired:
		return r, m.contradicts(r, n, word)
	}

	if own.Word == NoEffect && own.By == Itself && !current {
		return r, word == Success // it has certified "no effect" before: said again, it is evidence
	}
	switch {
	case word == Open && m.Bug == OpenIsSuccess:
		word = Success
	case word == Success && r.Status == Running && !current && m.Bug == SuccessOvertaken:
		return r, false
	case r.Status != Running && m.Bug == WrongEnd:
		own = r.EndOf(r.Attempt)
	}
	alarm = word == Success && own.Word == NoEffect && own.By == Person
	if word != Open || !own.Word.certain() || m.Bug == OpenReplaces {
		*own = End{Word: word}
		if word == Refused {
			own.Answer = n
		}
	}
	if bound && m.Class == Keyed {
		for i := range r.Attempt {
			if e := &r.Ends[i]; (e.Word == Open || e.Word == Unknown) && m.speaksFor(n, i+1, phase) {
				*e = End{Word: Refused, By: Key, Answer: n}
			}
		}
	}
	switch {
	case word == Success:
		return m.settled(r, Completed, Answer{Applied, n}), alarm
	case word == Refused && m.Bug == LaterRefusalCompletes:
		return m.settled(r, Completed, Answer{Rejected, n}), alarm
	case r.Status == Running && !current:
		return r, alarm
	case current && m.Bug == NoFence:
		r.Ends[r.Attempt-1] = r.Ends[n-1]
	}
	status, answer := m.verdict(r)
	return m.settled(r, status, answer), alarm
}

// speaksFor reports whether attempt n's refusal, kept by the partner under the key, says that attempt other had no effect and will have none. The partner must
// still know the key when other's bytes arrive at the latest. That is so for an earlier one, since it was still open when n began, and n began early for that
// reason; a later one may have begun after a certificate, at any time.
func (m *Rules) speaksFor(n, other uint8, phase Phase) bool {
	switch m.Bug {
	case BoundAfterWindow:
		return true
	case BoundForLater:
		return phase != Past
	}
	return phase == Early || phase == Closed && other < n
}

func (m *Rules) settled(r Record, status Status, answer Answer) Record {
	r.Status, r.Answer, r.Lapsed = status, answer, false
	return r
}

// contradicts reports whether a word disagrees with a settled record: a success where the record says that nothing happened; where the partner does not
// deduplicate, a second success, or one that a person had certified as no effect; a certificate that leaves a person's "applied" without any attempt that
// could have done it.
func (m *Rules) contradicts(r Record, n uint8, word Word) bool {
	switch word {
	case Success:
		second := r.Answer.From != 0 && (r.Answer.From != n || m.Bug == AlarmOnRepeat)
		denied := r.EndOf(n).Word == NoEffect && r.EndOf(n).By == Person
		return r.Answer.Verdict != Applied || m.Class == Opaque && (second || denied)
	case NoEffect, Refused:
		if r.Answer.Verdict != Applied || r.Answer.From != 0 {
			return false
		}
		for i := range r.Attempt {
			if w := r.Ends[i].Word; i != n-1 && !w.certain() {
				return false
			}
		}
		return true
	}
	return false
}

// MayResolve reports whether a person may say this of the record.
func (m *Rules) MayResolve(r Record, s Statement) bool {
	switch r.Status {
	case Unclear:
		return s != SaysNothing
	case NotApplied:
		return s == SaysWithdrawn
	case Running:
		return m.Bug == ResolveRunning
	}
	return false
}

// Resolve is a person's statement.
func (m *Rules) Resolve(r Record, s Statement) Record {
	switch s {
	case SaysApplied:
		return m.settled(r, Completed, Answer{Applied, 0})
	case SaysWithdrawn:
		return m.settled(r, Completed, Answer{Withdrawn, 0})
	}
	for i := range r.Attempt {
		if e := &r.Ends[i]; !e.Word.certain() {
			*e = End{Word: NoEffect, By: Person}
		}
	}
	return m.settled(r, NotApplied, Answer{})
}

// MayPurge reports whether purging takes the record once its time is over.
func (m *Rules) MayPurge(r Record) bool {
	switch r.Status {
	case Completed, NotApplied, Expired:
		return true
	case Unclear:
		return m.Bug == UnclearExpires
	case Running:
		return m.Bug == PurgeRunning
	}
	return false
}

// Purge expires a closed record, and deletes a tombstone.
func (m *Rules) Purge(r Record) Record {
	if r.Status == Expired {
		return Record{Status: Deleted}
	}
	r.Status, r.Lapsed = Expired, false
	return r
}

// MayRenew reports whether a renewal by attempt n holds.
func (m *Rules) MayRenew(r Record, n uint8) bool {
	if r.Attempt != n {
		return false
	}
	return r.Status == Running && !r.Lapsed || m.Bug == RenewalRevives && (r.Status == Running || r.Status == Unclear)
}

// Renew is a renewal that holds.
func (m *Rules) Renew(r Record, n uint8) Record {
	r.Status, r.Lapsed, *r.EndOf(n) = Running, false, End{}
	return r
}

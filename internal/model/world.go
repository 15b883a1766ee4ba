package model

// Next appends every event that is possible in s, each with the state it leads to.
func (m *Rules) Next(s State, edges []Edge) []Edge {
	if s.Record.Status == Deleted {
		return edges
	}
	add := func(e Edge) { edges = append(edges, e) }

	add(m.request(s))
	if s.Record.Status == Unclear || s.Record.Status == Running && s.Record.Lapsed {
		add(m.hurry(s))
	}
	for n := uint8(1); n <= Attempts; n++ {
		edges = m.attempt(s, n, edges)
	}
	if s.Record.Status == Running {
		if s.Record.Lapsed {
			to := s
			m.write(&to, m.Recover(s.Record))
			add(Edge{Event: Event{Kind: Recovers}, To: to})
		} else {
			to := s
			to.Record.Lapsed = true
			add(Edge{Event: Event{Kind: LeaseEnds}, To: to})
		}
	}
	if to, ok := m.timeGoes(s); ok {
		add(Edge{Event: Event{Kind: TimeGoes}, To: to})
	}
	if s.Says == SaysNothing {
		for say := SaysApplied; say <= SaysWithdrawn; say++ {
			if m.MayResolve(s.Record, say) {
				to := s
				to.Says, to.Honest = say, s.truth(say)
				add(Edge{Event: Event{Kind: Looks, Statement: say}, To: to})
			}
		}
	} else if m.MayResolve(s.Record, s.Says) {
		add(Edge{Event: Event{Kind: Resolves, Statement: s.Says}, To: m.resolve(s)})
	}
	if m.MayPurge(s.Record) {
		to := s
		m.write(&to, m.Purge(s.Record))
		to.Told = Answer{} // no answer is given any more
		if to.Record.Status == Deleted {
			to.Attempts, to.Stores = [Attempts]Attempt{}, false // and nothing looks at these
		}
		add(Edge{Event: Event{Kind: Purges}, To: to})
	}
	return edges
}

// write puts a changed record in place. A person's statement about the old one can only be refused from now on, so the person is sent to look again.
func (m *Rules) write(s *State, r Record) {
	if s.Record == r {
		return
	}
	s.Record = r
	if s.Says == SaysNothing {
		return
	}
	if m.Bug == VersionNotChecked {
		s.Stale = true
		return
	}
	s.Says, s.Honest = SaysNothing, false
}

// tell answers a caller from the record as it stands.
func tell(e *Edge) {
	switch e.To.Record.Status {
	case Completed:
		e.Tell, e.Answer = TheAnswer, e.To.Record.Answer
		e.To.Told = e.Answer
	case Running:
		e.Tell = InProgress
	case Unclear:
		e.Tell = IsUnclear
	case NotApplied:
		e.Tell = NothingDone
	case Expired:
		e.Tell = KeyExpired
	}
}

func (m *Rules) request(s State) Edge {
	e := Edge{Event: Event{Kind: Requests}, To: s}
	r := s.Record
	switch {
	case r.Status == Absent:
		m.begin(&e.To, m.Reserve(r))
		return e
	case r.Attempt < Attempts && m.MayStart(r, s.Phase):
		if s.Lie != NoLie {
			e.To.Lie = LiedReRun
		}
		m.begin(&e.To, m.Start(r))
		return e
	case r.Status == Running && r.Lapsed:
		m.write(&e.To, m.Recover(r)) // and the backoff begins, if there is one
	}
	tell(&e)
	return e
}

// begin lets the record's new attempt begin.
func (m *Rules) begin(s *State, r Record) {
	m.write(s, r)
	*s.at(r.Attempt) = Attempt{Doing: Begun, Ends: m.Class == Keyed && s.Phase == Early}
}

func (m *Rules) hurry(s State) Edge {
	e := Edge{Event: Event{Kind: Hurries}, To: s}
	if s.Record.Status == Running {
		m.write(&e.To, m.Recover(s.Record))
	}
	tell(&e)
	return e
}

// attempt appends what attempt n and its bytes can do.
func (m *Rules) attempt(s State, n uint8, edges []Edge) []Edge {
	step := func(kind Kind, a Attempt) {
		to := s
		*to.at(n) = a.tidy()
		edges = append(edges, Edge{Event: Event{Kind: kind, Attempt: n}, To: to})
	}
	a := *s.at(n)
	switch a.Doing {
	case Begun:
		step(Sends, Attempt{Doing: Waiting, Bytes: UnderWay, Ends: a.Ends})
		step(NoLink, Attempt{Doing: Holding, Holds: NoEffect})
		step(GivesUp, Attempt{Doing: Holding, Holds: Open})
	case Waiting:
		step(GivesUp, Attempt{Doing: Holding, Holds: Open, Bytes: a.Bytes, Ends: a.Ends})
	case Holding:
		edges = append(edges, m.report(s, n, Reports), m.report(s, n, Offers))
		if m.Bug == AnswerBeforeCommit && a.Holds >= Refused {
			e := Edge{Event: Event{Kind: Blurts, Attempt: n}, To: s, Tell: TheAnswer, Answer: Answer{Applied, n}}
			if a.Holds == Refused {
				e.Answer.Verdict = Rejected
			}
			e.To.Told = e.Answer
			edges = append(edges, e)
		}
	}
	if a.Doing == Begun || a.Doing == Waiting || a.Doing == Holding {
		step(Crashes, Attempt{Doing: Over, Bytes: a.Bytes, Ends: a.Ends})
		to := s
		if m.MayRenew(s.Record, n) {
			m.write(&to, m.Renew(s.Record, n))
		}
		edges = append(edges, Edge{Event: Event{Kind: Renews, Attempt: n}, To: to})
	}
	if a.Bytes != NoBytes {
		for reply := Lost; reply <= RepeatsNo; reply++ {
			if m.possible(&s, a, reply) {
				edges = append(edges, arrive(s, n, reply))
			}
		}
	}
	return edges
}

// tidy drops what an attempt cannot need any more.
func (a Attempt) tidy() Attempt {
	if a.Doing != Begun && a.Bytes == NoBytes {
		a.Ends = false
	}
	return a
}

func (m *Rules) report(s State, n uint8, kind Kind) Edge {
	e := Edge{Event: Event{Kind: kind, Attempt: n}, To: s}
	a := e.To.at(n)
	after, alarm := m.Speak(s.Record, n, a.Holds, a.Bound, s.Phase)
	m.write(&e.To, after)
	e.Alarm = alarm
	if kind == Reports {
		*a = Attempt{Doing: Over, Bytes: a.Bytes, Ends: a.Ends}
		tell(&e)
	}
	return e
}

// possible reports whether the partner may treat the bytes like this.
func (m *Rules) possible(s *State, a Attempt, reply Reply) bool {
	if a.Doing != Waiting && (reply == Does || reply == Refuses || reply == TurnsAway || reply == RefusesKey || reply >= Repeats) {
		return false // nobody listens: the mute replies cover it
	}
	if m.Class == Opaque {
		return reply <= TurnsAway
	}
	isNew := s.Effects == 0 && !s.Stores || s.Phase == Past || m.Bug == NewPartnerKey
	switch reply {
	case Does, DoesMutely, RefusesKey, RefusesMutely:
		return isNew
	case Repeats:
		return s.Effects > 0
	case RepeatsNo:
		return s.Stores
	}
	return true
}

func arrive(s State, n uint8, reply Reply) Edge {
	e := Edge{Event: Event{Kind: Arrives, Attempt: n, Reply: reply}, To: s}
	a := e.To.at(n)
	if reply.effect() {
		e.To.Effects = min(s.Effects+1, 2)
		e.To.Late = s.Late || a.Bytes == Overdue
	}
	if reply == RefusesKey || reply == RefusesMutely {
		e.To.Stores = true
	}
	a.Bytes = NoBytes
	if a.Doing == Waiting {
		a.Doing = Holding
		a.Holds, a.Bound = reply.word()
	}
	*a = a.tidy()
	return e
}

// timeGoes moves a keyed operation into its next phase. An attempt whose context ends before the partner's window has sent its bytes by then, or never will;
// bytes still under way are overdue.
func (m *Rules) timeGoes(s State) (State, bool) {
	if m.Class != Keyed || s.Record.Status == Absent || s.Phase == Past {
		return s, false
	}
	s.Phase++
	if s.Phase == Closed {
		return s, true
	}
	for i := range s.Attempts {
		a := &s.Attempts[i]
		if a.Doing == Begun && a.Ends {
			return s, false
		}
		if a.Bytes == UnderWay && a.Ends {
			a.Bytes = Overdue
		}
		a.Ends = false
	}
	return s, true
}

// truth reports whether a person who knows everything could say this: "not applied" and "withdrawn" need an effect that neither happened nor can still
// happen.
func (s *State) truth(say Statement) bool {
	if say == SaysApplied {
		return s.Effects > 0
	}
	if s.Effects > 0 {
		return false
	}
	for _, a := range s.Attempts {
		if a.Doing == Begun || a.Bytes != NoBytes {
			return false
		}
	}
	return true
}

func (m *Rules) resolve(s State) State {
	say, honest := s.Says, s.Honest
	m.write(&s, m.Resolve(s.Record, say))
	s.Says, s.Honest, s.Stale = SaysNothing, false, false
	switch {
	case honest:
	case say == SaysApplied:
		s.False = true
	case s.Lie == NoLie:
		s.Lie = Lied
	}
	return s
}

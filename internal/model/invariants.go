package model

// An invariant is what the design promises. Invariants look at what the partner did and at what people were told, not at how the rules came to it.
type invariant struct {
	name  string
	holds func(m *Rules, from *State, e *Edge) bool
}

// ofStates hold in every state that can be reached.
var ofStates = []invariant{
	{
		"an opaque effect happens twice only when a person wrongly said 'not applied' and it was run again",
		func(m *Rules, from *State, e *Edge) bool {
			return m.Class != Opaque || e.To.Effects < 2 || e.To.Lie == LiedReRun
		},
	},
	{
		"a keyed effect never happens twice inside the partner's window, whatever a person said",
		func(m *Rules, from *State, e *Edge) bool {
			return m.Class != Keyed || e.To.Effects < 2 || e.To.Phase == Past
		},
	},
	{
		"a keyed effect happens twice after it only through overdue bytes or a person who wrongly said 'not applied'",
		func(m *Rules, from *State, e *Edge) bool {
			return m.Class != Keyed || e.To.Effects < 2 || e.To.Late || e.To.Lie == LiedReRun
		},
	},
	{
		"the record never says 'nothing happened' of an effect that happened",
		func(m *Rules, from *State, e *Edge) bool {
			return !e.To.denies() || e.To.Effects == 0 || e.To.excused()
		},
	},
	{
		"the record never says 'applied' of an effect that did not happen, unless a person said so",
		func(m *Rules, from *State, e *Edge) bool {
			return e.To.Record.Answer.Verdict != Applied || e.To.Effects > 0 || e.To.False
		},
	},
	{
		"a record that nobody runs is what the verdict over its ends says, unless a person settled it",
		func(m *Rules, from *State, e *Edge) bool { return e.To.followsEnds() },
	},
	{
		"an answer that was given is the recorded one",
		func(m *Rules, from *State, e *Edge) bool {
			r := &e.To.Record
			return e.To.Told == Answer{} || r.Status == Completed && r.Answer == e.To.Told
		},
	},
}

// ofTells hold for everything that a caller is told.
var ofTells = []invariant{
	{
		"no caller is told 'nothing happened' of an effect that happened",
		func(m *Rules, from *State, e *Edge) bool {
			denied := e.Tell == NothingDone || e.Tell == TheAnswer && e.Answer.Verdict != Applied
			return !denied || e.To.Effects == 0 || e.To.excused()
		},
	},
	{
		"no caller is told 'applied' of an effect that did not happen, unless a person said so",
		func(m *Rules, from *State, e *Edge) bool {
			return e.Tell != TheAnswer || e.Answer.Verdict != Applied || e.To.Effects > 0 || e.To.False
		},
	},
	{
		"every caller is given the same answer",
		func(m *Rules, from *State, e *Edge) bool {
			return e.Tell != TheAnswer || from.Told == Answer{} || e.Answer == from.Told
		},
	},
}

// ofWrites hold for every change of the record.
var ofWrites = []invariant{
	{
		"a completed record never changes until its window is over",
		func(m *Rules, from *State, e *Edge) bool {
			return from.Record.Status != Completed || e.Kind == Purges && e.To.Record.Status == Expired
		},
	},
	{
		"an expired key never runs",
		func(m *Rules, from *State, e *Edge) bool {
			return from.Record.Status != Expired || e.To.Record.Status == Deleted
		},
	},
	{
		"open records never expire",
		func(m *Rules, from *State, e *Edge) bool {
			return e.To.Record.Status != Expired || from.Record.Status == Completed || from.Record.Status == NotApplied
		},
	},
	{
		"attempts are numbered one after the other and never reset",
		func(m *Rules, from *State, e *Edge) bool {
			was, is := &from.Record, &e.To.Record
			if is.Status == Running && was.Status != Running {
				return is.Attempt == was.Attempt+1
			}
			return is.Attempt == was.Attempt || is.Status == Deleted
		},
	},
	{
		"a lost lease is never held again",
		func(m *Rules, from *State, e *Edge) bool {
			was, is := &from.Record, &e.To.Record
			held := is.Status == Running && !is.Lapsed
			return !held || was.Status == Running && !was.Lapsed || is.Attempt == was.Attempt+1
		},
	},
	{
		"a person never settles a running operation",
		func(m *Rules, from *State, e *Edge) bool {
			return e.Kind != Resolves || from.Record.Status != Running
		},
	},
	{
		"a certificate never gives way to 'open' or 'unknown'",
		func(m *Rules, from *State, e *Edge) bool {
			for i := range Attempts {
				if from.Record.Ends[i].Word.certain() && !e.To.Record.Ends[i].Word.certain() && e.To.Record.Status != Deleted {
					return false
				}
			}
			return true
		},
	},
}

// ofWords hold for every word of an attempt.
var ofWords = []invariant{
	{
		"an attempt's word changes no other attempt's certificate",
		func(m *Rules, from *State, e *Edge) bool {
			for i := range Attempts {
				if uint8(i+1) != e.Attempt && from.Record.Ends[i].Word.certain() && e.To.Record.Ends[i] != from.Record.Ends[i] {
					return false
				}
			}
			return true
		},
	},
	{
		"a success completes an open or not applied record, whichever attempt it is",
		func(m *Rules, from *State, e *Edge) bool {
			settled := from.Record.Status == Completed || from.Record.Status == Expired
			return settled || from.at(e.Attempt).Holds != Success || e.To.Record.Status == Completed
		},
	},
	{
		"a success against 'nothing happened' raises an alarm",
		func(m *Rules, from *State, e *Edge) bool {
			end := from.Record.EndOf(e.Attempt)
			equal := m.Class == Keyed && from.Record.Answer.Verdict == Applied // the partner did it once, whoever asked
			denied := from.settledNegative() || end.Word == NoEffect && end.By == Person && !equal
			return e.Alarm || !denied || from.at(e.Attempt).Holds != Success
		},
	},
	{
		"a second success of an opaque effect raises an alarm",
		func(m *Rules, from *State, e *Edge) bool {
			a := from.Record.Answer
			second := a.Verdict == Applied && a.From != 0 && a.From != e.Attempt
			return e.Alarm || !second || m.Class != Opaque || from.at(e.Attempt).Holds != Success
		},
	},
	{
		"without a wrong statement or overdue bytes nothing raises an alarm",
		func(m *Rules, from *State, e *Edge) bool {
			return !e.Alarm || e.To.excused() || e.To.False
		},
	},
}

// denies reports whether the record says that nothing happened.
func (s *State) denies() bool { return s.Record.Status == NotApplied || s.settledNegative() }

func (s *State) settledNegative() bool {
	r := &s.Record
	return (r.Status == Completed || r.Status == Expired) && r.Answer.Verdict != Applied
}

// excused reports the two known ways in which "nothing happened" can be wrong.
func (s *State) excused() bool { return s.Lie != NoLie || s.Late }

// followsEnds reports whether an unclear record has an end that is open or unknown, and a not applied or refused one has none.
func (s *State) followsEnds() bool {
	r := &s.Record
	if r.Status != Unclear && r.Status != NotApplied && r.Answer.Verdict != Rejected {
		return true
	}
	uncertain, success := false, false
	for i := range r.Attempt {
		w := r.Ends[i].Word
		uncertain = uncertain || w == Open || w == Unknown
		success = success || w == Success
	}
	if r.Answer.Verdict == Rejected && r.Ends[r.Attempt-1].Word == Silent {
		return false
	}
	return !success && uncertain == (r.Status == Unclear)
}

// Invariants names all of them.
func Invariants() []string {
	var names []string
	for _, group := range [][]invariant{ofStates, ofTells, ofWrites, ofWords} {
		for _, inv := range group {
			names = append(names, inv.name)
		}
	}
	return names
}

package model

// packer gives every state a number of its own. Attempts and ends come in few different kinds, so each is kept as the number of its kind.
type packer struct {
	attempts [1 << 10]uint8
	ends     [1 << 7]uint8
	nAttempt uint8
	nEnd     uint8
}

// pack folds and numbers a state.
func (p *packer) pack(s State) uint64 {
	s.fold()
	return p.packAll(&s)
}

func (p *packer) packAll(s *State) uint64 {
	var key uint64
	put := func(v uint8, bits uint) { key = key<<bits | uint64(v) }
	flag := func(b bool) {
		key <<= 1
		if b {
			key |= 1
		}
	}
	r := &s.Record
	put(uint8(r.Status), 3)
	put(r.Attempt, 2)
	flag(r.Lapsed)
	put(uint8(r.Answer.Verdict), 2)
	put(r.Answer.From, 2)
	for i := range s.Attempts {
		put(p.attempt(&s.Attempts[i]), 5)
		put(p.end(&r.Ends[i]), 4)
	}
	put(s.Effects, 2)
	flag(s.Stores)
	put(uint8(s.Phase), 2)
	put(uint8(s.Says), 2)
	flag(s.Honest)
	flag(s.Stale)
	put(uint8(s.Told.Verdict), 2)
	put(s.Told.From, 2)
	put(uint8(s.Lie), 2)
	flag(s.False)
	flag(s.Late)
	return key
}

// Pair numbers what an event and the record that it meets have to do with each other. It is 0 for what the record learns nothing of.
func (p *packer) pair(s *State, e Event) uint64 {
	switch e.Kind {
	case Requests, Hurries, LeaseEnds, Recovers, Resolves, Purges:
	case Reports, Offers:
		e.Kind = Reports
	default:
		return 0
	}
	seen := State{Record: s.Record, Phase: s.Phase}
	if e.Kind == Reports {
		a := s.at(e.Attempt)
		seen.Attempts[0] = Attempt{Doing: Holding, Holds: a.Holds, Bound: a.Bound}
	}
	return p.packAll(&seen)<<8 | uint64(e.Kind)<<4 | uint64(e.Attempt)<<2 | uint64(e.Statement)
}

func (p *packer) attempt(a *Attempt) uint8 {
	raw := uint(a.Doing)<<7 | uint(a.Holds)<<4 | uint(a.Bytes)<<2
	if a.Bound {
		raw |= 2
	}
	if a.Ends {
		raw |= 1
	}
	return number(&p.attempts[raw], &p.nAttempt, 1<<5)
}

func (p *packer) end(e *End) uint8 {
	return number(&p.ends[uint(e.Word)<<4|uint(e.By)<<2|uint(e.Answer)], &p.nEnd, 1<<4)
}

// number gives a kind the next free number when it is first met.
func number(kind, next *uint8, limit uint8) uint8 {
	if *kind == 0 {
		*next++
		if *next >= limit {
			panic("model: too many kinds to pack")
		}
		*kind = *next
	}
	return *kind
}

// fold makes states equal that differ only in what cannot matter any more once the record is settled. Of an end that is whether it is certain and whether a
// person certified it; of a word that is not yet spoken, whether it can contradict the record. All of it is for alarms: the record itself is closed.
func (s *State) fold() {
	if s.Record.Status != Completed && s.Record.Status != Expired {
		return
	}
	for i := range s.Record.Ends {
		switch e := &s.Record.Ends[i]; {
		case e.Word == NoEffect && e.By == Person:
		case e.Word.certain():
			*e = End{Word: NoEffect}
		default:
			*e = End{Word: Open}
		}
	}
	byPerson := s.Record.Answer == Answer{Applied, 0}
	for i := range s.Attempts {
		a := &s.Attempts[i]
		switch {
		case a.Doing != Holding || a.Holds == Success:
		case byPerson && a.Holds != Open:
			a.Holds, a.Bound = NoEffect, false
		default:
			a.Doing, a.Holds, a.Bound = Over, Silent, false
		}
	}
}

// set is a set of packed states, none of which is 0. It is what takes most of an exploration's time.
type set struct {
	slots []uint64
	count int
}

// add reports whether the key is new.
func (s *set) add(key uint64) bool {
	if s.count*2 >= len(s.slots) {
		old := s.slots
		s.slots = make([]uint64, max(1024, 2*len(old)))
		for _, k := range old {
			if k != 0 {
				s.slots[s.find(k)] = k
			}
		}
	}
	at := s.find(key)
	if s.slots[at] == key {
		return false
	}
	s.slots[at] = key
	s.count++
	return true
}

func (s *set) find(key uint64) uint64 {
	mask := uint64(len(s.slots) - 1)
	at := key * 0x9e3779b97f4a7c15 >> 20 & mask
	for s.slots[at] != 0 && s.slots[at] != key {
		at = (at + 1) & mask
	}
	return at
}

package model

// Who is the party that a change of the record belongs to.
type Who uint8

const (
	ARequest Who = iota
	CurrentAttempt
	EarlierAttempt
	ARecovery
	APerson
	APurge
)

func (w Who) String() string {
	return [...]string{"request", "current attempt", "earlier attempt", "recovery", "person", "purge"}[w]
}

// Move is a row of the transition table.
type Move struct {
	From, To Status
	Who      Who
}

// moveOf is the row that an edge belongs to; ok is false for an edge that is none: nothing is written, or only the lease.
func moveOf(from *State, e *Edge) (m Move, ok bool) {
	was, is := &from.Record, &e.To.Record
	m = Move{From: was.Status, To: is.Status}
	switch e.Kind {
	case Reports, Offers:
		if was.Status == Completed || was.Status == Expired {
			return m, false // evidence
		}
		if m.Who = EarlierAttempt; was.Status == Running && was.Attempt == e.Attempt {
			m.Who = CurrentAttempt
		}
		return m, true
	case Requests, Hurries, Recovers:
		if m.Who = ARequest; is.Status == Unclear {
			m.Who = ARecovery
		}
	case Resolves:
		m.Who = APerson
	case Purges:
		m.Who = APurge
	default:
		return m, false
	}
	return m, m.From != m.To
}

// Moves are the rows of the transition table that some edge was.
func (p *Report) Moves() (moves []Move) {
	for from := range p.moves {
		for to := range p.moves[from] {
			for who, seen := range p.moves[from][to] {
				if seen {
					moves = append(moves, Move{Status(from), Status(to), Who(who)})
				}
			}
		}
	}
	return moves
}

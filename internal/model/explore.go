package model

import (
	"fmt"
	"slices"
	"strings"
)

// Report is what an exploration found.
type Report struct {
	Class     Class
	States    int
	Edges     int
	Depth     int
	Seen      [situations]int // how many edges showed each situation
	Violation *Violation      // the first one, by number of steps

	moves  [Deleted + 1][Deleted + 1][APurge + 1]bool
	rules  Rules
	packer packer
	nodes  []node
	steps  []step
}

// step is the first edge that showed a record and an event of it together.
type step struct {
	at    int32 // the node that it leaves
	event Event
	pair  uint64
}

// Violation is a broken invariant, with the shortest way to it.
type Violation struct {
	Invariant string
	Trace     []Edge
}

func (v *Violation) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "broken: %s\n", v.Invariant)
	for i, e := range v.Trace {
		fmt.Fprintf(&b, "%3d. %-64s %s\n", i+1, e.Event, e.describe())
	}
	return b.String()
}

// describe is a state on one line.
func (e *Edge) describe() string {
	s := &e.To
	var b strings.Builder
	fmt.Fprintf(&b, "| %v", s.Record.Status)
	if s.Record.Lapsed {
		b.WriteString(", lapsed")
	}
	if s.Record.Answer != (Answer{}) {
		fmt.Fprintf(&b, " %v", s.Record.Answer)
	}
	if s.Record.Attempt > 0 {
		ends := make([]string, s.Record.Attempt)
		for i := range ends {
			ends[i] = s.Record.Ends[i].String()
		}
		fmt.Fprintf(&b, " [%s]", strings.Join(ends, ", "))
	}
	fmt.Fprintf(&b, " | effects %d", s.Effects)
	if s.Phase != Early {
		fmt.Fprintf(&b, ", %v", s.Phase)
	}
	if e.Tell != NotTold {
		fmt.Fprintf(&b, " | told: %v", e.Tell)
		if e.Tell == TheAnswer {
			fmt.Fprintf(&b, ", %v", e.Answer)
		}
	}
	if e.Alarm {
		b.WriteString(" | alarm")
	}
	return b.String()
}

type node struct {
	state  State
	parent int32
	depth  int32
}

// Explore visits every state that can be reached, nearest first, and stops at the first broken invariant. With a name it looks at that invariant only.
func Explore(m Rules, only ...string) *Report {
	report := &Report{Class: m.Class, rules: m}
	p := &report.packer
	nodes := []node{{parent: -1}}
	var known, pairs set
	known.add(p.pack(State{}))
	var edges []Edge
	for at := int32(0); int(at) < len(nodes); at++ {
		from := nodes[at]
		report.Depth = int(from.depth)
		edges = m.Next(from.state, edges[:0])
		report.Edges += len(edges)
		for i := range edges {
			e := &edges[i]
			report.note(&m, &from.state, e)
			if move, ok := moveOf(&from.state, e); ok {
				report.moves[move.From][move.To][move.Who] = true
			}
			if key := p.pair(&from.state, e.Event); key != 0 && pairs.add(key) {
				report.steps = append(report.steps, step{at, e.Event, key})
			}
			isNew := false
			if e.To != from.state && known.add(p.pack(e.To)) {
				isNew = true
				nodes = append(nodes, node{state: e.To, parent: at, depth: from.depth + 1})
			}
			if broken := check(&m, &from.state, e, isNew, only); broken != "" {
				report.Violation = &Violation{broken, append(trace(&m, nodes, at), *e)}
				report.States = len(nodes)
				return report
			}
		}
	}
	report.States, report.nodes = len(nodes), nodes
	return report
}

// Pairs are the numbers of all pairs of a record and something that happens to it, in the order in which they can be reached.
func (p *Report) Pairs() []uint64 {
	pairs := make([]uint64, len(p.steps))
	for i, s := range p.steps {
		pairs[i] = s.pair
	}
	return pairs
}

// Pair numbers the pair of a state's record and an event. 0 is an event of which the record learns nothing.
func (p *Report) Pair(s *State, e Event) uint64 { return p.packer.pair(s, e) }

// Way is the shortest way to the i-th pair; its last event is the pair's.
func (p *Report) Way(i int) []Event {
	s := p.steps[i]
	var way []Event
	for _, e := range trace(&p.rules, p.nodes, s.at) {
		way = append(way, e.Event)
	}
	return append(way, s.event)
}

// check returns the first invariant that an edge breaks.
func check(m *Rules, from *State, e *Edge, isNew bool, only []string) string {
	breaks := func(where []invariant) string {
		for i := range where {
			if !where[i].holds(m, from, e) && (len(only) == 0 || slices.Contains(only, where[i].name)) {
				return where[i].name
			}
		}
		return ""
	}
	broken := ""
	if isNew {
		broken = breaks(ofStates)
	}
	if broken == "" && e.Tell != NotTold {
		broken = breaks(ofTells)
	}
	if broken == "" && e.To.Record != from.Record {
		broken = breaks(ofWrites)
	}
	if broken == "" && (e.Kind == Reports || e.Kind == Offers) {
		broken = breaks(ofWords)
	}
	return broken
}

// trace finds the events on the way to a node.
func trace(m *Rules, nodes []node, at int32) []Edge {
	if nodes[at].parent < 0 {
		return nil
	}
	way := trace(m, nodes, nodes[at].parent)
	for _, e := range m.Next(nodes[nodes[at].parent].state, nil) {
		if e.To == nodes[at].state {
			return append(way, e)
		}
	}
	panic("model: an edge is lost")
}

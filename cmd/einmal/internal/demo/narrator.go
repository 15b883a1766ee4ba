package demo

import (
	"strings"
	"time"

	"github.com/einmal-dev/einmal/cmd/einmal/internal/term"
)

// narrator writes the demo's story: what each side saw, in three lanes, each line when it has happened.
type narrator struct {
	term.Out
	pace time.Duration // between lines, for people who read along
}

// readingPace is used on terminals only; nothing depends on it.
const readingPace = 110 * time.Millisecond

func newNarrator(out term.Out) *narrator {
	n := &narrator{Out: out}
	if out.Terminal {
		n.pace = readingPace
	}
	return n
}

func (n *narrator) breathe() {
	if n.pace > 0 {
		time.Sleep(n.pace)
	}
}

// The lanes' widths; with the margin they make 80 columns.
const (
	margin      = "   "
	clientLane  = 26
	serverLane  = 27
	narrowWidth = 80 - len(margin)
)

// arrow is what goes from one lane to the next.
type arrow int

const (
	nothing arrow = iota
	right
	left
	lost // it never arrived on the left
)

func (n *narrator) heading(number int, title string) {
	n.Printf("\n%s\n", n.Bold(term.Pad(string(rune('0'+number)), 3)+title))
	n.Printf("%s%s\n", margin, n.Dim(term.Pad("client", clientLane)+term.Pad("server", serverLane)+"partner"))
}

// line writes one line over the lanes.
func (n *narrator) line(client string, a arrow, server string, b arrow, partner string) {
	n.breathe()
	text := n.lane(client, clientLane, a) + n.lane(server, serverLane, b) + partner
	n.Printf("%s%s\n", margin, strings.TrimRight(text, " "))
}

func (n *narrator) lane(text string, width int, a arrow) string {
	if text != "" {
		text += " "
	}
	room := max(2, width-1-term.Width(text))
	shaft := strings.Repeat("─", room-1)
	switch a {
	case right:
		return text + n.Dim(shaft+"▶") + " "
	case left:
		return text + n.Dim("◀"+shaft) + " "
	case lost:
		return text + n.Red("✗") + n.Dim(shaft) + " "
	}
	return term.Pad(text, width)
}

// sentence writes one under the lanes.
func (n *narrator) sentence(text string) {
	n.breathe()
	for _, line := range term.Wrap(text, narrowWidth) {
		n.Printf("%s%s\n", margin, line)
	}
}

// check writes what was checked, and whether it holds.
func (n *narrator) check(ok bool, text string) {
	n.breathe()
	mark := n.Green("✓")
	if !ok {
		mark = n.Red("✗")
	}
	lines := term.Wrap(text, narrowWidth-2)
	n.Printf("%s%s %s\n", margin, mark, lines[0])
	for _, line := range lines[1:] {
		n.Printf("%s  %s\n", margin, line)
	}
}

// quote writes what another program wrote.
func (n *narrator) quote(command, output string) {
	n.breathe()
	for i, line := range strings.Split(command, "\n") {
		prompt := "$ "
		if i > 0 {
			prompt = "  "
		}
		n.Printf("%s%s\n", margin, n.Bold(prompt+line))
	}
	for _, line := range term.SafeLines(output) {
		n.Printf("%s%s\n", margin, strings.TrimRight(n.Dim("│ ")+line, " "))
	}
	n.breathe()
}

package opview

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/einmal-dev/einmal"
	"github.com/einmal-dev/einmal/cmd/einmal/internal/term"
)

// Detail is everything about one operation.
type Detail struct {
	Operation einmal.Operation
	Lives     []einmal.AttemptLife
	Timeline  []einmal.Entry
	Body      bool // show the stored answer's body
	Hint      Hint
}

type attemptRow struct {
	einmal.AttemptLife
	end, by string
}

// attempts has a row for every attempt, those too that certified "no effect" themselves and have no entry in the record.
func (d *Detail) attempts() []attemptRow {
	op := &d.Operation
	byNumber := map[int]attemptRow{}
	for i, e := range op.Ends {
		if i < len(d.Lives) {
			byNumber[e.Attempt] = attemptRow{d.Lives[i], e.End.String(), e.By.String()}
		}
	}
	var rows []attemptRow
	for n := 1; n <= op.Attempt; n++ {
		row, ok := byNumber[n]
		switch {
		case ok && row.end == einmal.EndNone.String():
			row.by = ""
		case ok:
		case n == op.Attempt && op.Verdict == einmal.VerdictApplied:
			row = ended(n, einmal.EndSuccess)
		case n == op.Attempt && op.Verdict == einmal.VerdictRefused:
			row = ended(n, einmal.EndRefused)
		case op.State == einmal.StateExpired:
			continue // a tombstone may have forgotten it
		default:
			row = ended(n, einmal.EndNoEffect)
		}
		rows = append(rows, row)
	}
	return rows
}

func ended(n int, end einmal.End) attemptRow {
	return attemptRow{einmal.AttemptLife{Attempt: n, Over: true, Why: "it has ended"}, end.String(), einmal.ActorAttempt.String()}
}

// Write shows it to people.
func (d Detail) Write(o term.Out) {
	op := &d.Operation
	o.Printf("%s\n", o.Bold(op.ID))
	d.sentences(o)
	o.Printf("\n")
	d.facts(o)
	d.result(o)
	o.Printf("\n")
	d.attemptTable(o)
	o.Printf("\n")
	d.timeline(o, "  ", d.Timeline)
	d.advise(o)
}

func (d *Detail) sentences(o term.Out) {
	op := &d.Operation
	flag := ""
	if op.Attention {
		flag = ", needs attention: the owner was told " + count(op.Escalations, "time", "times")
	}
	o.Printf("  %s since %s%s\n", tint(o, op, stateWord(op)), term.When(op.Changed, op.Now), flag)
	o.Paragraph("  ", Means(op))
	if op.Reason != "" {
		o.Paragraph("  ", "Why: "+term.Safe(op.Reason)+".")
	}
	o.Paragraph("  ", "Who sends the request again gets: "+Callers(op))
}

func (d *Detail) facts(o term.Out) {
	op := &d.Operation
	fact := func(name, value string) { o.Printf("  %s  %s\n", o.Dim(term.Pad(name, 11)), value) }
	fact("operation", op.Operation+" ("+op.Terms.Class.String()+")")
	fact("tenant", tenant(op.Tenant))
	fact("key", term.Safe(op.Key))
	fact("principal", term.Safe(op.Principal))
	fact("owner", term.Safe(op.Terms.Owner))
	fact("created", term.When(op.Created, op.Now))
	if op.State == einmal.StateRunning {
		fact("in flight", "until "+term.When(op.InFlightUntil(), op.Now)+" at the latest")
	}
	if op.PartnerKey != "" {
		fact("partner key", term.Safe(op.PartnerKey))
	}
	if op.Terms.PartnerWindow > 0 {
		fact("partner", "deduplicates until "+term.When(op.Created.Add(op.Terms.PartnerWindow), op.Now))
	}
	if op.State == einmal.StateUnclear {
		fact("escalation", "next at "+term.When(op.Due, op.Now))
	}
	fact("window", "until "+term.When(op.RecognisedUntil, op.Now))
	fact("version", strconv.FormatInt(op.Version, 10))
}

func (d *Detail) result(o term.Out) {
	r := d.Operation.Result
	if r == nil {
		return
	}
	o.Printf("  %s  ", o.Dim(term.Pad("result", 11)))
	switch r.Kept {
	case einmal.KeptUnknown:
		o.Printf("not known\n")
		return
	case einmal.KeptTooLarge:
		o.Printf("%d, too large to store\n", r.Status)
	default:
		o.Printf("%d, %s\n", r.Status, count(len(r.Body), "byte", "bytes"))
	}
	for _, f := range r.Header {
		o.Printf("  %s  %s: %s\n", strings.Repeat(" ", 11), term.Safe(f.Name), term.Safe(f.Value))
	}
	if d.Body && r.Kept == einmal.KeptWhole && len(r.Body) > 0 {
		o.Printf("\n")
		for _, line := range term.SafeLines(string(r.Body)) {
			o.Printf("  %s\n", line)
		}
	}
}

func (d *Detail) attemptTable(o term.Out) {
	t := term.Table{Columns: []term.Column{{Name: "ATTEMPT", Right: true}, {Name: "END"}, {Name: "SAID BY"}, {Name: "OVER"}, {Name: "HOW THAT IS KNOWN"}}}
	for _, a := range d.attempts() {
		over := "no"
		if a.Over {
			over = "yes"
		}
		t.Rows = append(t.Rows, []string{strconv.Itoa(a.Attempt), a.end, a.by, over, term.Safe(a.Why)})
	}
	t.Write(o, "  ")
}

// Since shows what happened to the operation after it was at an earlier version.
func (d Detail) Since(o term.Out, indent string, version int64) {
	later := d.Operation.Version - version
	i := len(d.Timeline)
	for ; i > 0 && later > 0; i-- {
		if e := d.Timeline[i-1].Event; e != einmal.EventEvidence && e != einmal.EventEscalated { // which change no version
			later--
		}
	}
	d.timeline(o, indent, d.Timeline[i:])
}

func (d *Detail) timeline(o term.Out, indent string, entries []einmal.Entry) {
	t := term.Table{Columns: []term.Column{{Name: "TIME"}, {Name: "EVENT"}, {Name: "STATE"}, {Name: "BY"}}}
	for _, e := range entries {
		state := e.To.String()
		if e.From != 0 && e.From != e.To {
			state = e.From.String() + " → " + state
		}
		by := e.Actor.String()
		switch {
		case e.By != "":
			by = term.Safe(e.By)
		case e.Actor == einmal.ActorAttempt && e.Attempt > 0:
			by = fmt.Sprintf("attempt %d", e.Attempt)
		}
		t.Rows = append(t.Rows, []string{term.Clock(e.At, d.Operation.Now), e.Event, state, by})
	}
	// A line's reason and link stand below it: they are the longest, and what one reads a timeline for.
	var lines strings.Builder
	plain := o
	plain.Writer = &lines
	t.Write(plain, indent)
	for i, line := range strings.SplitAfter(lines.String(), "\n") {
		o.Printf("%s", line)
		if i == 0 || i > len(entries) {
			continue
		}
		for _, more := range []string{entries[i-1].Reason, entries[i-1].Link} {
			if more == "" {
				continue
			}
			o.Paragraph(indent+strings.Repeat(" ", 10), term.Safe(more))
		}
	}
}

func (d *Detail) advise(o term.Out) {
	op := &d.Operation
	if op.State != einmal.StateUnclear {
		return
	}
	o.Printf("\n")
	if _, again := op.MayRunAgain(); again {
		o.Paragraph("", "Nothing needs to be done as long as the caller may send it again.")
		return
	}
	o.Paragraph("", "Find out at the partner whether it happened, then:")
	d.Hint.write(o, "operations", "resolve", op.ID, "--version", strconv.FormatInt(op.Version, 10), "--as", "applied|not-applied|withdrawn", "--reason", "how you know")
	o.Paragraph("", "(applied also needs --result-unknown, or the answer that callers shall get: --result FILE --status N)")
}

package opview

import (
	"fmt"

	"github.com/einmal-dev/einmal"
	"github.com/einmal-dev/einmal/cmd/einmal/internal/term"
)

// List writes operations as a table, or where a terminal is too narrow for it, as two lines each.
func List(o term.Out, page []einmal.Operation) {
	t := term.Table{Columns: []term.Column{{Name: "ID"}, {Name: "STATE"}, {Name: "SINCE"}, {Name: "OPERATION"}, {Name: "TENANT"}, {Name: "KEY"}, {Name: "OWNER"}}}
	for i := range page {
		op := &page[i]
		t.Rows = append(t.Rows, []string{
			op.ID, stateWord(op), term.When(op.Changed, op.Now), op.Operation, tenant(op.Tenant), term.Safe(op.Key), term.Safe(op.Terms.Owner),
		})
	}
	if o.Width == 0 || t.Width() <= o.Width {
		t.Style = func(row, column int, s string) string {
			if column == 1 {
				return tint(o, &page[row], s)
			}
			return s
		}
		t.Write(o, "")
		return
	}
	for i, row := range t.Rows {
		op := &page[i]
		o.Printf("%s  %s since %s\n", o.Bold(row[0]), tint(o, op, row[1]), row[2])
		who := row[3]
		if op.Tenant != "" {
			who += ", tenant " + row[4]
		}
		o.Paragraph("  ", who+", key "+row[5]+", owner "+row[6])
	}
}

// Advise says what to do about the unclear operations of a page.
func Advise(o term.Out, page []einmal.Operation, hint Hint) {
	var first *einmal.Operation
	var people, callers int
	for i := range page {
		op := &page[i]
		if op.State != einmal.StateUnclear {
			continue
		}
		if _, again := op.MayRunAgain(); again {
			callers++
			continue
		}
		people++
		if first == nil {
			first = op
		}
	}
	if people > 0 {
		it := "it"
		if people > 1 {
			it = "the first"
		}
		o.Printf("\n")
		o.Paragraph("", count(people, "operation is", "operations are")+" unclear: nobody knows whether the effect happened. To look at "+it+" and settle it:")
		hint.write(o, "operations", "show", first.ID)
	}
	if callers > 0 {
		o.Printf("\n")
		o.Paragraph("", count(callers, "operation is", "operations are")+" unclear, but may run again: the caller's next request with the same key does it.")
	}
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

package term

import (
	"strings"
)

// Column is the head of a table's column.
type Column struct {
	Name  string
	Right bool // numbers
}

// Table is rows under their columns, aligned by what is seen: its cells must be free of colour and made harmless.
type Table struct {
	Columns []Column
	Rows    [][]string
	Style   func(row, column int, padded string) string // nil: none
}

const gap = "  "

// Width is how many columns of a terminal the table takes.
func (t *Table) Width() int {
	total := len(gap) * (len(t.Columns) - 1)
	for _, w := range t.widths() {
		total += w
	}
	return total
}

func (t *Table) widths() []int {
	widths := make([]int, len(t.Columns))
	for i, c := range t.Columns {
		widths[i] = Width(c.Name)
		for _, row := range t.Rows {
			widths[i] = max(widths[i], Width(row[i]))
		}
	}
	return widths
}

// Write writes the table with its head.
func (t *Table) Write(o Out, indent string) {
	widths := t.widths()
	head := make([]string, len(t.Columns))
	for i, c := range t.Columns {
		head[i] = c.Name
	}
	o.Printf("%s%s\n", indent, o.Dim(strings.TrimRight(strings.Join(t.pad(head, widths), gap), " ")))
	for n, row := range t.Rows {
		cells := t.pad(row, widths)
		last := len(cells) - 1
		cells[last] = strings.TrimRight(cells[last], " ")
		if t.Style != nil {
			for i := range cells {
				cells[i] = t.Style(n, i, cells[i])
			}
		}
		o.Printf("%s%s\n", indent, strings.TrimRight(strings.Join(cells, gap), " "))
	}
}

func (t *Table) pad(row []string, widths []int) []string {
	cells := make([]string, len(row))
	for i, cell := range row {
		if t.Columns[i].Right {
			cells[i] = PadLeft(cell, widths[i])
		} else {
			cells[i] = Pad(cell, widths[i])
		}
	}
	return cells
}

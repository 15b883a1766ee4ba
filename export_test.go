package einmal

// TransitionRow is a row of the transition table, for the test that holds docs/states.md against it.
type TransitionRow struct {
	From, To  State // 0: no record, or deleted
	Who, When string
}

// Transitions is the whole table.
func Transitions() (rows []TransitionRow) {
	for _, t := range transitions {
		rows = append(rows, TransitionRow{t.from, t.to, string(t.who), t.when})
	}
	return rows
}

package einmal_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/einmal-dev/einmal"
)

// internal/model compares the same rows with what its exhaustive exploration does.
func TestTheDocsShowTheTransitionTable(t *testing.T) {
	t.Parallel()
	var want []string
	for _, row := range einmal.Transitions() {
		from, to := "–", "deleted"
		if row.From != 0 {
			from = row.From.String()
		}
		if row.To != 0 {
			to = row.To.String()
		}
		want = append(want, fmt.Sprintf("| %s | %s | %s | %s |", from, to, row.Who, row.When))
	}
	text, err := os.ReadFile("docs/states.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## The transitions\n")
	section, _, _ = strings.Cut(section, "\n## ")
	_, section, _ = strings.Cut(section, "|---|---|---|---|\n")
	table, _, _ := strings.Cut(section, "\n\n")
	if diff := cmp.Diff(want, strings.Split(table, "\n")); diff != "" {
		t.Errorf("docs/states.md (-transitions.go +docs):\n%s", diff)
	}
}

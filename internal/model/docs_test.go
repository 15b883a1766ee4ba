package model_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/einmal-dev/einmal/internal/model"
)

// TestTheModelMovesAsTheTableInTheDocsSays compares the rows of docs/states.md with the changes that the model makes. The root's tests compare them with the
// engine's own table.
func TestTheModelMovesAsTheTableInTheDocsSays(t *testing.T) {
	t.Parallel()
	if underRace {
		t.Skip("one goroutine, and ten times slower under the race detector")
	}
	text, err := os.ReadFile("../../docs/states.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, fact := range []string{
		fmt.Sprintf("%d bugs can be switched on", len(model.AllBugs())),
		fmt.Sprintf("counts %d situations", len(model.AllSituations())),
		fmt.Sprintf("met: %s for `opaque`,\n  %s for `keyed`", thousands(len(explored[model.Opaque]().Pairs())), thousands(len(explored[model.Keyed]().Pairs()))),
	} {
		if !strings.Contains(string(text), fact) {
			t.Errorf("docs/states.md lacks: %s", fact)
		}
	}
	docs := make(map[string]bool)
	_, section, _ := strings.Cut(string(text), "\n## The transitions\n")
	section, _, _ = strings.Cut(section, "\n## ")
	for line := range strings.Lines(section) {
		cells := strings.Split(line, " | ")
		if len(cells) == 4 && cells[3] != "when |\n" {
			docs[strings.TrimPrefix(strings.Join(cells[:3], " | "), "| ")] = true
		}
	}
	if len(docs) < 10 {
		t.Fatalf("only %d rows found in docs/states.md", len(docs))
	}
	seen := make(map[string]bool)
	for class, size := range sizes {
		if line := fmt.Sprintf("| %v | %s | %s |", class, thousands(size.states), thousands(size.edges)); !strings.Contains(string(text), line) {
			t.Errorf("docs/states.md lacks: %s", line)
		}
		for _, move := range explored[class]().Moves() {
			seen[row(move)] = true
		}
	}
	for r := range docs {
		if !seen[r] {
			t.Errorf("no edge of the model is: %s", r)
		}
	}
	for r := range seen {
		if !docs[r] {
			t.Errorf("docs/states.md lacks: %s", r)
		}
	}
}

func thousands(n int) string {
	if n < 1000 {
		return strconv.Itoa(n)
	}
	return fmt.Sprintf("%s,%03d", thousands(n/1000), n%1000)
}

// row is a move as docs/states.md writes it.
func row(m model.Move) string {
	from, to := m.From.String(), m.To.String()
	if m.From == model.Absent {
		from = "–"
	}
	return strings.Join([]string{from, to, m.Who.String()}, " | ")
}

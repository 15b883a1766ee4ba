package term_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/einmal-dev/einmal/cmd/einmal/internal/term"
)

func TestSafeLeavesTextAndDisarmsTheRest(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"plain":             "plain",
		`a "quoted" \ text`: `a "quoted" \ text`,
		"größer →":          "größer →",
		"\x1b[2J":           `\x1b[2J`,
		"a\nb":              `a\nb`,
		"\xff":              `\xff`,
		"\u202eevil":        `\u202eevil`,
	} {
		if got := term.Safe(in); got != want {
			t.Errorf("Safe(%q) = %q, want %q", in, got, want)
		}
	}
	if diff := cmp.Diff([]string{"a", `\x1bb`, "", "c"}, term.SafeLines("a\r\n\x1bb\n\nc\n")); diff != "" {
		t.Errorf("SafeLines (-want +got):\n%s", diff)
	}
}

func TestWrapBreaksAtSpaces(t *testing.T) {
	t.Parallel()
	if diff := cmp.Diff([]string{"one two", "three", "exceptionally", "x"}, term.Wrap("one two three exceptionally x", 8)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"one  two"}, term.Wrap("one  two", 0)); diff != "" {
		t.Errorf("without a width (-want +got):\n%s", diff)
	}
}

func TestWhenIsTheLocalTimeAndTheAge(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 9, 12, 0, 0, 0, time.Local)
	for _, tt := range []struct {
		ago  time.Duration
		want string
	}{
		{0, "12:00:00 (just now)"},
		{59 * time.Second, "11:59:01 (59s ago)"},
		{3*time.Minute + 59*time.Second, "11:56:01 (3m ago)"},
		{-time.Hour, "13:00:00 (in 1h)"},
		{26 * time.Hour, "2026-01-08 10:00:00 (26h ago)"},
		{72 * time.Hour, "2026-01-06 12:00:00 (3d ago)"},
	} {
		if got := term.When(now.Add(-tt.ago), now); got != tt.want {
			t.Errorf("%v ago is %q, want %q", tt.ago, got, tt.want)
		}
	}
}

func TestTableIsAlignedByWhatIsSeen(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	table := term.Table{
		Columns: []term.Column{{Name: "NAME"}, {Name: "N", Right: true}, {Name: "END"}},
		Rows:    [][]string{{"größer", "1", "x"}, {"a", "200", ""}},
	}
	table.Write(term.Out{Writer: &b}, "> ")
	want := "> NAME      N  END\n> größer    1  x\n> a       200\n"
	if diff := cmp.Diff(want, b.String()); diff != "" || table.Width() != len("NAME      N  END") {
		t.Errorf("width %d (-want +got):\n%s", table.Width(), diff)
	}
}

func TestColoursAreForTerminals(t *testing.T) {
	file, err := os.Create(t.TempDir() + "/out")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	t.Setenv("NO_COLOR", "")
	t.Setenv("COLUMNS", "44")
	if out := term.New(file); out.Colour || out.Terminal || out.Width != 44 || out.Red("x") != "x" {
		t.Errorf("a file is %+v", out)
	}
	if got := (term.Out{Colour: true}).Red("x"); got != "\x1b[31mx\x1b[0m" {
		t.Errorf("a terminal gets %q", got)
	}
}

func TestACommandLineIsWhatAShellTakes(t *testing.T) {
	t.Parallel()
	for word, want := range map[string]string{"op_1": "op_1", "sqlite:/a b": "'sqlite:/a b'", "it's": `'it'\''s'`, "": "''", "a|b": "'a|b'", "$HOME": "'$HOME'", "~x": "'~x'"} {
		if got := term.Quote(word); got != want {
			t.Errorf("Quote(%q) = %s, want %s", word, got, want)
		}
	}
	words := []string{"operations", "show", "op_1", "--store", "sqlite:x y", "--json"}
	if got, want := term.CommandLine(40, "einmal", words...), "einmal operations show op_1 \\\n    --store 'sqlite:x y' --json"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got, want := term.CommandLine(0, "go run ./cmd/einmal", words...), "go run ./cmd/einmal operations show op_1 --store 'sqlite:x y' --json"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

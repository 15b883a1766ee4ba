package main_test

import (
	"context"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/einmal-dev/einmal"
	"github.com/einmal-dev/einmal/sqlitestore"
)

const root = "../.."

// block returns the first code block of the README that begins so.
func block(t *testing.T, beginning string) string {
	t.Helper()
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	inside := false
	for line := range strings.SplitSeq(string(readme), "\n") {
		switch {
		case !strings.HasPrefix(line, "```"):
			lines = append(lines, line)
		case inside:
			if text := strings.Join(lines, "\n"); strings.HasPrefix(text, beginning) {
				return text
			}
			inside = false
		default:
			inside, lines = true, nil
		}
	}
	t.Fatalf("the README has no block that begins with %q", beginning)
	return ""
}

func TestTheREADMEsMiddlewareIsTheTestedExample(t *testing.T) {
	t.Parallel()
	body := function(t, filepath.Join(root, "einmalhttp", "example_test.go"), "ExampleServer_Wrap")
	if quoted := block(t, "eng"); !strings.HasPrefix(body, quoted+"\n") {
		t.Errorf("the README has\n%s\n\nthe example is\n%s", quoted, body)
	}
}

// openAsTheREADMESays is what the README shows.
func openAsTheREADMESays(ctx context.Context) error {
	store, err := sqlitestore.Open(ctx, "orders.db", sqlitestore.Options{})
	if err != nil {
		return err
	}
	defer store.Close()
	eng, err := einmal.New(einmal.Config{Store: store})
	if err != nil {
		return err
	}
	defer eng.Close(ctx) // after http.Server.Shutdown: lets attempts finish until ctx ends
	return nil
}

func TestTheREADMEsStoreIsMadeAndOpened(t *testing.T) {
	body, quoted := function(t, "readme_test.go", "openAsTheREADMESays"), block(t, "store, err")
	if body != quoted+"\nreturn nil\n" {
		t.Errorf("the README has\n%s\n\nwhat runs here is\n%s", quoted, body)
	}
	makes := block(t, "go run ./cmd/einmal init")
	t.Chdir(t.TempDir())
	if got := run(t, command(t, einmalPath, ".", strings.Fields(makes)[3:]...)); got.code != 0 {
		t.Fatalf("%s: %s", makes, got.stderr)
	}
	if err := openAsTheREADMESays(t.Context()); err != nil {
		t.Error(err)
	}
}

// function returns the body of a function, as it would stand on its own.
func function(t *testing.T, path, name string) string {
	t.Helper()
	source, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, source, 0)
	if err != nil {
		t.Fatal(err)
	}
	var body string
	for _, decl := range file.Decls {
		if f, ok := decl.(*ast.FuncDecl); ok && f.Name.Name == name {
			body = string(source[files.Position(f.Body.Lbrace).Offset+1 : files.Position(f.Body.Rbrace).Offset])
		}
	}
	body = strings.ReplaceAll(strings.TrimPrefix(body, "\n"), "\n\t", "\n")
	return strings.TrimPrefix(body, "\t")
}

// theREADMEQuotes checks that the demo printed what the README shows of it.
func theREADMEQuotes(t *testing.T, stdout string) {
	t.Helper()
	rest := stdout
	for line := range strings.Lines(block(t, "2  The answer")) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(line, "✓ ") {
			_, line, _ = strings.Cut(line, " requests") // a slow machine needs a few more
		}
		_, after, ok := strings.Cut(rest, line)
		if !ok {
			t.Errorf("the README shows a line that the demo did not print there: %q", line)
			continue
		}
		rest = after
	}
}

func TestTheREADMEShowsWhatPeopleInChargeSee(t *testing.T) {
	t.Parallel()
	s := newServer(t, einmal.Policy{})
	id := s.unclear("order-6")
	anyID := regexp.MustCompile(`op_[0-9a-z]{26}`)
	when := regexp.MustCompile(`\d\d:\d\d:\d\d \([^)]*\)`)
	plain := func(text string) string { // less what is another's on every run, and how a line is broken
		text = strings.ReplaceAll(strings.ReplaceAll(text, einmalPath, "einmal"), " \\\n", "")
		text = anyID.ReplaceAllString(when.ReplaceAllString(text, "WHEN"), "ID")
		return strings.Join(strings.Fields(text), " ")
	}
	if got, want := plain(s.want(0, nil, "operations", "list")), plain(strings.TrimPrefix(block(t, "$ einmal operations list"), "$ einmal operations list\n")); got != want {
		t.Errorf("list prints\n%s\nthe README has\n%s", got, want)
	}
	if got, want := plain(s.want(0, nil, "operations", "show", id)), plain(block(t, "Find out at the partner")); !strings.HasSuffix(got, want) {
		t.Errorf("show ends with\n%s\nthe README has\n%s", got, want)
	}
}

func TestTheREADMEsLinksLeadSomewhere(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	link := regexp.MustCompile(`\]\(([^)#]+)(?:#[^)]*)?\)`)
	for _, page := range append(pages, filepath.Join(root, "README.md")) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			if _, err := os.Stat(filepath.Join(filepath.Dir(page), m[1])); err != nil {
				t.Errorf("%s links to %s: %v", page, m[1], err)
			}
		}
	}
}

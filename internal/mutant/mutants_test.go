package mutant_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	root  = "../.."
	table = root + "/docs/testing.md"

	// hung is after how long a mutant that makes its test hang counts as found.
	hung = 2 * time.Minute
)

// row is one line of the table: a mutant and a test that must fail while it is planted.
type row struct{ name, folder, test string }

var rowForm = regexp.MustCompile("^\\| `([a-z0-9-]+)` \\| ([^|]+) \\| `([^`]+)` `([^`]+)` \\|$")

func readTable(t *testing.T) []row {
	t.Helper()
	text, err := os.ReadFile(table)
	if err != nil {
		t.Fatal(err)
	}
	var rows []row
	inside := false
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "| mutant |"):
			inside = true
		case !strings.HasPrefix(line, "|"):
			inside = false
		case inside && !strings.HasPrefix(line, "|---"):
			m := rowForm.FindStringSubmatch(line)
			if m == nil {
				t.Errorf("docs/testing.md: this line has not the form | `name` | what it breaks | `folder` `Test/name` |:\n%s", line)
				continue
			}
			rows = append(rows, row{name: m[1], folder: m[3], test: m[4]})
		}
	}
	return rows
}

// planted maps each mutant in the code to the folders that it is planted in.
func planted(t *testing.T) map[string][]string {
	t.Helper()
	call := regexp.MustCompile(`\bmutant\.On\(([^)]*)\)`)
	found := map[string][]string{}
	err := filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && file != root && strings.HasPrefix(entry.Name(), ".") {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		folder, err := filepath.Rel(root, filepath.Dir(file))
		if err != nil {
			return err
		}
		for _, m := range call.FindAllStringSubmatch(string(text), -1) {
			name := strings.Trim(m[1], `"`)
			if m[1] != `"`+name+`"` {
				t.Errorf("%s: %s: the name must be written out, or nobody can look it up", file, m[0])
			}
			if !slices.Contains(found[name], folder) {
				found[name] = append(found[name], filepath.ToSlash(folder))
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestEveryMutantIsInTheTable(t *testing.T) {
	t.Parallel()
	rows, inCode := readTable(t), planted(t)
	listed := map[string][]string{}
	for _, r := range rows {
		listed[r.name] = append(listed[r.name], r.folder)
		if len(inCode[r.name]) == 0 {
			t.Errorf("%s is in docs/testing.md and nowhere in the code", r.name)
		}
		top, _, _ := strings.Cut(r.test, "/")
		if !hasTest(t, r.folder, top) {
			t.Errorf("%s: there is no %s in %s", r.name, top, r.folder)
		}
	}
	for name, folders := range inCode {
		if len(listed[name]) == 0 {
			t.Errorf("%s is planted in %v and has no line in docs/testing.md", name, folders)
		}
		// The same rule broken in two places is two bugs: each needs a test that sees it there.
		for _, folder := range folders {
			if len(folders) > 1 && !slices.Contains(listed[name], folder) {
				t.Errorf("%s is planted in %s too and has no line for a test there", name, folder)
			}
		}
	}
	if len(inCode) < 15 {
		t.Errorf("%d mutants, want at least 15", len(inCode))
	}
}

func hasTest(t *testing.T, folder, name string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(text, []byte("func "+name+"(")) {
			return true
		}
	}
	return false
}

// binary is the test binary of a folder with the mutants compiled in.
type binary struct {
	folder, path string
	mu           sync.Mutex
	clean        map[string]string // by test: why it fails without any mutant, "" where it passes
}

func TestEveryMutantIsKilled(t *testing.T) {
	if os.Getenv("EINMAL_MUTANTS") == "" {
		t.Skip("NOT RUN: no mutant was planted. make mutants runs this test, and so does .ci/run.")
	}
	rows := readTable(t)
	binaries := map[string]*binary{}
	dir := t.TempDir()
	for _, r := range rows {
		if binaries[r.folder] != nil {
			continue
		}
		b := &binary{folder: filepath.Join(root, r.folder), clean: map[string]string{}}
		b.path = filepath.Join(dir, strings.NewReplacer("/", "_", ".", "root").Replace(r.folder)+".test")
		build := exec.Command("go", "test", "-c", "-tags", "mutants", "-o", b.path, ".")
		build.Dir = b.folder
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("build the tests of %s: %v\n%s", r.folder, err, out)
		}
		binaries[r.folder] = b
	}
	for _, r := range rows {
		t.Run(r.name+" in "+r.folder, func(t *testing.T) {
			t.Parallel()
			b := binaries[r.folder]
			if why := b.withoutMutant(r.test); why != "" {
				t.Fatalf("%s %s fails without a mutant:\n%s", r.folder, r.test, tail(why))
			}
			failed, out := b.run(r.test, r.name)
			if !failed {
				t.Errorf("%s survives %s %s:\n%s", r.name, r.folder, r.test, tail(out))
			}
		})
	}
}

func (b *binary) withoutMutant(test string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if why, ok := b.clean[test]; ok {
		return why
	}
	why := ""
	failed, out := b.run(test, "")
	switch {
	case failed:
		why = out
	case !strings.Contains(out, "--- PASS: "+strings.ReplaceAll(test, " ", "_")+" "):
		why = "no such test, or it was skipped:\n" + out
	}
	b.clean[test] = why
	return why
}

// run runs one test and says whether it failed, in whatever way: a failed check, a panic, a hang.
func (b *binary) run(test, mutant string) (failed bool, out string) {
	ctx, cancel := context.WithTimeout(context.Background(), hung+10*time.Second)
	defer cancel()
	var parts []string
	for part := range strings.SplitSeq(test, "/") {
		parts = append(parts, "^"+regexp.QuoteMeta(strings.ReplaceAll(part, " ", "_"))+"$")
	}
	cmd := exec.CommandContext(ctx, b.path, "-test.v", "-test.run", strings.Join(parts, "/"), "-test.timeout", hung.String())
	cmd.Dir = b.folder
	cmd.Env = append(os.Environ(), "EINMAL_MUTANT="+mutant)
	text, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return false, err.Error() // not started: neither killed nor survived
	}
	return err != nil, string(text)
}

// tail is the end of a long output, where tests say why they failed.
func tail(out string) string { return out[max(0, len(out)-4000):] }

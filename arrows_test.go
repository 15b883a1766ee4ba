package einmal_test

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const modulePath = "github.com/einmal-dev/einmal"

// arrow is what the production files of a folder may import besides the standard library.
type arrow struct {
	folders []string // of this module; "." is the root, "*" all
	modules []string // path prefixes of other modules' packages
	testing bool     // may import test packages of the standard library
}

var (
	marks = []string{"internal/crashpoint", "internal/mutant"} // nothing, without their build tags
	all   = arrow{folders: []string{"*"}}
)

// arrows is section 12 of the design, one line for each folder; a folder stands for those below it that have no line of their own. A new folder needs a
// line on purpose.
var arrows = map[string]arrow{
	".":                   {folders: append([]string{"contract", "fingerprint"}, marks...)},
	"contract":            {modules: []string{"github.com/dunglas/httpsfv"}},
	"fingerprint":         {},
	"memstore":            {folders: append([]string{".", "fingerprint"}, marks...)},
	"sqlitestore":         {folders: append([]string{".", "fingerprint"}, marks...), modules: []string{"github.com/ncruces/", "golang.org/x/sys/"}},
	"storetest":           {folders: []string{".", "fingerprint"}, testing: true},
	"einmalhttp":          {folders: append([]string{".", "contract", "fingerprint"}, marks...)},
	"client":              {folders: []string{"contract"}},
	"verify":              {folders: []string{"contract", "fault"}},
	"fault":               {},
	"fault/faultvfs":      {folders: []string{"fault"}, modules: []string{"github.com/ncruces/"}},
	"internal/crashpoint": {},
	"internal/mutant":     {},
	"internal/model":      {},

	"internal/crashpoint/victim": all,
	"bench":                      {folders: []string{"*"}, modules: []string{"github.com/ncruces/", "golang.org/x/sys/"}},
	"cmd/einmal":                 {folders: []string{"*"}, modules: []string{"github.com/spf13/", "golang.org/x/sys/"}},
}

// testImports may be in no production file: they would put test flags and test code into everybody's program.
var testImports = []string{"testing", "net/http/httptest", "github.com/google/go-cmp", "pgregory.net/rapid"}

func TestImportArrows(t *testing.T) {
	t.Parallel()
	imports, err := productionImports(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range []string{".", "contract", "fingerprint"} {
		if len(imports[folder]) == 0 {
			t.Errorf("no imports found in %q: the test looks at the wrong place", folder)
		}
	}
	for _, violation := range checkArrows(imports) {
		t.Error(violation)
	}
}

// productionImports maps each folder of the module to what its files import, whatever their build tags, test files left out. Nested modules are not
// part of it.
func productionImports(root string) (map[string][]string, error) {
	found := map[string][]string{}
	err := filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := entry.Name()
		if entry.IsDir() {
			_, err := os.Stat(filepath.Join(file, "go.mod"))
			if file != root && (err == nil || name == "testdata" || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_")) {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, filepath.Dir(file))
		if err != nil {
			return err
		}
		folder := filepath.ToSlash(rel)
		for _, spec := range parsed.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			if !slices.Contains(found[folder], imported) {
				found[folder] = append(found[folder], imported)
			}
		}
		return nil
	})
	return found, err
}

// checkArrows names every import that no arrow allows.
func checkArrows(imports map[string][]string) []string {
	var violations []string
	for folder, imported := range imports {
		from, rule, ok := lineOf(folder)
		if !ok {
			violations = append(violations, fmt.Sprintf("%s has no line in the table of arrows", folder))
			continue
		}
		for _, to := range imported {
			if why := rule.forbids(from, to); why != "" {
				violations = append(violations, fmt.Sprintf("%s → %s: %s", folder, to, why))
			}
		}
	}
	slices.Sort(violations)
	return violations
}

func lineOf(folder string) (string, arrow, bool) {
	for line := folder; line != "."; line = path.Dir(line) {
		if rule, ok := arrows[line]; ok {
			return line, rule, true
		}
	}
	rule, ok := arrows[folder]
	return folder, rule, ok
}

func (a arrow) forbids(from, to string) string {
	isTest := slices.ContainsFunc(testImports, func(t string) bool { return to == t || strings.HasPrefix(to, t+"/") })
	inModule := to == modulePath || strings.HasPrefix(to, modulePath+"/")
	standard := !strings.Contains(strings.Split(to, "/")[0], ".")
	switch {
	case isTest && standard && a.testing:
		return ""
	case isTest:
		return "a test library in production"
	case to == "C":
		return "cgo"
	case standard:
		return ""
	case inModule:
		folder := path.Clean(strings.TrimPrefix(strings.TrimPrefix(to, modulePath), "/"))
		if line, _, ok := lineOf(folder); ok && line == from || slices.Contains(a.folders, "*") || slices.Contains(a.folders, folder) {
			return ""
		}
		return fmt.Sprintf("%s may import %v of this module", from, a.folders)
	case slices.ContainsFunc(a.modules, func(prefix string) bool { return strings.HasPrefix(to, prefix) }):
		return ""
	}
	return fmt.Sprintf("%s may import %v of other modules", from, a.modules)
}

func TestWrongArrowsAreNamed(t *testing.T) {
	t.Parallel()
	own := func(folder string) string { return modulePath + "/" + folder }
	wrong := []struct{ from, to string }{
		{".", own("memstore")},
		{".", own("einmalhttp")},
		{".", own("storetest")},
		{".", "golang.org/x/sys/unix"},
		{".", "testing"},
		{"contract", modulePath},
		{"contract", own("fingerprint")},
		{"contract", own("internal/mutant")},
		{"fingerprint", own("contract")},
		{"fingerprint", "github.com/dunglas/httpsfv"},
		{"memstore", own("sqlitestore")},
		{"memstore", own("contract")},
		{"sqlitestore", own("einmalhttp")},
		{"storetest", own("memstore")},
		{"storetest", "github.com/google/go-cmp/cmp"},
		{"storetest", "pgregory.net/rapid"},
		{"einmalhttp", own("sqlitestore")},
		{"einmalhttp", "net/http/httptest"},
		{"client", modulePath},
		{"verify", own("einmalhttp")},
		{"fault", "github.com/ncruces/go-sqlite3"},
		{"fault", own("fault/faultvfs")},
		{"fault/faultvfs", own("sqlitestore")},
		{"cmd/einmal", "testing"},
		{"cmd/einmal", "github.com/stretchr/testify"},
		{"cmd/einmal", "C"},
		{"bench", "pgregory.net/rapid"},
		{"brandnew", "fmt"},
	}
	for _, w := range wrong {
		violations := checkArrows(map[string][]string{w.from: {w.to}})
		if len(violations) != 1 || !strings.HasPrefix(violations[0], w.from+" ") {
			t.Errorf("%s → %s: %q", w.from, w.to, violations)
		}
	}
	right := map[string][]string{
		".":                        {"net/http", "go/ast", own("contract"), own("internal/mutant")},
		"storetest":                {"testing", "testing/synctest", modulePath},
		"fault/faultvfs":           {own("fault"), "github.com/ncruces/go-sqlite3/vfs"},
		"cmd/einmal":               {own("sqlitestore"), own("cmd/einmal/internal/term"), "github.com/spf13/cobra"},
		"cmd/einmal/internal/term": {"golang.org/x/sys/unix", own("cmd/einmal/internal/demo")},
	}
	if violations := checkArrows(right); len(violations) > 0 {
		t.Errorf("right arrows are refused: %q", violations)
	}
}

// What a program takes on with a package, through other modules too.
func TestModulesBehindPackages(t *testing.T) {
	t.Parallel()
	goTool, err := exec.LookPath("go")
	if err != nil {
		t.Fatal(err)
	}
	list := func(args ...string) []string {
		out, err := exec.Command(goTool, append([]string{"list", "-deps"}, args...)...).Output()
		if err != nil {
			t.Fatalf("go list: %v", err)
		}
		return slices.Compact(slices.Sorted(slices.Values(strings.Fields(string(out)))))
	}
	const modules = "{{with .Module}}{{if not .Main}}{{.Path}}{{end}}{{end}}"

	tests := []struct {
		folder string
		want   []string
	}{
		{".", []string{"github.com/dunglas/httpsfv"}},
		{"./contract", []string{"github.com/dunglas/httpsfv"}},
		{"./fingerprint", nil},
		{"./einmalhttp", []string{"github.com/dunglas/httpsfv"}},
	}
	for _, tt := range tests {
		if got := list("-f", modules, tt.folder); !slices.Equal(got, tt.want) {
			t.Errorf("%s brings the modules %v, want %v", tt.folder, got, tt.want)
		}
	}
	for _, imported := range list("-f", "{{.ImportPath}}", "./cmd/einmal") {
		if slices.Contains(testImports, imported) {
			t.Errorf("cmd/einmal is built with %s", imported)
		}
	}
}

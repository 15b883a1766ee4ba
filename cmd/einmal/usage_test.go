package main_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestWhatIsNotSaidRightIsRefusedWithTheNextStep(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	answer := filepath.Join(t.TempDir(), "answer.txt")
	if err := os.WriteFile(answer, []byte("an answer"), 0o600); err != nil {
		t.Fatal(err)
	}
	resolve := func(args ...string) []string {
		return append([]string{"operations", "resolve", "op_1", "--version", "2", "--store", "sqlite:x.db"}, args...)
	}
	tests := []struct {
		name string
		args []string
		code int
		says []string
	}{
		{"an unknown command", []string{"bogus"}, 3, []string{`unknown command "bogus": there are demo, init, operations, store, version`, "einmal --help"}},
		{"an unknown command below another", []string{"operations", "bogus"}, 3, []string{"there are list, resolve, show"}},
		{"an unknown flag", []string{"operations", "list", "--bogus"}, 3, []string{"--bogus", "einmal operations list --help"}},
		{"no store named", []string{"operations", "list"}, 3, []string{"--store sqlite:PATH", "$EINMAL_STORE"}},
		{"a path alone", []string{"init", "--store", "orders.db"}, 3, []string{"sqlite:orders.db"}},
		{"another kind of store", []string{"init", "--store", "redis:x"}, 3, []string{`"redis"`, "sqlite:PATH"}},
		{"slashes as in a URL", []string{"init", "--store", "sqlite://orders.db"}, 3, []string{"without //"}},
		{"no path", []string{"init", "--store", "sqlite:"}, 3, []string{"no path"}},
		{"a store in memory", []string{"init", "--store", "sqlite::memory:"}, 3, []string{"a store is a file"}},
		{"a URI", []string{"init", "--store", "sqlite:file:x.db"}, 3, []string{"write sqlite:PATH"}},
		{"a folder that is not there", []string{"init", "--store", "sqlite:no/orders.db"}, 1, []string{"mkdir -p no"}},
		{"no such store", []string{"operations", "list", "--store", "sqlite:x.db"}, 1, []string{"x.db", "einmal init --store sqlite:x.db"}},
		{"an unknown state", []string{"operations", "list", "--store", "sqlite:x.db", "--state", "lost"}, 3, []string{`"lost"`, "unclear"}},
		{"a limit out of bounds", []string{"operations", "list", "--store", "sqlite:x.db", "--limit", "0"}, 3, []string{"1 to 1000"}},
		{"no operation named", []string{"operations", "show", "--store", "sqlite:x.db"}, 3, []string{"which operation?"}},
		{"an operation named twice over", []string{"operations", "show", "op_1", "--key", "k"}, 3, []string{"not both"}},
		{"a key without its operation", []string{"operations", "show", "--key", "k"}, 3, []string{"together"}},
		{"resolve, but how", resolve("--reason", "x"), 3, []string{"--as"}},
		{"resolve as something else", resolve("--as", "done", "--reason", "x"), 3, []string{`"done"`, "applied, not-applied or withdrawn"}},
		{"resolve, but what was seen", []string{"operations", "resolve", "op_1", "--as", "withdrawn", "--reason", "x", "--store", "sqlite:x.db"}, 3, []string{"--version", "einmal operations show op_1"}},
		{"a version that nothing has", resolve("--as", "withdrawn", "--reason", "x", "--version", "0"), 3, []string{"--version", "einmal operations show op_1"}},
		{"resolve without a reason", resolve("--as", "withdrawn"), 3, []string{"--reason"}},
		{"applied without an answer", resolve("--as", "applied", "--reason", "x"), 3, []string{"--result-unknown"}},
		{"applied with and without an answer", resolve("--as", "applied", "--reason", "x", "--result", "f", "--result-unknown"), 3, []string{"--result-unknown"}},
		{"an answer without its status", resolve("--as", "applied", "--reason", "x", "--result", os.DevNull), 3, []string{"--status"}},
		{"an answer that says that it failed", resolve("--as", "applied", "--reason", "x", "--result", os.DevNull, "--status", "500"), 3, []string{"200 to 399"}},
		{"an answer with a header of one connection", resolve("--as", "applied", "--reason", "x", "--result", os.DevNull, "--status", "200", "--header", "Set-Cookie: a"), 3, []string{"Set-Cookie", "Content-Type"}},
		{"an answer whose header is none", resolve("--as", "applied", "--reason", "x", "--result", os.DevNull, "--status", "200", "--header", "ETag"), 3, []string{"Name: value"}},
		{"a body with 204", resolve("--as", "applied", "--reason", "x", "--result", answer, "--status", "204"), 3, []string{"204 has no body"}},
		{"an answer that is not there", resolve("--as", "applied", "--reason", "x", "--result", "no.json", "--status", "200"), 1, []string{"no.json"}},
		{"an answer for what did not happen", resolve("--as", "withdrawn", "--reason", "x", "--status", "200"), 3, []string{"go with --as applied"}},
		{"accept, but what", []string{"store", "accept", "--reason", "x", "--store", "sqlite:x.db"}, 3, []string{"--clock or --gap"}},
		{"accept without a reason", []string{"store", "accept", "--clock", "--store", "sqlite:x.db"}, 3, []string{"--reason"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := run(t, command(t, einmalPath, dir, tt.args...))
			if got.code != tt.code || got.stdout != "" {
				t.Errorf("exit code %d, want %d; standard output %q, want none", got.code, tt.code, got.stdout)
			}
			for _, want := range append(tt.says, "einmal: ", "→ ") {
				if !strings.Contains(got.stderr, want) {
					t.Errorf("no %q in\n%s", want, got.stderr)
				}
			}
			if strings.Contains(got.stderr, "einmal: einmal") {
				t.Errorf("it stutters:\n%s", got.stderr)
			}
		})
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("refused commands left %v, %v", left, err)
	}
}

func TestAStoreIsMadeOnceAndShown(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	do := func(code int, want string, args ...string) string {
		t.Helper()
		got := run(t, command(t, einmalPath, dir, append(args, "--store", "sqlite:orders.db")...))
		if got.code != code || !strings.Contains(got.stdout+got.stderr, want) {
			t.Fatalf("%v: exit code %d, want %d and %q\n%s%s", args, got.code, code, want, got.stdout, got.stderr)
		}
		return got.stdout
	}
	do(0, `sqlitestore.Open(ctx, "orders.db", sqlitestore.Options{})`, "init")
	do(1, "orders.db is there already", "init")
	do(0, "clock     ok", "store", "show")
	do(1, "no such operation in this store", "operations", "show", "op_00000000000000000000000000")
	do(0, "accepted the clock", "store", "accept", "--clock", "--reason", "tried it", "--actor", "carol")
	do(0, "Keys that the store does not know run", "store", "accept", "--gap", "--reason", "restored", "--actor", "carol")
	text := do(0, "epoch 2", "store", "show")
	for _, want := range []string{"the clock at", "by carol: tried it", "the gap at", "by carol: restored", "open      nothing"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	do(0, `"clock": "ok"`, "store", "show", "--json")
}

func TestAnInitThatFailsLeavesNoFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "orders.db-wal", "full"), 0o700); err != nil { // in the way of the write-ahead log
		t.Fatal(err)
	}
	got := run(t, command(t, einmalPath, dir, "init", "--store", "sqlite:orders.db"))
	if got.code != 1 {
		t.Errorf("exit code %d\n%s%s", got.code, got.stdout, got.stderr)
	}
	if _, err := os.Stat(filepath.Join(dir, "orders.db")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the file afterwards: %v", err)
	}
}

func TestWhereAFileIsThatIsNoStoreTheHintIsNotInit(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, content := range map[string]string{"empty": "", "text": strings.Repeat("no database. ", 50)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		got := run(t, command(t, einmalPath, dir, "operations", "list", "--store", "sqlite:"+name))
		if got.code != 1 || strings.Contains(got.stderr, "init --store") || !strings.Contains(got.stderr, "no store here") || !strings.Contains(got.stderr, "→ ") {
			t.Errorf("%s: exit code %d\n%s", name, got.code, got.stderr)
		}
		after, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || string(after) != content {
			t.Errorf("%s is %q afterwards, %v", name, after, err)
		}
	}
}

func TestHelpAndVersion(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ args, want string }{
		{"", "einmal demo"},
		{"operations", "operations resolve"},
		{"operations resolve --help", "--accept-live"},
		{"operations list --help", "accepted, running and unclear"},
		{"demo --help", "--stay"},
		{"version", "einmal "},
		{"version --json", `"go":"go1.`},
	} {
		got := run(t, command(t, einmalPath, t.TempDir(), strings.Fields(tt.args)...))
		if got.code != 0 || !strings.Contains(got.stdout, tt.want) || got.stderr != "" {
			t.Errorf("einmal %s: exit code %d, no %q in\n%s%s", tt.args, got.code, tt.want, got.stdout, got.stderr)
		}
		for line := range strings.Lines(got.stdout) {
			if utf8.RuneCountInString(line) > 81 {
				t.Errorf("einmal %s: wider than 80 columns: %q", tt.args, line)
			}
		}
		if strings.Contains(got.stdout, "demo-shop") || strings.Contains(got.stdout, "completion") {
			t.Errorf("einmal %s tells of hidden commands:\n%s", tt.args, got.stdout)
		}
	}
}

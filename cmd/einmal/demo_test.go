package main_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"
)

var totals = regexp.MustCompile(`(?m)^✓ \d+ requests for 6 operations made 6 payments, as it should be`)

func TestDemoPlaysEverySceneAndCountsRight(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	got := run(t, command(t, einmalPath, dir, "demo"))
	if got.code != 0 || got.stderr != "" {
		t.Fatalf("exit code %d\n%s%s", got.code, got.stdout, got.stderr)
	}
	if !totals.MatchString(got.stdout) {
		t.Errorf("the totals are missing in\n%s", got.stdout)
	}
	for scene, counts := range map[string]string{
		"a normal order": "1 1 1 1", "answer lost, sent again": "1 2 1 1", "two at once": "1 3 1 1", "other parameters": "0 1 0 0",
		"other tenant, other principal": "1 2 1 1", "kill -9: unclear, resolved": "1 4 1 1",
	} {
		row := regexp.MustCompile(`(?m)^\d  ` + regexp.QuoteMeta(scene) + ` +` + strings.ReplaceAll(counts, " ", " +") + ` +✓$`)
		if !row.MatchString(got.stdout) {
			t.Errorf("no row %q with operations, requests, payments, expected %s in\n%s", scene, counts, got.stdout)
		}
	}
	for n, line := range strings.Split(got.stdout, "\n") {
		if utf8.RuneCountInString(line) > 80 || strings.Contains(line, "\x1b") || strings.HasSuffix(line, " ") {
			t.Errorf("line %d is wider than 80 columns, has an escape sequence, or ends with a space: %q", n+1, line)
		}
	}
	theREADMEQuotes(t, got.stdout)
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("the temporary folder has %v, %v afterwards, want nothing", left, err)
	}
}

// The bug that this plants runs an unclear operation again: the classic double payment.
func TestDemoFindsADoublePayment(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	broken := filepath.Join(dir, "broken")
	if err := build(broken, "-tags", "mutants"); err != nil {
		t.Fatal(err)
	}
	cmd := command(t, broken, dir, "demo")
	cmd.Env = append(cmd.Env, "EINMAL_MUTANT=rerun-opaque")
	got := run(t, cmd)
	if got.code != 1 {
		t.Errorf("exit code %d, want 1", got.code)
	}
	for _, want := range []string{"1 new operation, 2 new payments (expected 1 and 1)", "Something is wrong", "Store and logs are kept in"} {
		if !strings.Contains(got.stdout, want) {
			t.Errorf("the output lacks %q", want)
		}
	}
	if want := "6 operations (expected 6), 7 payments (expected 6)"; !strings.Contains(got.stderr, want) {
		t.Errorf("the error lacks %q", want)
	}
	if t.Failed() {
		t.Logf("%s%s", got.stdout, got.stderr)
	}
}

// staying is a demo that was told to stay, up to the point where it does.
type staying struct {
	cmd    *exec.Cmd
	stdout io.Reader
	text   string
}

func stay(t *testing.T, dir string) *staying {
	t.Helper()
	s := &staying{cmd: command(t, einmalPath, dir, "demo", "--stay")}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.cmd.Process.Kill() })
	lines := bufio.NewReader(out)
	for !strings.Contains(s.text, "until Ctrl-C:") {
		line, err := lines.ReadString('\n')
		s.text += line
		if err != nil {
			t.Fatalf("%v\n%s", err, s.text)
		}
	}
	s.stdout = lines
	return s
}

// find returns the only group of a pattern.
func (s *staying) find(t *testing.T, pattern string) string {
	t.Helper()
	m := regexp.MustCompile(pattern).FindStringSubmatch(s.text)
	if m == nil {
		t.Fatalf("no %s in\n%s", pattern, s.text)
	}
	return m[1]
}

func TestDemoStaysUntilInterrupted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := stay(t, dir)
	url := s.find(t, `curl -i (http://\S+/orders) `)
	key, body := s.find(t, `Idempotency-Key: (\S+)'`), s.find(t, `-d '(\S+)'`)
	for line := range strings.Lines(s.text) {
		if strings.HasPrefix(line, "   # ") && utf8.RuneCountInString(line) > 81 {
			t.Errorf("wider than 80 columns: %q", line)
		}
	}
	var statuses []string
	for range 2 {
		req, err := http.NewRequest(http.MethodPost, url, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer alice")
		req.Header["idempotency-key"] = []string{key}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		statuses = append(statuses, fmt.Sprint(resp.StatusCode, resp.Header.Get("Idempotent-Replayed")))
	}
	if got := strings.Join(statuses, ", "); got != "201, 201true" {
		t.Errorf("the printed request, twice: %s", got)
	}
	if err := s.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	rest, _ := io.ReadAll(s.stdout)
	if err := s.cmd.Wait(); err != nil {
		t.Errorf("after the interrupt: %v", err)
	}
	if !strings.Contains(string(rest), "reserved  create-order  acme  "+key) || !strings.Contains(string(rest), "replayed  create-order") {
		t.Errorf("while it stayed it said\n%s", rest)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("the temporary folder has %v, %v afterwards, want nothing", left, err)
	}
}

func TestDemoTakesItsChildrenWithIt(t *testing.T) {
	t.Parallel()
	s := stay(t, t.TempDir())
	// The connection to the partner ends when the partner does. The shop is met through the proxy, which is in the demo's own process.
	conn, err := net.Dial("tcp", s.find(t, `curl http://(\S+)/payments`))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := s.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if n, err := conn.Read(make([]byte, 1)); err == nil {
		t.Errorf("read %d bytes", n)
	}
	_ = s.cmd.Wait()
}

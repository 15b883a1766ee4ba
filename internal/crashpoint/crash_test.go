package crashpoint_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"

	"github.com/einmal-dev/einmal/fault"
)

// report is what a victim printed; killed says that it did not live to.
type report struct {
	Answer, Problem, Next string
	Ran                   int
	killed                bool
	point                 string
}

// scene is where the victims of one class die: a built binary and a partner that outlives them.
type scene struct {
	t       *testing.T
	binary  string
	class   string
	partner *fault.Partner
	url     string
	tmp     string
}

// run starts one victim, to be killed at its k-th crash point, or not at all for 0.
func (s *scene) run(dir, key string, k int) report {
	s.t.Helper()
	cmd := exec.Command(s.binary, "-store", filepath.Join(dir, "victim.db"), "-class", s.class, "-partner", s.url, "-key", key)
	cmd.Env = append(os.Environ(), "EINMAL_CRASH_AT="+strconv.Itoa(k))
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		if ws, ok := exit.Sys().(syscall.WaitStatus); ok && ws.Signaled() && ws.Signal() == syscall.SIGKILL {
			return report{killed: true, point: stderr.String()}
		}
	}
	if err != nil {
		s.t.Errorf("%s, killed at %d: %v\n%s", key, k, err, stderr.String())
		return report{}
	}
	var r report
	lines := bytes.Split(bytes.TrimSpace(stdout.Bytes()), []byte("\n"))
	if err := json.Unmarshal(lines[len(lines)-1], &r); err != nil {
		s.t.Errorf("%s: %v in %q", key, err, stdout.String())
	}
	return r
}

// judge checks the end of an operation, after its last victim was left alone, against the effects at the partner.
func (s *scene) judge(key string, last report) {
	s.t.Helper()
	effects := s.partner.Effects(key)
	switch {
	case effects > 1:
		s.t.Errorf("%s: %d effects", key, effects)
	case last.Answer != "" && effects != 1:
		s.t.Errorf("%s: answered %q with %d effects", key, last.Answer, effects)
	case last.Answer == "" && s.class == "keyed":
		s.t.Errorf("%s: a keyed operation inside its window ended as %+v", key, last)
	case last.Answer == "" && last.Problem != "outcome-unclear":
		s.t.Errorf("%s: %+v", key, last)
	}
}

// seen counts what the kills led to, so that the test cannot pass by never meeting the hard cases.
type seen struct {
	mu                                              sync.Mutex
	kills, unclearWithEffect, unclearWithout, again int
	points                                          map[string]int
}

func (n *seen) note(s *scene, key string, last report) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case last.Problem != "" && s.partner.Effects(key) == 1:
		n.unclearWithEffect++
	case last.Problem != "":
		n.unclearWithout++
	case last.Ran > 0:
		n.again++
	}
}

func (n *seen) kill(point string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.kills++
	n.points[point]++
	return n.kills
}

func (n *seen) enough(want int) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.kills >= want
}

// TestKilledAtEveryCrashPoint kills a process at its first, second, third … crash point until none is left, then the process that recovers after it in
// the same way, and asks a last one that is left alone for the outcome. EINMAL_CRASH_KILLS sets how many kills a class gets at least (default 260).
func TestKilledAtEveryCrashPoint(t *testing.T) {
	t.Parallel()
	want := 260
	if s := os.Getenv("EINMAL_CRASH_KILLS"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatal(err)
		}
		want = n
	}
	binary := victim(t)
	for _, class := range []string{"opaque", "keyed"} {
		t.Run(class, func(t *testing.T) {
			t.Parallel()
			partner := &fault.Partner{Opaque: class == "opaque"}
			server := httptest.NewServer(partner)
			t.Cleanup(server.Close)
			t.Cleanup(partner.Close)
			s := &scene{t: t, binary: binary, class: class, partner: partner, url: server.URL, tmp: t.TempDir()}
			n := &seen{points: map[string]int{}}
			killAll(s, n, want)
			t.Logf("%d kills at %d points; unclear with the effect %d, without %d, ran again %d", n.kills, len(n.points), n.unclearWithEffect, n.unclearWithout, n.again)
			if n.kills < want {
				t.Errorf("%d kills, want %d", n.kills, want)
			}
			if class == "opaque" && (n.unclearWithEffect == 0 || n.unclearWithout == 0) || n.again == 0 {
				t.Errorf("the hard cases were not met: %+v", n)
			}
		})
	}
}

// victim is the victim's binary, built once.
func victim(t *testing.T) string {
	t.Helper()
	binary, err := buildVictim()
	if err != nil {
		t.Fatal(err)
	}
	return binary
}

var buildVictim = sync.OnceValues(func() (string, error) {
	binary := filepath.Join(os.TempDir(), fmt.Sprintf("einmal-victim-%d", os.Getpid()))
	if out, err := exec.Command("go", "build", "-tags", "crashpoints,mutants", "-o", binary, "./victim").CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the victim: %w\n%s", err, out)
	}
	return binary, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if binary, err := buildVictim(); err == nil {
		_ = os.Remove(binary)
	}
	os.Exit(code)
}

// killAll walks over the crash points of the first process; for each, over those of the one after it.
func killAll(s *scene, n *seen, want int) {
	const workers = 6
	firsts := make(chan int)
	var done sync.WaitGroup
	var once sync.Once
	last := make(chan struct{}) // closed when a first process had no point left
	for range workers {
		done.Go(func() {
			for k := range firsts {
				if !killPair(s, n, k, want) {
					once.Do(func() { close(last) })
				}
			}
		})
	}
	for k := 1; ; k++ {
		select {
		case firsts <- k:
			continue
		case <-last:
		}
		break
	}
	close(firsts)
	done.Wait()
	for round := 0; !n.enough(want) && !s.t.Failed(); round++ { // every point again, after other work
		key := fmt.Sprintf("%s-again-%d", s.class, round)
		dir := s.dir()
		killSecond(s, n, dir, key, 1)
	}
}

// killPair is false when the first process had no k-th point.
func killPair(s *scene, n *seen, k, want int) bool {
	for j := 0; ; j++ {
		dir, key := s.dir(), fmt.Sprintf("%s-%d-%d", s.class, k, j)
		first := s.run(dir, key, k)
		if !first.killed {
			s.judge(key, first)
			return false
		}
		n.kill(first.point)
		second := report{killed: true}
		if j > 0 {
			if second = s.run(dir, key, j); second.killed {
				n.kill(second.point)
			}
		}
		alone := s.run(dir, key, 0)
		s.judge(key, alone)
		n.note(s, key, alone)
		if !second.killed && second.Answer != "" && second.Answer != alone.Answer {
			s.t.Errorf("%s: answered %q, later %q", key, second.Answer, alone.Answer)
		}
		if !second.killed || s.t.Failed() || j > 0 && n.enough(want) {
			return true
		}
	}
}

// killSecond kills one process after the other on the same store, each one point later, until one survives.
func killSecond(s *scene, n *seen, dir, key string, from int) {
	for j := from; ; j++ {
		r := s.run(dir, key, j)
		if !r.killed {
			s.judge(key, r)
			n.note(s, key, r)
			return
		}
		n.kill(r.point)
	}
}

func (s *scene) dir() string {
	dir, err := os.MkdirTemp(s.tmp, "")
	if err != nil {
		s.t.Error(err)
	}
	return dir
}

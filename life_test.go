package einmal_test

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/einmal-dev/einmal"
	"github.com/einmal-dev/einmal/memstore"
)

// runDirStore is a memstore beside a folder for lock files.
type runDirStore struct {
	einmal.Store
	dir string
}

func (s runDirStore) RunDir() string { return s.dir }

// TestHelperHolder is no test: it is the process that holds a lock until its standard input ends.
func TestHelperHolder(t *testing.T) {
	dir := os.Getenv("EINMAL_TEST_HOLDER_DIR")
	if dir == "" {
		return
	}
	eng, err := einmal.New(einmal.Config{Store: memstore.New(), RunDir: dir, Log: discard})
	if err != nil {
		t.Fatal(err)
	}
	op := eng.Define(policy("order"))
	_, _ = eng.Run(context.Background(), op, request("k"), func(context.Context) einmal.Ending {
		o, err := eng.Find(context.Background(), einmal.Identity{Tenant: "acme", Operation: "order", Key: "k"})
		if err != nil {
			t.Error(err)
		}
		h := o.Ends[0].Holder
		_, _ = os.Stdout.WriteString("holder " + h.Incarnation + "\n")
		_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
		return einmal.Ending{}
	})
}

func TestAProcessIsOverWhenItsLockIsFreeAndNotBefore(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0], "-test.run=^TestHelperHolder$")
	cmd.Env = append(os.Environ(), "EINMAL_TEST_HOLDER_DIR="+dir)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	incarnation := strings.TrimSpace(strings.TrimPrefix(line, "holder "))
	if err != nil || incarnation == "" {
		t.Fatalf("%q, %v", line, err)
	}

	eng, err := einmal.New(einmal.Config{Store: runDirStore{memstore.New(), dir}, Log: discard})
	if err != nil {
		t.Fatal(err)
	}
	defer eng.Close(context.Background())
	own := ownHolder(t, eng)
	life := func(h einmal.Holder) einmal.AttemptLife {
		t.Helper()
		return eng.AttemptsOver(einmal.Operation{Record: einmal.Record{Ends: []einmal.AttemptEnd{{Attempt: 1, Holder: h}}}})[0]
	}
	theirs := einmal.Holder{Incarnation: incarnation, Host: own.Host, Boot: own.Boot}
	if l := life(own); l.Over {
		t.Errorf("this process: %+v", l)
	}
	if l := life(theirs); l.Over {
		t.Errorf("a living process: %+v", l)
	}
	for name, h := range map[string]einmal.Holder{
		"another host":        {Incarnation: incarnation, Host: "elsewhere/1", Boot: own.Boot},
		"no lock file":        {Incarnation: "0123456789abcdef", Host: own.Host, Boot: own.Boot},
		"a path":              {Incarnation: "../" + incarnation, Host: own.Host, Boot: own.Boot},
		"another host's boot": {Incarnation: incarnation, Host: "elsewhere/1", Boot: "another"},
	} {
		if l := life(h); l.Over || l.Why == "" {
			t.Errorf("%s: %+v", name, l)
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if l := life(theirs); !l.Over {
		t.Errorf("a killed process: %+v", l)
	}
	if own.Boot != "" {
		booted := einmal.Holder{Incarnation: "0123456789abcdef", Host: own.Host, Boot: "an earlier boot"}
		if l := life(booted); l.Over == strings.HasSuffix(own.Host, "/") { // without a machine's id the host may be another one of the same name
			t.Errorf("booted again: %+v", l)
		}
	}
}

func ownHolder(t *testing.T, eng *einmal.Engine) (h einmal.Holder) {
	t.Helper()
	op := eng.Define(policy("own"))
	_, err := eng.Run(t.Context(), op, request("k"), func(ctx context.Context) einmal.Ending {
		o, err := eng.Find(ctx, einmal.Identity{Tenant: "acme", Operation: "own", Key: "k"})
		if err != nil {
			t.Error(err)
			return einmal.Ending{}
		}
		h = o.Ends[0].Holder
		return success("x")
	})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

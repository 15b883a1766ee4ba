package main_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// einmalPath is the program, built once for all tests.
var einmalPath string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "einmal-test-")
	if err == nil {
		einmalPath = filepath.Join(dir, "einmal")
		err = build(einmalPath)
	}
	code := 1
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	} else {
		code = m.Run()
	}
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

func build(path string, flags ...string) error {
	cmd := exec.Command("go", append(append([]string{"build", "-o", path}, flags...), ".")...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building einmal: %w\n%s", err, out)
	}
	return nil
}

// result is what a command did.
type result struct {
	code           int
	stdout, stderr string
}

// command prepares a run of the program in a folder of its own, without what the developer's own environment says.
func command(t *testing.T, program, dir string, args ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = dir
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "EINMAL_") && !strings.HasPrefix(e, "COLUMNS=") {
			cmd.Env = append(cmd.Env, e)
		}
	}
	cmd.Env = append(cmd.Env, "TMPDIR="+dir)
	return cmd
}

func run(t *testing.T, cmd *exec.Cmd) result {
	t.Helper()
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("%v: %v", cmd.Args, err)
	}
	return result{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

//go:build crashpoints

// Package crashpoint lets a test kill the process at any marked point: with EINMAL_CRASH_AT=k the k-th point that is reached sends SIGKILL.
package crashpoint

import (
	"fmt"
	"os"
	"strconv"
	"sync/atomic"
	"syscall"
)

var (
	at, _   = strconv.ParseInt(os.Getenv("EINMAL_CRASH_AT"), 10, 64)
	reached atomic.Int64
)

// Here is a place where a process may die.
func Here(name string) {
	if n := reached.Add(1); at > 0 && n == at {
		fmt.Fprintf(os.Stderr, "crashpoint %d: %s\n", n, name)
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
}

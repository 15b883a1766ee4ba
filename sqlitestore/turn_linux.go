package sqlitestore

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// turnstile lets several handles on one file, in one process or many, write in turns.
//
// SQLite's own lock is polled for, and a busy writer takes it again before anybody wakes up: others starve. Here who waits for the second lock holds the
// first, so that the last writer cannot overtake him. The locks belong to the open file and go with the process.
//
// A writer keeps its turn from one transaction to the next, looks every lookEvery whether somebody waits, and gives it up when it has nothing to do.
type turnstile struct {
	f      *os.File
	held   bool
	looked time.Time
	alone  time.Time // until then nobody is waited for: somebody is frozen in his turn
}

// lookEvery bounds how much longer than one transaction somebody else may have to wait.
const lookEvery = time.Millisecond

// Two bytes of the store's file, past its largest size, that SQLite never locks.
const (
	turnByte  = 1<<62 + 0
	writeByte = 1<<62 + 1
)

// newTurnstile opens the store's file once more; for "" the turnstile does nothing.
func newTurnstile(path string) (*turnstile, error) {
	if path == "" {
		return &turnstile{}, nil
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("sqlitestore: %w", err)
	}
	return &turnstile{f: f}, nil
}

// take waits for this handle's turn, for a while. Without it writing is safe all the same: SQLite's own lock protects the file.
func (t *turnstile) take() {
	if t.f == nil {
		return
	}
	now := time.Now()
	if t.held {
		if now.Sub(t.looked) < lookEvery {
			return
		}
		if t.looked = now; !t.awaited() {
			return
		}
		t.give()
	}
	if now.Before(t.alone) {
		return
	}
	deadline := kernelTime() + turnTimeout
	queued := t.wait(turnByte, deadline)
	t.held = queued && t.wait(writeByte, deadline)
	if queued {
		t.set(turnByte, unix.F_UNLCK)
	}
	if !t.held {
		t.alone = time.Now().Add(turnTimeout)
	}
	t.looked = time.Now()
}

// turnTimeout bounds the wait for a turn, and is how long nobody waits after one that took so long.
const turnTimeout = 2 * time.Second

// wait takes a lock, or gives up at the deadline. The kernel would wake a waiter, but never if the other one is stopped in his turn; the pauses are short
// beside a commit. They are the kernel's, as the wait for a lock is: in a testing/synctest bubble this is a system call and no sleep.
func (t *turnstile) wait(at int64, deadline time.Duration) bool {
	for pause := 20 * time.Microsecond; ; pause = min(2*pause, 500*time.Microsecond) {
		if t.set(at, unix.F_WRLCK) {
			return true
		}
		if kernelTime() > deadline {
			return false
		}
		ts := unix.NsecToTimespec(int64(pause))
		_ = unix.Nanosleep(&ts, nil) // an interrupted pause is a short one
	}
}

func kernelTime() time.Duration {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) // never fails
	return time.Duration(ts.Nano())
}

// give ends the turn, if there is one.
func (t *turnstile) give() {
	if t.held {
		t.set(writeByte, unix.F_UNLCK)
		t.held = false
	}
}

// awaited reports whether somebody else waits for his turn.
func (t *turnstile) awaited() bool {
	lock := unix.Flock_t{Type: unix.F_WRLCK, Start: turnByte, Len: 1}
	err := unix.FcntlFlock(t.f.Fd(), unix.F_OFD_GETLK, &lock)
	return err != nil || lock.Type != unix.F_UNLCK
}

// set reports whether the lock was changed; false where somebody else has it.
func (t *turnstile) set(at int64, kind int16) bool {
	for {
		err := unix.FcntlFlock(t.f.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: kind, Start: at, Len: 1})
		if !errors.Is(err, unix.EINTR) {
			return err == nil
		}
	}
}

func (t *turnstile) close() {
	if t.f != nil {
		_ = t.f.Close() // it was never written to
	}
}

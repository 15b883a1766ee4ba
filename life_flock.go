//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package einmal

import (
	"errors"
	"os"
	"syscall"
)

// tryLock takes an exclusive lock that belongs to this open file and ends with it; false if somebody else has it.
func tryLock(f *os.File) (bool, error) { return flock(f, syscall.LOCK_EX) }

// tryProbe is tryLock for looking only: those who look do not meet each other.
func tryProbe(f *os.File) (bool, error) { return flock(f, syscall.LOCK_SH) }

func flock(f *os.File, how int) (bool, error) {
	for {
		err := syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB)
		switch {
		case err == nil:
			return true, nil
		case errors.Is(err, syscall.EWOULDBLOCK):
			return false, nil
		case !errors.Is(err, syscall.EINTR):
			return false, err
		}
	}
}

//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly)

package einmal

import (
	"errors"
	"os"
)

func tryLock(*os.File) (bool, error) { return false, errors.ErrUnsupported }

func tryProbe(*os.File) (bool, error) { return false, errors.ErrUnsupported }

func locksAreLocal(string) bool { return false }

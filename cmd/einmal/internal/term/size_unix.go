//go:build unix

package term

import (
	"os"

	"golang.org/x/sys/unix"
)

func size(f *os.File) (width int, terminal bool) {
	ws, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0, false
	}
	if ws.Col == 0 {
		return 80, true
	}
	return int(ws.Col), true
}

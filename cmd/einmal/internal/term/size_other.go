//go:build !unix

package term

import "os"

func size(f *os.File) (width int, terminal bool) {
	info, err := f.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return 0, false
	}
	return 80, true
}

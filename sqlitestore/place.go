package sqlitestore

import (
	"errors"
	"fmt"
	"os"
	"time"
)

// errReplaced says that the store's path leads to another file than the one that was opened. What is written to the old one is lost with it.
var errReplaced = errors.New("the store's file was moved, removed or replaced while it was open: bring the file back, or stop every process before one is put in its place")

// filePlace knows which file the store's path led to when it was opened. Not safe for concurrent use.
type filePlace struct {
	path   string // "": nothing to check
	opened os.FileInfo
	looked time.Time
	err    error
}

// lookAgain bounds how long writes go on to a file that is no longer in its place.
const lookAgain = 200 * time.Millisecond

func newFilePlace(path string) (filePlace, error) {
	if path == "" {
		return filePlace{}, nil
	}
	info, err := os.Stat(path)
	return filePlace{path: path, opened: info}, err
}

// check refuses to write when the path does not lead to the opened file any more.
func (p *filePlace) check() error {
	if p.path == "" || time.Since(p.looked) < lookAgain {
		return p.err
	}
	p.err = nil
	info, err := os.Stat(p.path)
	switch {
	case err != nil:
		p.err = fmt.Errorf("sqlitestore: %w: %w", errReplaced, err)
	case !os.SameFile(info, p.opened):
		p.err = fmt.Errorf("sqlitestore: %s: %w", p.path, errReplaced)
	}
	p.looked = time.Now()
	return p.err
}

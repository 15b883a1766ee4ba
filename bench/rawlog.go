package main

import (
	"encoding/binary"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// rawlog is the least that can be durable: an append-only file with group commit and fdatasync, and a map in memory. It has no leases, fences,
// timeline, checks or expiry, and a restart would have to read it all. It writes the same bytes as a record does.
type rawlog struct {
	f *os.File

	mu      sync.Mutex
	records map[string]*rawRecord
	pending []byte
	batch   chan struct{} // closed when what is pending now is durable
	wake    chan struct{}
	err     error
	ended   chan struct{}
}

type rawRecord struct {
	fingerprint [32]byte
	offset      int64 // of the result
	done        bool
}

func openRawlog(path string) (*rawlog, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	l := &rawlog{f: f, records: map[string]*rawRecord{}, batch: make(chan struct{}), wake: make(chan struct{}, 1), ended: make(chan struct{})}
	go l.loop()
	return l, nil
}

// reserve returns true when the key is new; it is durable then.
func (l *rawlog) reserve(key string, fingerprint [32]byte, fields []byte) (bool, error) {
	l.mu.Lock()
	if l.records[key] != nil {
		l.mu.Unlock()
		return false, nil
	}
	l.records[key] = &rawRecord{fingerprint: fingerprint}
	return true, l.append(1, key, fingerprint[:], fields)
}

func (l *rawlog) complete(key string, header, body []byte) error {
	l.mu.Lock()
	r := l.records[key]
	r.done, r.offset = true, int64(len(l.pending))
	return l.append(2, key, header, body)
}

// append waits for the commit. It is called with the lock and gives it up.
func (l *rawlog) append(kind byte, parts0 string, parts ...[]byte) error {
	b := append(l.pending, kind)
	b = append(binary.AppendUvarint(b, uint64(len(parts0))), parts0...)
	for _, p := range parts {
		b = append(binary.AppendUvarint(b, uint64(len(p))), p...)
	}
	l.pending = b
	batch := l.batch
	l.mu.Unlock()
	select {
	case l.wake <- struct{}{}:
	default:
	}
	<-batch
	return l.err
}

func (l *rawlog) loop() {
	defer close(l.ended)
	var spare []byte
	for range l.wake {
		l.mu.Lock()
		b, batch := l.pending, l.batch
		l.pending, l.batch = spare[:0], make(chan struct{})
		l.mu.Unlock()
		if len(b) > 0 {
			if _, err := l.f.Write(b); err != nil {
				l.err = err
			} else if err := unix.Fdatasync(int(l.f.Fd())); err != nil {
				l.err = err
			}
		}
		close(batch)
		spare = b
	}
}

func (l *rawlog) close() error {
	close(l.wake)
	<-l.ended
	return l.f.Close()
}

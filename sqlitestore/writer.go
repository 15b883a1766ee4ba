package sqlitestore

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/einmal-dev/einmal"
)

// maxBatch bounds how many writes share a commit, and with it how long another process waits for its turn.
const maxBatch = 256

// op is one write that waits for the writer. Who gives up before the writer takes it takes it out.
type op struct {
	run   func(*tx) error
	err   error
	taken atomic.Bool
	done  chan struct{} // of capacity 1
}

// write has the writer run a step in a transaction and returns when it is durable. The step's own error means that it wrote nothing.
// When ctx ends while the step is under way, its fate is unknown, and so is what it returned through its variables.
func (s *Store) write(ctx context.Context, run func(*tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	o := &op{run: run, done: make(chan struct{}, 1)} // not reused: a channel belongs to its testing/synctest bubble
	if !s.writer.put(o) {
		return einmal.ErrStoreClosed
	}
	select {
	case <-o.done:
		return o.err
	case <-ctx.Done():
	}
	select {
	case <-o.done: // both came at once
		return o.err
	default:
	}
	if o.taken.CompareAndSwap(false, true) {
		return ctx.Err()
	}
	return fmt.Errorf("sqlitestore: gave up waiting for a write that was begun: %w", ctx.Err())
}

// writer is the only goroutine of a handle that writes. It takes whatever has come while the last commit was under way and commits it at once.
type writer struct {
	store *Store
	c     *conn // nil after an I/O error
	old   *conn // the one that had it, until there is another

	buf     []byte // for encoding, reused
	head    []byte
	holders []int64

	mu     sync.Mutex
	queue  []*op
	closed bool
	wake   chan struct{} // of capacity 1
	ended  chan struct{}

	// What the last transaction left behind. It counts until another connection commits or a transaction is rolled back.
	version  uint32           // SQLite's, of the file as this connection sees it
	meta     *meta            // nil: not read
	settings []einmal.Setting // nil: not read
	open     map[string]*openCount
	recent   map[einmal.ID]*found
	spare    []*found // to be used again for recent
}

func newWriter(s *Store, c *conn) *writer {
	return &writer{store: s, c: c, wake: make(chan struct{}, 1), ended: make(chan struct{})}
}

// forget drops what is remembered between transactions.
func (w *writer) forget() { w.meta, w.settings, w.open, w.recent = nil, nil, nil, nil }

// maxRecent bounds the records that the writer remembers.
const maxRecent = 4096

// remember keeps an open record for the change that will come for it. Answers inside it would be shared with callers, so such a one is not kept.
func (w *writer) remember(rec *einmal.Record, at place) {
	kept := w.recent[rec.ID]
	if !rec.State.Open() || slices.ContainsFunc(rec.Ends, func(e einmal.AttemptEnd) bool { return e.Result != nil }) {
		if kept != nil {
			delete(w.recent, rec.ID)
			w.spare = append(w.spare, kept)
		}
		return
	}
	if kept == nil {
		if w.recent == nil || len(w.recent) >= maxRecent {
			w.recent = map[einmal.ID]*found{}
		}
		if last := len(w.spare) - 1; last >= 0 {
			kept, w.spare = w.spare[last], w.spare[:last]
		} else {
			kept = new(found)
		}
		w.recent[rec.ID] = kept
	}
	ends := append(kept.rec.Ends[:0], rec.Ends...)
	kept.rec, kept.at = *rec, at
	kept.rec.Ends = ends
}

// noticeOthers forgets when another connection has committed since the last transaction.
func (w *writer) noticeOthers() error {
	version, err := w.c.dataVersion()
	if version != w.version {
		w.forget()
		w.version = version
	}
	return err
}

// noticeOwn takes the version that the connection's own commit has made.
func (w *writer) noticeOwn() {
	version, err := w.c.dataVersion()
	if err != nil {
		w.forget()
	}
	w.version = version
}

func (w *writer) put(o *op) bool {
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return false
	}
	w.queue = append(w.queue, o)
	w.mu.Unlock()
	w.signal()
	return true
}

func (w *writer) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// close lets the writer finish what is queued and waits for it.
func (w *writer) close() {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.signal()
	<-w.ended
}

// take moves up to maxBatch queued writes to batch; it waits for the first. more is false when the writer was closed and none is left.
func (w *writer) take(batch []*op) (_ []*op, more bool) {
	for {
		w.mu.Lock()
		n := min(len(w.queue), maxBatch)
		for _, o := range w.queue[:n] {
			if o.taken.CompareAndSwap(false, true) {
				batch = append(batch, o)
			}
		}
		rest := copy(w.queue, w.queue[n:])
		clear(w.queue[rest:])
		w.queue = w.queue[:rest]
		closed := w.closed
		w.mu.Unlock()
		switch {
		case len(batch) > 0:
			return batch, true
		case rest > 0:
		case closed:
			return nil, false
		default:
			w.store.turn.give()
			<-w.wake
		}
	}
}

func (w *writer) loop() {
	defer close(w.ended)
	var batch []*op
	for {
		var more bool
		if batch, more = w.take(batch[:0]); !more {
			return
		}
		w.together(batch)
		for i, o := range batch {
			o.done <- struct{}{}
			batch[i] = nil
		}
		w.letCome()
	}
}

// letCome lets those who were just answered come with their next write, so that it shares the next commit instead of missing it by a hair. It
// waits for nobody: it ends as soon as no goroutine that was ready to run has brought anything.
func (w *writer) letCome() {
	for before := -1; ; {
		runtime.Gosched()
		w.mu.Lock()
		n := len(w.queue)
		w.mu.Unlock()
		if n <= before || n >= maxBatch {
			return
		}
		before = n
	}
}

package sqlitestore

import (
	"sync"
	"time"

	"github.com/einmal-dev/einmal"
)

// clock reads the time against the mark in the file, for all goroutines of a handle.
type clock struct {
	mu      sync.Mutex
	guard   einmal.ClockGuard
	jumped  bool  // seen here, perhaps not yet in the file
	accepts int64 // how many acceptances this handle knows of
}

// start takes the file's word for everything that happened before this handle.
func (c *clock) start(m *meta) {
	c.mu.Lock()
	c.accepts = m.accepts
	c.mu.Unlock()
	c.read(m)
}

// read returns the store's time, and whether the clock jumped and nobody has accepted it.
func (c *clock) read(m *meta) (now time.Time, jumped bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m.accepts > c.accepts { // the clock as it is now was accepted since the last reading, perhaps through another handle
		c.accepts, c.jumped = m.accepts, false
		c.guard.Accept()
	}
	now, step := c.guard.Read(m.highWater())
	c.jumped = c.jumped || step
	return instant(now.UnixNano()), c.jumped || m.jumped
}

// wall returns the time of day, whatever the mark is.
func (c *clock) wall() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return instant(c.guard.Accept().UnixNano())
}

package storetest

import (
	"sync"
	"time"
)

// Clock is an einmal.Clock that stands still until it is told. It is for makers whose storage takes a clock.
type Clock struct {
	mu   sync.Mutex
	wall time.Time
	mono time.Duration
}

// NewClock returns a clock that stands at some day.
func NewClock() *Clock {
	return &Clock{wall: time.Date(2026, time.March, 14, 9, 26, 53, 0, time.UTC), mono: time.Hour}
}

// Read is the einmal.Clock.
func (c *Clock) Read() (wall time.Time, mono time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.wall, c.mono
}

// Advance lets time pass.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wall, c.mono = c.wall.Add(d), c.mono+d
}

// Jump sets the wall clock by d.
func (c *Clock) Jump(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wall = c.wall.Add(d)
}

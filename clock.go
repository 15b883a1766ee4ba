package einmal

import "time"

// Clock reads the time of day and a monotonic reading that no clock setting moves. Both move together unless somebody sets the clock.
type Clock func() (wall time.Time, mono time.Duration)

var processStart = time.Now()

// SystemClock is the machine's clock.
func SystemClock() (wall time.Time, mono time.Duration) {
	now := time.Now()
	return now.Round(0), now.Sub(processStart)
}

// How far a store's clock may step before purging and re-runs stop, until an operator accepts it.
const (
	MaxClockStep      = 5 * time.Minute // while the handle lives, or backwards
	MaxClockStepFresh = 24 * time.Hour  // since the last mark, for a handle that was just opened
)

// ClockGuard holds a store's clock against its persisted high-water mark. One guard belongs to one handle; its methods are not safe for concurrent use.
type ClockGuard struct {
	Clock Clock // nil: SystemClock
	live  bool
	first time.Time     // the wall clock at the first Read or the last jump
	mono  time.Duration // and the monotonic one
}

// Read returns the store's time, which is never below mark, and whether the clock jumped: for a fresh guard since mark, later since the first Read or the
// last jump, so that small steps add up. A zero mark is a new store.
func (g *ClockGuard) Read(mark time.Time) (now time.Time, jumped bool) {
	clock := g.Clock
	if clock == nil {
		clock = SystemClock
	}
	wall, mono := clock()
	switch {
	case g.live:
		step := wall.Sub(g.first) - (mono - g.mono)
		jumped = step.Abs() > MaxClockStep
	case !mark.IsZero():
		step := wall.Sub(mark)
		jumped = step > MaxClockStepFresh || step < -MaxClockStep
	}
	if !g.live || jumped {
		g.live, g.first, g.mono = true, wall, mono
	}
	if wall.Before(mark) {
		return mark, jumped
	}
	return wall, jumped
}

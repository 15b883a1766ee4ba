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
	wall  time.Time     // at the last reading
	mono  time.Duration // at the last reading
	floor time.Time     // the least that the next reading returns, less what elapses; a jump does not move it
}

// Read returns the store's time and whether the clock jumped: for a fresh guard since mark, later since the last Read. A zero mark is a new store.
//
// The time is never below mark, and while the guard lives it never advances less than the monotonic clock: after a step back too small to be a jump no age
// is understated.
func (g *ClockGuard) Read(mark time.Time) (now time.Time, jumped bool) {
	wall, mono := g.read()
	now = wall
	switch {
	case g.live:
		elapsed := mono - g.mono
		jumped = (wall.Sub(g.wall) - elapsed).Abs() > MaxClockStep
		g.floor = g.floor.Add(elapsed)
		switch ahead := wall.Sub(g.floor); {
		case ahead < 0:
			now = g.floor
		case ahead <= MaxClockStep:
			g.floor = wall
		}
	case !mark.IsZero():
		step := wall.Sub(mark)
		jumped = step > MaxClockStepFresh || step < -MaxClockStep
	}
	if now.Before(mark) {
		now = mark
	}
	if !g.live {
		g.floor = now
		if jumped {
			g.floor = mark
		}
	}
	g.live, g.wall, g.mono = true, wall, mono
	return now, jumped
}

// Accept takes the clock as it is, after a jump, and returns the time of day. Every handle on the storage has to, once an operator has accepted the clock.
func (g *ClockGuard) Accept() time.Time {
	wall, mono := g.read()
	g.live, g.wall, g.mono, g.floor = true, wall, mono, wall
	return wall
}

func (g *ClockGuard) read() (wall time.Time, mono time.Duration) {
	if g.Clock == nil {
		return SystemClock()
	}
	return g.Clock()
}

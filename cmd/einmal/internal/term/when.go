package term

import (
	"fmt"
	"time"
)

// Age says how long ago t is, or in how long it comes, in one unit.
func Age(t, now time.Time) string {
	switch d := now.Sub(t); {
	case d < 0:
		return "in " + Span(-d)
	case d < time.Second:
		return "just now"
	default:
		return Span(d) + " ago"
	}
}

// Span is a duration in its largest unit, rounded down.
func Span(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d < 2*day:
		return fmt.Sprintf("%dh", d/time.Hour)
	default:
		return fmt.Sprintf("%dd", d/day)
	}
}

// Clock is the local time of day, with the date where it is another day than now.
func Clock(t, now time.Time) string {
	t, now = t.Local(), now.Local()
	if t.YearDay() == now.YearDay() && t.Year() == now.Year() {
		return t.Format("15:04:05")
	}
	return t.Format("2006-01-02 15:04:05")
}

// When is the local time and the age.
func When(t, now time.Time) string {
	return Clock(t, now) + " (" + Age(t, now) + ")"
}

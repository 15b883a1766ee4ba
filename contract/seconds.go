package contract

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Seconds is a duration that JSON shows as a number of seconds, exact to the nanosecond.
type Seconds time.Duration

// String is the duration as Go prints it.
func (s Seconds) String() string { return time.Duration(s).String() }

// MarshalJSON writes a plain decimal: 86400 or 0.25.
func (s Seconds) MarshalJSON() ([]byte, error) {
	if s < 0 {
		return nil, fmt.Errorf("contract: negative duration %v", s)
	}
	text := strconv.FormatInt(int64(s)/int64(time.Second), 10)
	if rest := int64(s) % int64(time.Second); rest > 0 {
		text += "." + strings.TrimRight(fmt.Sprintf("%09d", rest), "0")
	}
	return []byte(text), nil
}

// UnmarshalJSON reads what MarshalJSON writes: digits, and at most nine more after a point. No sign, no exponent.
func (s *Seconds) UnmarshalJSON(text []byte) error {
	whole, fraction, point := strings.Cut(string(text), ".")
	seconds, err := strconv.ParseUint(whole, 10, 63)
	const longest = uint64(1<<63-1) / uint64(time.Second)
	if err != nil || seconds >= longest || point && (fraction == "" || len(fraction) > 9) {
		return fmt.Errorf("contract: %s is no number of seconds", text)
	}
	var nanos uint64
	if point {
		if nanos, err = strconv.ParseUint(fraction+strings.Repeat("0", 9-len(fraction)), 10, 63); err != nil {
			return fmt.Errorf("contract: %s is no number of seconds", text)
		}
	}
	*s = Seconds(seconds*uint64(time.Second) + nanos)
	return nil
}

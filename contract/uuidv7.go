package contract

import (
	"encoding/hex"
	"fmt"
	"time"
)

// KeyTime reads the time that a key which is a UUID version 7 claims, to the millisecond (RFC 9562, section 5.7). It takes the text form only: 32
// hexadecimal digits of either case, with hyphens after the 8th, 12th, 16th and 20th. Every other key, other versions and variants too, is an error
// that wraps ErrKeyInvalid.
func KeyTime(key string) (time.Time, error) {
	const form = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx"
	if len(key) != len(form) || key[8] != '-' || key[13] != '-' || key[18] != '-' || key[23] != '-' {
		return time.Time{}, fmt.Errorf("%w: not a UUID", ErrKeyInvalid)
	}
	var id [16]byte
	if _, err := hex.Decode(id[:], []byte(key[:8]+key[9:13]+key[14:18]+key[19:23]+key[24:])); err != nil {
		return time.Time{}, fmt.Errorf("%w: not a UUID: %w", ErrKeyInvalid, err)
	}
	if version := id[6] >> 4; version != 7 {
		return time.Time{}, fmt.Errorf("%w: a UUID of version %d, want 7", ErrKeyInvalid, version)
	}
	if id[8]>>6 != 0b10 {
		return time.Time{}, fmt.Errorf("%w: a UUID of another variant", ErrKeyInvalid)
	}
	var milliseconds int64
	for _, b := range id[:6] {
		milliseconds = milliseconds<<8 | int64(b)
	}
	return time.UnixMilli(milliseconds).UTC(), nil
}

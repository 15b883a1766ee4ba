package contract

import (
	"errors"
	"fmt"
	"strings"

	"github.com/dunglas/httpsfv"
)

// MaxKeyLength is the longest key accepted, in bytes after unquoting.
const MaxKeyLength = 255

// bareForbidden are the characters that only a quoted key may have, so that no value can be read both ways.
const bareForbidden = "\",;\\"

// ErrKeyMissing says that no key was sent; ErrKeyInvalid that what was sent is not one key.
var (
	ErrKeyMissing = errors.New("no idempotency key")
	ErrKeyInvalid = errors.New("invalid idempotency key")
)

// ParseKey reads the key from the field lines of one request.
//
// A key is a quoted structured-field string (RFC 9651, section 3.3.3) or, because that is what most clients send, a bare value; both name the
// same key: "k-1" and k-1. A bare value is printable ASCII without spaces and without the four characters `"`, `,`, `;`, `\`, so that no value can
// be read both ways. Parameters, a second field line, a list, an empty key and one over MaxKeyLength bytes are errors that wrap ErrKeyInvalid;
// no line at all is ErrKeyMissing.
func ParseKey(lines []string) (string, error) {
	switch len(lines) {
	case 0:
		return "", ErrKeyMissing
	case 1:
	default:
		return "", fmt.Errorf("%w: sent %d times", ErrKeyInvalid, len(lines))
	}
	raw := strings.Trim(lines[0], " \t")
	key := raw
	if strings.HasPrefix(raw, `"`) {
		item, err := httpsfv.UnmarshalItem([]string{raw})
		if err != nil {
			return "", fmt.Errorf("%w: not a structured-field string: %v", ErrKeyInvalid, err)
		}
		value, ok := item.Value.(string)
		if !ok || len(item.Params.Names()) > 0 {
			return "", fmt.Errorf("%w: not a plain structured-field string", ErrKeyInvalid)
		}
		key = value
	} else if err := checkBareKey(raw); err != nil {
		return "", err
	}
	if err := CheckKey(key); err != nil {
		return "", err
	}
	return key, nil
}

// CheckKey says whether an unquoted key may be used: 1 to MaxKeyLength bytes of printable ASCII. The error wraps ErrKeyInvalid.
func CheckKey(key string) error {
	if key == "" {
		return fmt.Errorf("%w: empty", ErrKeyInvalid)
	}
	if len(key) > MaxKeyLength {
		return fmt.Errorf("%w: %d bytes, at most %d", ErrKeyInvalid, len(key), MaxKeyLength)
	}
	for i := range len(key) {
		if key[i] < 0x20 || key[i] > 0x7e {
			return fmt.Errorf("%w: byte %d is not printable ASCII", ErrKeyInvalid, i+1)
		}
	}
	return nil
}

// FormatKey writes a key as the structured-field string that ParseKey reads back.
func FormatKey(key string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(key) + `"`
}

func checkBareKey(raw string) error {
	for i := range len(raw) {
		switch c := raw[i]; {
		case c <= 0x20 || c > 0x7e:
			return fmt.Errorf("%w: byte %d is not printable ASCII", ErrKeyInvalid, i+1)
		case strings.IndexByte(bareForbidden, c) >= 0:
			return fmt.Errorf("%w: %q must be in a quoted string", ErrKeyInvalid, c)
		}
	}
	return nil
}

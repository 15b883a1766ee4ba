package fingerprint

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"unicode/utf16"
	"unicode/utf8"
)

// Errors of CanonicalJSON, for errors.Is.
var (
	ErrJSON            = errors.New("fingerprint: not one JSON text")
	ErrDuplicateMember = errors.New("fingerprint: duplicate member in JSON object") // readers differ in which one counts
	ErrNotUnicode      = errors.New("fingerprint: JSON text is not Unicode")        // invalid UTF-8, or half of a surrogate pair
	ErrTooDeep         = errors.New("fingerprint: JSON nested too deep")            // over MaxDepth
)

// MaxDepth is how deep objects and arrays may be nested.
const MaxDepth = 1000

// CanonicalJSON rewrites one JSON text (RFC 8259) so that member order, white space and string escapes no longer count. Numbers stay as they were
// written: 9007199254740993 and 9007199254740992 are different, and so are 1 and 1.0. What readers understand differently is refused: duplicate
// members, and text that is not Unicode, which many replace by one and the same character.
//
// Fingerprints in stored records depend on the output, so it must never change: the string form is written here and not by encoding/json, whose own
// has changed before.
func CanonicalJSON(text []byte) ([]byte, error) {
	if !utf8.Valid(text) {
		return nil, ErrNotUnicode
	}
	if !json.Valid(text) {
		var v json.RawMessage
		return nil, fmt.Errorf("%w: %w", ErrJSON, json.Unmarshal(text, &v))
	}
	r := reader{text: text}
	v, err := r.value(0)
	if err != nil {
		return nil, err
	}
	return v.append(make([]byte, 0, len(text))), nil
}

type value struct {
	kind    byte     // '[', '{', or 0 for a scalar
	scalar  []byte   // in its canonical form
	members []member // of an array, without names
}

type member struct {
	name  []byte // in its canonical form, quotes included
	value value
}

func (v *value) append(out []byte) []byte {
	if v.kind == 0 {
		return append(out, v.scalar...)
	}
	out = append(out, v.kind)
	for i := range v.members {
		if i > 0 {
			out = append(out, ',')
		}
		if v.kind == '{' {
			out = append(append(out, v.members[i].name...), ':')
		}
		out = v.members[i].value.append(out)
	}
	return append(out, v.kind+2) // ']' and '}' follow their opening ones by two
}

// reader walks over a text that is known to be valid, and so needs to look at what comes next only.
type reader struct {
	text []byte
	pos  int
}

func (r *reader) value(depth int) (value, error) {
	switch c := r.next(); c {
	case '[', '{':
		if depth == MaxDepth {
			return value{}, fmt.Errorf("%w: more than %d levels", ErrTooDeep, MaxDepth)
		}
		return r.members(c, depth)
	case '"':
		text, err := r.str()
		return value{scalar: text}, err
	default:
		start := r.pos
		if end := bytes.IndexAny(r.text[start:], " \t\r\n,]}"); end >= 0 {
			r.pos += end
		} else {
			r.pos = len(r.text)
		}
		return value{scalar: r.text[start:r.pos]}, nil
	}
}

func (r *reader) members(kind byte, depth int) (value, error) {
	v := value{kind: kind}
	r.pos++
	for r.next() != kind+2 {
		var m member
		var err error
		if kind == '{' {
			if m.name, err = r.str(); err != nil {
				return value{}, err
			}
			r.next()
			r.pos++ // the colon
		}
		if m.value, err = r.value(depth + 1); err != nil {
			return value{}, err
		}
		v.members = append(v.members, m)
		if r.next() == ',' {
			r.pos++
		}
	}
	r.pos++
	if kind == '{' {
		slices.SortFunc(v.members, func(a, b member) int { return bytes.Compare(a.name, b.name) })
		for i := 1; i < len(v.members); i++ {
			if bytes.Equal(v.members[i-1].name, v.members[i].name) {
				return value{}, fmt.Errorf("%w: %s", ErrDuplicateMember, v.members[i].name)
			}
		}
	}
	return v, nil
}

// next skips white space and returns the byte there.
func (r *reader) next() byte {
	for {
		switch c := r.text[r.pos]; c {
		case ' ', '\t', '\r', '\n':
			r.pos++
		default:
			return c
		}
	}
}

// str reads a string and returns its canonical form: in quotes, with \" and \\ and \u00xx for control characters, and nothing else escaped.
func (r *reader) str() ([]byte, error) {
	start := r.pos
	r.pos++
	escaped := false
	for r.text[r.pos] != '"' {
		if r.text[r.pos] == '\\' {
			escaped = true
			r.pos++
		}
		r.pos++
	}
	r.pos++
	raw := r.text[start:r.pos]
	if !escaped {
		return raw, nil
	}
	return canonicalString(raw)
}

func canonicalString(raw []byte) ([]byte, error) {
	out := make([]byte, 0, len(raw))
	for i := 0; i < len(raw); i++ {
		if raw[i] != '\\' {
			out = append(out, raw[i])
			continue
		}
		i++
		c, used := unescape(raw[i:])
		if c < 0 {
			return nil, fmt.Errorf("%w: half of a surrogate pair", ErrNotUnicode)
		}
		i += used - 1
		switch {
		case c == '"' || c == '\\':
			out = append(out, '\\', byte(c))
		case c < 0x20:
			out = fmt.Appendf(out, `\u%04x`, c)
		default:
			out = utf8.AppendRune(out, c)
		}
	}
	return out, nil
}

// unescape reads an escape from behind its backslash: the character, -1 for half of a surrogate pair, and the number of bytes.
func unescape(s []byte) (c rune, used int) {
	switch s[0] {
	case 'b':
		return '\b', 1
	case 'f':
		return '\f', 1
	case 'n':
		return '\n', 1
	case 'r':
		return '\r', 1
	case 't':
		return '\t', 1
	case 'u':
	default: // itself: quote, backslash, slash
		return rune(s[0]), 1
	}
	first := hex4(s[1:])
	if !utf16.IsSurrogate(first) {
		return first, 5
	}
	if s[5] != '\\' || s[6] != 'u' {
		return -1, 0
	}
	pair := utf16.DecodeRune(first, hex4(s[7:]))
	if pair == utf8.RuneError {
		return -1, 0
	}
	return pair, 11
}

func hex4(s []byte) rune {
	var n rune
	for _, c := range s[:4] {
		n <<= 4
		switch {
		case c <= '9':
			n |= rune(c - '0')
		default:
			n |= rune(c|0x20-'a') + 10
		}
	}
	return n
}

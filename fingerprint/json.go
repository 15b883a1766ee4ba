package fingerprint

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
)

// ErrDuplicateMember says that a JSON object has two members of one name: readers differ in which one counts.
var ErrDuplicateMember = errors.New("fingerprint: duplicate member in JSON object")

// CanonicalJSON rewrites one JSON text (RFC 8259) so that member order, white space and string escapes no longer count. Numbers stay as they were
// written: 9007199254740993 and 9007199254740992 are different, and so are 1 and 1.0. Objects with a duplicate member are refused with
// ErrDuplicateMember, and so is anything after the text.
func CanonicalJSON(text []byte) ([]byte, error) {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	out, err := appendValue(nil, dec, 0)
	if err != nil {
		return nil, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("fingerprint: more than one JSON text")
	}
	return out, nil
}

// maxDepth bounds the recursion over nested JSON.
const maxDepth = 1000

func appendValue(out []byte, dec *json.Decoder, depth int) ([]byte, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("fingerprint: JSON nested deeper than %d", maxDepth)
	}
	tok, err := dec.Token()
	if err != nil {
		return nil, fmt.Errorf("fingerprint: JSON: %w", err)
	}
	switch v := tok.(type) {
	case json.Delim:
		if v == '[' {
			return appendArray(out, dec, depth)
		}
		return appendObject(out, dec, depth)
	case json.Number:
		return append(out, v.String()...), nil
	default: // string, bool, nil
		return appendScalar(out, v)
	}
}

func appendScalar(out []byte, v any) ([]byte, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("fingerprint: JSON: %w", err)
	}
	return append(out, b...), nil
}

func appendArray(out []byte, dec *json.Decoder, depth int) ([]byte, error) {
	out = append(out, '[')
	for first := true; dec.More(); first = false {
		if !first {
			out = append(out, ',')
		}
		var err error
		if out, err = appendValue(out, dec, depth+1); err != nil {
			return nil, err
		}
	}
	if _, err := dec.Token(); err != nil {
		return nil, fmt.Errorf("fingerprint: JSON: %w", err)
	}
	return append(out, ']'), nil
}

func appendObject(out []byte, dec *json.Decoder, depth int) ([]byte, error) {
	type member struct {
		name string
		text []byte
	}
	var members []member
	for dec.More() {
		tok, err := dec.Token()
		if err != nil {
			return nil, fmt.Errorf("fingerprint: JSON: %w", err)
		}
		name, _ := tok.(string) // the decoder allows nothing else here
		text, err := appendValue(nil, dec, depth+1)
		if err != nil {
			return nil, err
		}
		members = append(members, member{name, text})
	}
	if _, err := dec.Token(); err != nil {
		return nil, fmt.Errorf("fingerprint: JSON: %w", err)
	}
	slices.SortFunc(members, func(a, b member) int { return bytes.Compare([]byte(a.name), []byte(b.name)) })
	out = append(out, '{')
	for i, m := range members {
		if i > 0 {
			if members[i-1].name == m.name {
				return nil, fmt.Errorf("%w: %q", ErrDuplicateMember, m.name)
			}
			out = append(out, ',')
		}
		var err error
		if out, err = appendScalar(out, m.name); err != nil {
			return nil, err
		}
		out = append(append(out, ':'), m.text...)
	}
	return append(out, '}'), nil
}

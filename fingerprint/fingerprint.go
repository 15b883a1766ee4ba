// Package fingerprint hashes the parameters that make an operation what it is. Its functions are pure.
//
// Two requests with the same key are the same operation only if their fingerprints are equal. A Sum carries the version of the rules that made it, so
// that an old record is compared by its own.
package fingerprint

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
)

// V1 is SHA-256 over length-prefixed parts with the raw body.
const V1 uint8 = 1

// Latest is the version that new records get.
const Latest = V1

// Size is the length of an encoded Sum in bytes.
const Size = 1 + sha256.Size

// ErrVersion says that a Sum was made by rules that this program does not know.
var ErrVersion = errors.New("fingerprint: unknown version")

// Sum is a fingerprint. The zero Sum is none; compare with ==.
type Sum struct {
	Version uint8
	Hash    [sha256.Size]byte
}

// Append appends the encoded Sum to b.
func (s Sum) Append(b []byte) []byte { return append(append(b, s.Version), s.Hash[:]...) }

// Decode reads what Append wrote. The error wraps ErrVersion when the version is unknown.
func Decode(b []byte) (Sum, error) {
	if len(b) != Size {
		return Sum{}, fmt.Errorf("fingerprint: %d bytes instead of %d", len(b), Size)
	}
	s := Sum{Version: b[0]}
	copy(s.Hash[:], b[1:])
	if s.Version != V1 {
		return Sum{}, fmt.Errorf("%w %d", ErrVersion, s.Version)
	}
	return s, nil
}

// Field is a named value, such as a header field.
type Field struct{ Name, Value string }

// Parts is what a fingerprint is made of. Order counts in all of them; nothing is normalised.
type Parts struct {
	Method    string
	Operation string
	Path      []Field // path values by name
	Query     string  // raw
	Fields    []Field // Content-Type, Content-Encoding, If-*, and the policy's named headers
	Body      []byte  // raw
}

// Sum hashes the parts by the rules of a version. The error wraps ErrVersion.
//
// Every part and every list is prefixed with its length, so no two different Parts are the same bytes to the hash.
func (p *Parts) Sum(version uint8) (Sum, error) {
	if version != V1 {
		return Sum{}, fmt.Errorf("%w %d", ErrVersion, version)
	}
	h := writer{h: sha256.New(), buf: make([]byte, 0, 256)}
	h.str("einmal fingerprint 1")
	h.str(p.Method)
	h.str(p.Operation)
	h.fields(p.Path)
	h.str(p.Query)
	h.fields(p.Fields)
	h.num(len(p.Body))
	h.flush()
	h.h.Write(p.Body)
	s := Sum{Version: version}
	h.h.Sum(s.Hash[:0])
	return s, nil
}

type writer struct {
	h   hash.Hash
	buf []byte
}

func (w *writer) num(n int)    { w.buf = binary.BigEndian.AppendUint64(w.buf, uint64(n)) }
func (w *writer) str(s string) { w.num(len(s)); w.buf = append(w.buf, s...) }
func (w *writer) flush()       { w.h.Write(w.buf); w.buf = w.buf[:0] }

func (w *writer) fields(fs []Field) {
	w.num(len(fs))
	for _, f := range fs {
		w.str(f.Name)
		w.str(f.Value)
	}
}

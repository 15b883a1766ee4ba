package sqlitestore

import (
	"encoding/binary"
	"sync"
	"time"

	"github.com/einmal-dev/einmal"
)

type wordKind byte

const (
	wordPolicy wordKind = 1 // an operation name and its terms
	wordHolder wordKind = 2
)

// word is a value that many records share. It is stored once, for ever, and records hold its number.
type word struct {
	kind      wordKind
	operation string
	terms     einmal.Terms
	holder    einmal.Holder
}

func policyWord(operation string, terms einmal.Terms) word {
	return word{kind: wordPolicy, operation: operation, terms: terms}
}

func holderWord(h einmal.Holder) word { return word{kind: wordHolder, holder: h} }

func (w *word) encode() []byte {
	b := append(make([]byte, 0, 128), byte(w.kind))
	switch w.kind {
	case wordPolicy:
		t := &w.terms
		b = appendString(appendString(b, w.operation), t.Owner)
		b = append(b, byte(t.Class))
		for _, d := range [...]time.Duration{
			t.Deadline, t.Lease, t.Window, t.KeepResult, t.Tombstone, t.UnclearDeadline, t.PartnerWindow, t.Backoff, time.Duration(t.MaxAttempts),
		} {
			b = binary.AppendVarint(b, int64(d))
		}
	case wordHolder:
		b = appendString(appendString(appendString(b, w.holder.Incarnation), w.holder.Host), w.holder.Boot)
	}
	return b
}

func decodeWord(data []byte) (w word, err error) {
	d := decoder{b: data}
	w.kind = wordKind(d.byte())
	switch w.kind {
	case wordPolicy:
		t := &w.terms
		w.operation, t.Owner, t.Class = d.string(), d.string(), einmal.Class(d.byte())
		for _, to := range [...]*time.Duration{
			&t.Deadline, &t.Lease, &t.Window, &t.KeepResult, &t.Tombstone, &t.UnclearDeadline, &t.PartnerWindow, &t.Backoff,
		} {
			*to = time.Duration(d.varint())
		}
		t.MaxAttempts = int(d.varint())
	case wordHolder:
		w.holder = einmal.Holder{Incarnation: d.string(), Host: d.string(), Boot: d.string()}
	default:
		d.fail()
	}
	if d.bad || len(d.b) > 0 {
		return word{}, errDamaged
	}
	return w, nil
}

// vocabulary holds committed words, for all connections of a handle.
type vocabulary struct {
	mu   sync.RWMutex
	byID map[int64]word
	ids  map[word]int64
}

// maxVocabulary bounds the memory; what does not fit is read from the file each time.
const maxVocabulary = 4096

func (v *vocabulary) word(id int64) (word, bool) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	w, ok := v.byID[id]
	return w, ok
}

func (v *vocabulary) id(w *word) (int64, bool) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	id, ok := v.ids[*w]
	return id, ok
}

func (v *vocabulary) add(id int64, w word) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.byID == nil || len(v.byID) >= maxVocabulary {
		v.byID, v.ids = map[int64]word{}, map[word]int64{}
	}
	v.byID[id], v.ids[w] = w, id
}

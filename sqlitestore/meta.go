package sqlitestore

import (
	"encoding/binary"
	"time"

	"github.com/einmal-dev/einmal"
)

// meta is what a store knows of itself and what every write moves.
type meta struct {
	seq, epoch int64
	mark       int64 // the clock's high-water mark in nanoseconds since 1970, 0: none yet
	jumped     bool  // the clock jumped, and nobody has accepted it yet
	accepts    int64 // how often somebody accepted it
	indexed    int64 // up to this ID every open record has its due time in the index (see young.go)
}

func (m *meta) encode() []byte {
	b := make([]byte, sumSize, sumSize+5*8+1)
	for _, v := range [...]int64{m.seq, m.epoch, m.mark, m.accepts, m.indexed} {
		b = binary.LittleEndian.AppendUint64(b, uint64(v))
	}
	jumped := byte(0)
	if m.jumped {
		jumped = 1
	}
	b = append(b, jumped)
	seal(b)
	return b
}

func decodeMeta(blob []byte) (m meta, err error) {
	rest, err := unseal(blob)
	if err != nil {
		return m, err
	}
	d := decoder{b: rest}
	m = meta{seq: d.int64(), epoch: d.int64(), mark: d.int64(), accepts: d.int64(), indexed: d.int64(), jumped: d.byte() != 0}
	if d.bad || len(d.b) > 0 {
		return meta{}, errDamaged
	}
	return m, nil
}

func (m *meta) highWater() time.Time {
	if m.mark == 0 {
		return time.Time{}
	}
	return instant(m.mark)
}

// fixed is what a store is given at its creation.
type fixed struct {
	id     string
	secret []byte // keys the hash of identities
}

func (f *fixed) encode() []byte {
	b := appendBytes(appendString(make([]byte, sumSize, 96), f.id), f.secret)
	seal(b)
	return b
}

func decodeFixed(blob []byte) (f fixed, err error) {
	rest, err := unseal(blob)
	if err != nil {
		return f, err
	}
	d := decoder{b: rest}
	f = fixed{id: d.string(), secret: d.bytes()}
	if d.bad || len(d.b) > 0 || f.id == "" || len(f.secret) == 0 {
		return fixed{}, errDamaged
	}
	return f, nil
}

// position is how far the store is.
func (s *Store) position(m *meta) einmal.Position {
	return einmal.Position{Store: s.fixed.id, Epoch: m.epoch, Seq: m.seq}
}

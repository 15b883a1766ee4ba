package sqlitestore

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
)

// errDamaged says that stored bytes are not what was written.
var errDamaged = errors.New("sqlitestore: damaged")

// notDamage returns an error that does not say that stored bytes are damaged: such a one, a failed read, says nothing of the record, and the transaction
// that met it must end.
func notDamage(err error) error {
	if errors.Is(err, errDamaged) {
		return nil
	}
	return err
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

const sumSize = 4

// checksum is the CRC-32C of some columns and a blob; it finds every change of one byte.
func checksum(data []byte, columns ...int64) uint32 {
	var buf [5 * 8]byte
	b := buf[:0]
	for _, c := range columns {
		b = binary.LittleEndian.AppendUint64(b, uint64(c))
	}
	return crc32.Update(crc32.Checksum(b, castagnoli), castagnoli, data)
}

// seal fills in the checksum that a blob begins with.
func seal(blob []byte, columns ...int64) {
	binary.LittleEndian.PutUint32(blob, checksum(blob[sumSize:], columns...))
}

// unseal returns what seal protected, or errDamaged.
func unseal(blob []byte, columns ...int64) ([]byte, error) {
	if len(blob) < sumSize || binary.LittleEndian.Uint32(blob) != checksum(blob[sumSize:], columns...) {
		return nil, errDamaged
	}
	return blob[sumSize:], nil
}

func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func appendBytes(b, s []byte) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// decoder reads what the append functions wrote. After the first thing that cannot be read it reads zeros and bad is set.
type decoder struct {
	b   []byte
	bad bool
}

func (d *decoder) fail() {
	d.b, d.bad = nil, true
}

func (d *decoder) take(n int) []byte {
	if n < 0 || n > len(d.b) {
		d.fail()
		return nil
	}
	taken := d.b[:n:n]
	d.b = d.b[n:]
	return taken
}

func (d *decoder) byte() byte {
	if len(d.b) == 0 {
		d.fail()
		return 0
	}
	v := d.b[0]
	d.b = d.b[1:]
	return v
}

func (d *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 {
		d.fail()
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) varint() int64 {
	v, n := binary.Varint(d.b)
	if n <= 0 {
		d.fail()
		return 0
	}
	d.b = d.b[n:]
	return v
}

// int reads a number that is never negative.
func (d *decoder) int() int {
	v := d.uvarint()
	if v > 1<<62 {
		d.fail()
		return 0
	}
	return int(v)
}

func (d *decoder) int64() int64 {
	if b := d.take(8); b != nil {
		return int64(binary.LittleEndian.Uint64(b))
	}
	return 0
}

func (d *decoder) uint32() uint32 {
	if b := d.take(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (d *decoder) string() string { return string(d.take(d.int())) }

func (d *decoder) bytes() []byte { return append([]byte{}, d.take(d.int())...) }

// count reads the length of a list whose elements take at least size bytes each, so that no damaged length makes a huge slice.
func (d *decoder) count(size int) int {
	n := d.int()
	if n > len(d.b)/size {
		d.fail()
		return 0
	}
	return n
}

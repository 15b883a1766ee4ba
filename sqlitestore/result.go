package sqlitestore

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/einmal-dev/einmal"
)

const (
	keptMask = 0x7f
	bodyNil  = 0x80
)

// appendHead writes everything of a result but the body, of which it writes the checksum.
func appendHead(b []byte, r *einmal.Result) []byte {
	kept := byte(r.Kept) & keptMask
	if r.Body == nil {
		kept |= bodyNil
	}
	b = binary.AppendUvarint(b, uint64(r.Status))
	b = append(b, kept)
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(r.Body, castagnoli))
	b = binary.AppendUvarint(b, uint64(len(r.Header)))
	for _, f := range r.Header {
		b = appendString(appendString(b, f.Name), f.Value)
	}
	return b
}

// head reads what appendHead wrote. The caller gives the body to setBody.
func (d *decoder) head() (r *einmal.Result, bodySum uint32, hasBody bool) {
	r = &einmal.Result{Status: d.int()}
	kept := d.byte()
	r.Kept, hasBody = einmal.Kept(kept&keptMask), kept&bodyNil == 0
	bodySum = d.uint32()
	if n := d.count(2); n > 0 {
		r.Header = make([]einmal.Field, n)
		for i := range r.Header {
			r.Header[i] = einmal.Field{Name: d.string(), Value: d.string()}
		}
	}
	return r, bodySum, hasBody
}

// sealedHead makes the head column of a result's row in b's memory, bound to the row and to the record that has it.
func sealedHead(b []byte, r *einmal.Result, record, id int64) []byte {
	b = appendHead(append(b[:0], 0, 0, 0, 0), r)
	seal(b, record, id)
	return b
}

// decodeResult reads a result's row; without the body when it is not wanted.
func decodeResult(head, body []byte, record, id int64, wantBody bool) (*einmal.Result, error) {
	rest, err := unseal(head, record, id)
	if err != nil {
		return nil, err
	}
	d := decoder{b: rest}
	r, sum, hasBody := d.head()
	switch {
	case d.bad || len(d.b) > 0:
		return nil, errDamaged
	case !wantBody:
		return r, nil
	case sum != crc32.Checksum(body, castagnoli), !hasBody && len(body) > 0:
		return nil, errDamaged
	}
	if hasBody {
		r.Body = append([]byte{}, body...)
	}
	return r, nil
}

// appendResult writes a result whole: a refusal's answer inside the record's own row.
func appendResult(b []byte, r *einmal.Result) []byte {
	return appendBytes(appendHead(b, r), r.Body)
}

func (d *decoder) result() *einmal.Result {
	r, sum, hasBody := d.head()
	body := d.bytes()
	if sum != crc32.Checksum(body, castagnoli) {
		d.fail()
	}
	if hasBody {
		r.Body = body
	}
	return r
}

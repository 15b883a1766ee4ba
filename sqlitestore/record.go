package sqlitestore

import (
	"encoding/binary"
	"time"

	"github.com/einmal-dev/einmal"
	"github.com/einmal-dev/einmal/fingerprint"
)

// row is a row of the table records with its result's. Its slices may be SQLite's own memory.
type row struct {
	id, hash             int64
	due, expires, result int64 // 0: NULL
	data                 []byte
	head, body           []byte
}

const recordFormat = 1

// Bits of a record's third byte: what is there.
const (
	hasLease = 1 << iota
	hasDue
	dueIsLease // the due time is the lease's end
	hasRecognised
	hasAttention
	hasPartnerKey
	hasReason
	hasEnds
)

// slack is left behind a new record's fields, so that the completed record fits into the same place: SQLite then overwrites the row where it stands.
const slack = 8

// appendRecord writes a record's fields, all that is not in the row's other columns. holders are the words of the ends' holders, in order.
func appendRecord(b []byte, rec *einmal.Record, terms int64, holders []int64) []byte {
	flags := byte(0)
	set := func(bit byte, on bool) {
		if on {
			flags |= bit
		}
	}
	set(hasLease, !rec.LeaseUntil.IsZero())
	set(hasDue, !rec.Due.IsZero())
	set(dueIsLease, !rec.Due.IsZero() && rec.Due.Equal(rec.LeaseUntil))
	set(hasRecognised, !rec.RecognisedUntil.Equal(rec.Created.Add(rec.Terms.Window)))
	set(hasAttention, rec.Attention)
	set(hasPartnerKey, rec.PartnerKey != "")
	set(hasReason, rec.Reason != "")
	set(hasEnds, len(rec.Ends) > 0)

	b = append(b, recordFormat, byte(rec.State)<<4|byte(rec.Verdict), flags)
	b = binary.AppendUvarint(b, uint64(terms))
	b = binary.AppendUvarint(b, uint64(rec.Attempt))
	b = binary.AppendUvarint(b, uint64(rec.Version))
	b = binary.AppendUvarint(b, uint64(rec.Escalations))
	b = binary.AppendVarint(b, rec.Seq-int64(rec.ID))
	b = append(b, rec.Nonce[:]...)
	b = rec.Fingerprint.Append(b)
	b = binary.LittleEndian.AppendUint64(b, uint64(rec.Created.UnixNano()))
	since := func(t time.Time) { b = binary.AppendVarint(b, int64(t.Sub(rec.Created))) }
	since(rec.Changed)
	if flags&hasLease != 0 {
		since(rec.LeaseUntil)
	}
	if flags&(hasDue|dueIsLease) == hasDue {
		since(rec.Due)
	}
	if flags&hasRecognised != 0 {
		since(rec.RecognisedUntil)
	}
	b = appendString(b, rec.Tenant)
	b = appendString(b, rec.Key)
	b = appendString(b, rec.Principal)
	if flags&hasPartnerKey != 0 {
		b = appendString(b, rec.PartnerKey)
	}
	if flags&hasReason != 0 {
		b = appendString(b, rec.Reason)
	}
	if flags&hasEnds != 0 {
		b = appendEnds(b, rec.Ends, holders)
	}
	return b
}

// Parts of the byte that an end begins with.
const (
	endMask     = 0x0f
	byShift     = 4
	byMask      = 0x07
	endHasReply = 0x80
)

func appendEnds(b []byte, ends []einmal.AttemptEnd, holders []int64) []byte {
	b = binary.AppendUvarint(b, uint64(len(ends)))
	for i := range ends {
		e := &ends[i]
		kind := byte(e.End)&endMask | byte(e.By)&byMask<<byShift
		if e.Result != nil {
			kind |= endHasReply
		}
		b = append(b, kind)
		b = binary.AppendUvarint(b, uint64(e.Attempt))
		b = binary.AppendUvarint(b, uint64(holders[i]))
		if e.Result != nil {
			b = appendResult(b, e.Result)
		}
	}
	return b
}

// decodeRecord reads what appendRecord wrote; bytes after it are padding. word looks up an interned value. The error is errDamaged or word's.
// With an error the record holds what could be read before it.
func decodeRecord(data []byte, id int64, word func(int64) (word, error)) (rec einmal.Record, err error) {
	rec.ID = einmal.ID(id)
	d := decoder{b: data}
	if d.byte() != recordFormat {
		return rec, errDamaged
	}
	kind, flags := d.byte(), d.byte()
	rec.State, rec.Verdict = einmal.State(kind>>4), einmal.Verdict(kind&0x0f)
	termsWord := int64(d.uvarint())
	rec.Attempt = d.int()
	rec.Version = int64(d.int())
	rec.Escalations = d.int()
	rec.Seq = id + d.varint()
	copy(rec.Nonce[:], d.take(len(rec.Nonce)))
	if sum := d.take(fingerprint.Size); sum != nil {
		rec.Fingerprint.Version = sum[0] // a version that this program does not know is the engine's to refuse
		copy(rec.Fingerprint.Hash[:], sum[1:])
	}
	created := d.int64()
	since := func() time.Time { return instant(created + d.varint()) }
	rec.Created, rec.Changed = instant(created), since()
	if flags&hasLease != 0 {
		rec.LeaseUntil = since()
	}
	switch {
	case flags&dueIsLease != 0:
		rec.Due = rec.LeaseUntil
	case flags&hasDue != 0:
		rec.Due = since()
	}
	if flags&hasRecognised != 0 {
		rec.RecognisedUntil = since()
	}
	rec.Attention = flags&hasAttention != 0
	rec.Tenant = d.string()
	rec.Key = d.string()
	rec.Principal = d.string()
	if flags&hasPartnerKey != 0 {
		rec.PartnerKey = d.string()
	}
	if flags&hasReason != 0 {
		rec.Reason = d.string()
	}
	if flags&hasEnds != 0 {
		if rec.Ends, err = d.ends(word); err != nil {
			return rec, err
		}
	}
	if d.bad || rec.State < einmal.StateAccepted || rec.State > einmal.StateExpired {
		return rec, errDamaged
	}
	terms, err := word(termsWord)
	if err != nil {
		return rec, err
	}
	if terms.kind != wordPolicy {
		return rec, errDamaged
	}
	rec.Operation, rec.Terms = terms.operation, terms.terms
	if flags&hasRecognised == 0 {
		rec.RecognisedUntil = rec.Created.Add(rec.Terms.Window)
	}
	return rec, nil
}

func (d *decoder) ends(word func(int64) (word, error)) ([]einmal.AttemptEnd, error) {
	n := d.count(3)
	if n == 0 {
		return nil, nil
	}
	ends := make([]einmal.AttemptEnd, n)
	for i := range ends {
		e := &ends[i]
		kind := d.byte()
		e.End, e.By = einmal.End(kind&endMask), einmal.Actor(kind>>byShift&byMask)
		e.Attempt = d.int()
		if id := d.int(); id != 0 {
			holder, err := word(int64(id))
			if err != nil {
				return nil, err
			}
			if holder.kind != wordHolder {
				return nil, errDamaged
			}
			e.Holder = holder.holder
		}
		if kind&endHasReply != 0 {
			e.Result = d.result()
		}
	}
	return ends, nil
}

// instant is the time that many nanoseconds after 1970, in UTC.
func instant(nanoseconds int64) time.Time { return time.Unix(0, nanoseconds).UTC() }

// tombstones is what a tombstone's expires is more than its time, so that the index keeps what is to be deleted apart from what is to expire.
const tombstones = 1 << 36

// columns sets the row's columns that indexes are made of.
func (r *row) columns(rec *einmal.Record) {
	r.id, r.due, r.expires = int64(rec.ID), 0, 0
	switch {
	case rec.State.Open():
		r.due = max(rec.Due.Unix(), 1)
	case rec.State == einmal.StateExpired:
		r.expires = tombstones + max(rec.RecognisedUntil.Add(rec.Terms.Tombstone).Unix(), 1)
	default:
		r.expires = max(rec.RecognisedUntil.Unix(), 1)
	}
}

func (r *row) seal() { seal(r.data, r.id, r.hash, r.due, r.expires, r.result) }

// part says how much of a result to read.
type part uint8

const (
	noResult part = iota
	onlyHead
	whole
)

// decode reads the record. The error is errDamaged or word's; the record then holds what could be read, right or wrong.
func (r *row) decode(word func(int64) (word, error), want part) (einmal.Record, error) {
	_, sumErr := unseal(r.data, r.id, r.hash, r.due, r.expires, r.result)
	rec, err := decodeRecord(r.data[min(sumSize, len(r.data)):], r.id, word)
	if sumErr != nil {
		return rec, sumErr
	}
	if err != nil || r.result == 0 || want == noResult {
		return rec, err
	}
	rec.Result, err = decodeResult(r.head, r.body, r.id, r.result, want == whole)
	return rec, err
}

// size is the number of the row's bytes that can change: SQLite stores an integer in as many as it needs.
func (r *row) size() int {
	return integerSize(r.due) + integerSize(r.expires) + integerSize(r.result) + len(r.data)
}

func integerSize(v int64) int {
	switch {
	case v == 0 || v == 1: // NULL, and a constant of the format
		return 0
	case v == int64(int8(v)):
		return 1
	case v == int64(int16(v)):
		return 2
	case v >= -1<<23 && v < 1<<23:
		return 3
	case v == int64(int32(v)):
		return 4
	case v >= -1<<47 && v < 1<<47:
		return 6
	}
	return 8
}

package sqlitestore

import (
	"context"
	"time"

	"github.com/einmal-dev/einmal"
)

// EncodeRow writes a record and its result as their rows hold them.
func EncodeRow(rec *einmal.Record, words *Words) (data, head, body []byte) {
	r := row{hash: 77}
	if rec.Result != nil {
		r.result = rec.Seq
		head, body = sealedHead(nil, rec.Result, int64(rec.ID), r.result), rec.Result.Body
	}
	r.columns(rec)
	holders := make([]int64, len(rec.Ends))
	for i, e := range rec.Ends {
		if e.Holder != (einmal.Holder{}) {
			holders[i] = words.id(holderWord(e.Holder))
		}
	}
	r.data = appendRecord(make([]byte, sumSize), rec, words.id(policyWord(rec.Operation, rec.Terms)), holders)
	r.seal()
	return r.data, head, body
}

// DecodeRow reads what EncodeRow wrote.
func DecodeRow(like *einmal.Record, words *Words, data, head, body []byte) (einmal.Record, error) {
	r := row{hash: 77, data: data, head: head, body: body}
	if like.Result != nil {
		r.result = like.Seq
	}
	r.columns(like)
	return r.decode(words.word, whole)
}

// DecodeFields reads a record's fields without looking at their checksum.
func DecodeFields(data []byte, words *Words) (einmal.Record, error) {
	return decodeRecord(data, 1, words.word)
}

// DecodeOthers runs every other decoder over data, with a checksum that fits.
func DecodeOthers(data []byte) {
	sealed := append(make([]byte, sumSize), data...)
	seal(sealed, 1)
	_, _ = decodeEntry(sealed, 1)
	seal(sealed, 1, 1)
	_, _ = decodeResult(sealed, nil, 1, 1, true)
	seal(sealed)
	_, _ = decodeMeta(sealed)
	_, _ = decodeFixed(sealed)
	_, _ = decodeWord(data)
}

// Words is a vocabulary in memory.
type Words struct{ all []word }

func (w *Words) id(v word) int64 {
	w.all = append(w.all, v)
	return int64(len(w.all))
}

func (w *Words) word(id int64) (word, error) {
	if id < 1 || id > int64(len(w.all)) {
		return word{}, errDamaged
	}
	encoded := w.all[id-1].encode()
	return decodeWord(encoded)
}

// Queued is how many writes wait for the writer.
func Queued(s *Store) int {
	s.writer.mu.Lock()
	defer s.writer.mu.Unlock()
	return len(s.writer.queue)
}

// CollideHashes leaves a store so few hashes that its records must share them.
func CollideHashes(s *Store) { s.hashMask = 3 }

// YoungOpen is how many young records one Claim puts into the index.
const YoungOpen = youngOpen

// ClaimWithWords looks for due records as Claim does, on one of the store's connections, with a failing look-up of words.
func (s *Store) ClaimWithWords(ctx context.Context, failing error) error {
	return s.read(ctx, func(r *reader) error {
		if err := r.look(); err != nil {
			return err
		}
		claim := einmal.Claim{Limit: 10}
		_, err := r.c.dueOf(r.now.Add(1000*time.Hour), 0, func(int64) (word, error) { return word{}, failing }, &claim, 10)
		return err
	})
}

// Damaged is what a look-up says of damaged bytes.
var Damaged = errDamaged

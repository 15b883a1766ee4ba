package sqlitestore

import (
	"slices"
	"time"

	"github.com/einmal-dev/einmal"
	"github.com/einmal-dev/einmal/internal/mutant"
)

// tx is one write transaction. Everything that must be consistent is read inside it; what the writer remembers from the last one counts only if
// nobody else has written since.
type tx struct {
	*Store
	c      *conn
	w      *writer
	meta   meta
	now    time.Time
	jumped bool // the clock jumped, and nobody has accepted it
	dirty  bool // there is something to commit
	alone  bool // only one write is in it
	broken error
	words  map[word]int64 // written in this transaction
}

// open reads the store's state after BEGIN.
func (t *tx) open() error {
	if err := t.w.noticeOthers(); err != nil {
		return err
	}
	if t.w.meta == nil {
		m, err := t.c.meta()
		if err != nil {
			return unreadableMeta(err)
		}
		t.w.meta = &m
	}
	t.meta = *t.w.meta
	t.now, t.jumped = t.clock.read(&t.meta)
	return nil
}

// exec writes. An error breaks the transaction: none of it is committed.
func (t *tx) exec(q query, args ...arg) error {
	t.dirty = true
	err := t.c.exec(q, args...)
	if err != nil && t.broken == nil {
		t.broken = err
	}
	return err
}

// change writes what may find nothing to do, and reports whether it did something.
func (t *tx) change(q query, args ...arg) (bool, error) {
	if err := t.c.exec(q, args...); err != nil {
		if t.broken == nil {
			t.broken = err
		}
		return false, err
	}
	if t.c.db.Changes() == 0 {
		return false, nil
	}
	t.dirty = true
	return true, nil
}

// seal writes the store's state before COMMIT.
func (t *tx) seal() error {
	switch mark := t.now.UnixNano(); {
	case t.jumped:
		t.meta.jumped = true
	case mark > t.meta.mark:
		t.meta.mark = mark
	}
	return t.exec(writeMeta, blob(t.meta.encode()))
}

// nextSeq is the sequence of one more write.
func (t *tx) nextSeq() int64 {
	t.meta.seq++
	return t.meta.seq
}

// wordByID resolves an interned value.
func (t *tx) wordByID(id int64) (word, error) {
	if w, ok := t.vocabulary.word(id); ok {
		return w, nil
	}
	return t.c.word(id)
}

// wordID interns a value.
func (t *tx) wordID(w word) (int64, error) {
	if id, ok := t.vocabulary.id(&w); ok {
		return id, nil
	}
	if id, ok := t.words[w]; ok {
		return id, nil
	}
	data := w.encode()
	id, err := t.storedWord(data)
	if err != nil {
		return 0, err
	}
	if id == 0 {
		id = t.nextSeq()
		if err := t.exec(insertWord, integer(id), blob(data), integer(int64(checksum(data, id)))); err != nil {
			return 0, err
		}
	}
	if t.words == nil {
		t.words = map[word]int64{}
	}
	t.words[w] = id
	return id, nil
}

func (t *tx) storedWord(data []byte) (int64, error) {
	stmt, err := t.c.stmt(wordByData)
	if err != nil {
		return 0, err
	}
	defer stmt.Reset()
	if err := stmt.BindBlob(1, data); err != nil {
		return 0, err
	}
	if stmt.Step() {
		return stmt.ColumnInt64(0), nil
	}
	return 0, stmt.Err()
}

// place is where a record stands: what a write has to know of its row.
type place struct {
	hash, result int64
	size         int
}

func placeOf(r *row) place { return place{r.hash, r.result, r.size()} }

// find returns the record of an identity, ErrNotFound or ErrUnreadable.
func (t *tx) find(hash int64, id *einmal.Identity) (einmal.Record, error) {
	rec, _, err := t.c.find(hash, id, t.wordByID)
	if err != nil {
		return rec, err
	}
	t.stamp(&rec)
	return rec, nil
}

// load returns a record by its ID and where it stands.
func (t *tx) load(id einmal.ID) (einmal.Record, place, error) {
	if f := t.w.recent[id]; f != nil {
		rec := f.rec
		rec.Ends = slices.Clone(f.rec.Ends)
		t.stamp(&rec)
		return rec, f.at, nil
	}
	rec, at, _, err := t.c.load(id, t.wordByID)
	if err != nil {
		return rec, at, err
	}
	t.stamp(&rec)
	return rec, at, nil
}

// stamp fills in what a record is read with.
func (t *tx) stamp(rec *einmal.Record) { rec.Now, rec.At = t.now, t.position(&t.meta) }

// store writes a changed record to its row. result is the ID of its result's row, 0 for none.
func (t *tx) store(rec *einmal.Record, at place, result int64) error {
	terms, holders, err := t.wordsOf(rec)
	if err != nil {
		return err
	}
	r := row{hash: at.hash, result: result}
	r.columns(rec)
	t.encode(&r, rec, terms, holders)
	if missing := at.size - r.size(); missing > 0 && missing <= 2*slack+16 {
		r.data = append(r.data, make([]byte, missing)...)
	}
	r.seal()
	t.w.remember(rec, placeOf(&r))
	return t.exec(updateRecord, integer(r.id), orNull(r.due), orNull(r.expires), orNull(r.result), blob(r.data))
}

// wordsOf interns what a record shares with others.
func (t *tx) wordsOf(rec *einmal.Record) (terms int64, holders []int64, err error) {
	if terms, err = t.wordID(policyWord(rec.Operation, rec.Terms)); err != nil {
		return 0, nil, err
	}
	holders = t.w.holders[:0]
	for i := range rec.Ends {
		id := int64(0)
		if h := rec.Ends[i].Holder; h != (einmal.Holder{}) {
			if id, err = t.wordID(holderWord(h)); err != nil {
				return 0, nil, err
			}
		}
		holders = append(holders, id)
	}
	t.w.holders = holders
	return terms, holders, nil
}

// encode makes the row's data, unsealed, in the writer's buffer.
func (t *tx) encode(r *row, rec *einmal.Record, terms int64, holders []int64) {
	t.w.buf = appendRecord(append(t.w.buf[:0], 0, 0, 0, 0), rec, terms, holders)
	r.data = t.w.buf
}

// mayStart checks what forbids a start: ErrRestored, ErrStorePaused.
func (t *tx) mayStart(id *einmal.Identity, seen einmal.Position) error {
	if t.restored(seen) && !mutant.On("restored-not-checked") {
		return einmal.ErrRestored
	}
	paused, err := t.paused(id)
	if err != nil {
		return err
	}
	if paused && !mutant.On("pause-not-checked") {
		return einmal.ErrStorePaused
	}
	return nil
}

// restored reports whether somebody has seen a later position than the store's own, or another store.
func (t *tx) restored(seen einmal.Position) bool {
	switch {
	case seen.Store == "":
		return false
	case seen.Store != t.fixed.id, seen.Epoch > t.meta.epoch:
		return true
	}
	return seen.Epoch == t.meta.epoch && seen.Seq > t.meta.seq
}

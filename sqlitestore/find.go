package sqlitestore

import (
	"fmt"

	"github.com/einmal-dev/einmal"
)

// find returns the record of an identity and the store's state in the same snapshot. ErrNotFound, ErrUnreadable.
//
// A damaged row with the identity's hash is taken for it: whoever asks must not conclude that there is none.
func (c *conn) find(hash int64, id *einmal.Identity, word func(int64) (word, error)) (einmal.Record, meta, error) {
	for {
		rec, m, err := c.atHash(hash, word)
		if err != nil || sameIdentity(&rec.Identity, id) {
			return rec, m, err
		}
		hash++ // another identity has it: see tx.insert
	}
}

// atHash returns the record that has a hash. ErrNotFound, ErrUnreadable.
func (c *conn) atHash(hash int64, word func(int64) (word, error)) (rec einmal.Record, m meta, err error) {
	stmt, err := c.query(byHash, hash)
	if err != nil {
		return rec, m, err
	}
	defer stmt.Reset()
	if !stmt.Step() {
		return rec, m, unreadable(orDamaged(stmt.Err()), 0)
	}
	if m, err = decodeMeta(stmt.ColumnRawBlob(0)); err != nil {
		return rec, m, unreadableMeta(err)
	}
	r, has := scanRow(stmt, whole)
	if !has {
		return rec, m, einmal.ErrNotFound
	}
	if rec, err = r.decode(word, whole); err != nil {
		return einmal.Record{}, m, unreadable(err, einmal.ID(r.id))
	}
	return rec, m, nil
}

// load returns a record by its ID, where it stands, and the store's state in the same snapshot. ErrNotFound, ErrUnreadable.
func (c *conn) load(id einmal.ID, word func(int64) (word, error)) (rec einmal.Record, at place, m meta, err error) {
	stmt, err := c.query(byID, int64(id))
	if err != nil {
		return rec, at, m, err
	}
	defer stmt.Reset()
	if !stmt.Step() {
		return rec, at, m, unreadable(orDamaged(stmt.Err()), id)
	}
	if m, err = decodeMeta(stmt.ColumnRawBlob(0)); err != nil {
		return rec, at, m, unreadableMeta(err)
	}
	r, has := scanRow(stmt, whole)
	if !has {
		return rec, at, m, einmal.ErrNotFound
	}
	if rec, err = r.decode(word, whole); err != nil {
		return einmal.Record{}, at, m, unreadable(err, id)
	}
	return rec, placeOf(&r), m, nil
}

func unreadableMeta(err error) error {
	return fmt.Errorf("sqlitestore: the store's own row is damaged, restore the file from a backup: %w", err)
}

// exists reports whether a query finds a row.
func (c *conn) exists(q query, param int64) (bool, error) {
	stmt, err := c.query(q, param)
	if err != nil {
		return false, err
	}
	defer stmt.Reset()
	return stmt.Step(), stmt.Err()
}

package sqlitestore

import (
	"errors"
	"fmt"

	"github.com/einmal-dev/einmal"
)

// find returns the record of an identity and the store's state in the same snapshot. ErrNotFound, ErrUnreadable.
//
// A damaged row with the identity's hash is taken for it: whoever asks must not conclude that there is none.
func (c *conn) find(hash int64, id *einmal.Identity, word func(int64) (word, error)) (rec einmal.Record, m meta, err error) {
	stmt, err := c.query(byHash, hash)
	if err != nil {
		return rec, m, err
	}
	defer stmt.Reset()
	var damage error
	for first := true; stmt.Step(); first = false {
		if first {
			if m, err = decodeMeta(stmt.ColumnRawBlob(0)); err != nil {
				return rec, m, unreadableMeta(err)
			}
		}
		r, has := scanRow(stmt, whole)
		if !has {
			break
		}
		found, err := r.decode(word, whole)
		switch {
		case err == nil && sameIdentity(&found.Identity, id):
			return found, m, nil
		case err != nil:
			if damage = unreadable(err, einmal.ID(r.id)); !errors.Is(damage, einmal.ErrUnreadable) {
				return rec, m, damage
			}
		}
	}
	if err := stmt.Err(); err != nil {
		return rec, m, unreadable(err, 0)
	}
	if damage != nil {
		return rec, m, damage
	}
	return rec, m, einmal.ErrNotFound
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

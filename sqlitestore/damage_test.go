package sqlitestore_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/ncruces/go-sqlite3"

	"github.com/einmal-dev/einmal"
	"github.com/einmal-dev/einmal/sqlitestore"
)

// TestADamagedRecordIsNeverAnswered changes every byte of everything that is stored of one record, one after the other.
func TestADamagedRecordIsNeverAnswered(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	rec := f.reserve(t, "key")
	rec, err := f.Apply(t.Context(), completed(&rec, []byte("the answer")))
	if err != nil {
		t.Fatal(err)
	}
	db, err := sqlite3.Open("file:" + f.path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()

	reserve := true
	check := func(what string) {
		t.Helper()
		_, err := f.Get(t.Context(), einmal.Ref{ID: rec.ID})
		err2 := err
		if reserve {
			_, _, err2 = f.Reserve(t.Context(), request("key"))
		}
		_, err3 := f.Apply(t.Context(), einmal.Change{ID: rec.ID, Kind: einmal.Note, Guard: einmal.Guard{State: einmal.StateCompleted}, Attention: true})
		for call, err := range map[string]error{"Get": err, "Reserve": err2, "Apply": err3} {
			if !errors.Is(err, einmal.ErrUnreadable) {
				t.Fatalf("%s: %s: want ErrUnreadable, got %v", what, call, err)
			}
		}
	}
	for _, column := range []struct {
		table, name string
		row         int64
	}{
		{"records", "data", int64(rec.ID)},
		{"results", "head", number(t, db, "SELECT id FROM results")},
		{"results", "body", number(t, db, "SELECT id FROM results")},
		{"words", "data", number(t, db, "SELECT min(id) FROM words")},
	} {
		size := number(t, db, fmt.Sprintf("SELECT length(%s) FROM %s WHERE id = %d", column.name, column.table, column.row))
		for at := range size {
			flipByte(t, db, column.table, column.name, column.row, at)
			if column.table == "words" { // a handle remembers the words that it has read, and a reservation would write this one again
				f.Store, reserve = f.open(t), false
			}
			check(fmt.Sprintf("byte %d of %s.%s", at, column.table, column.name))
			flipByte(t, db, column.table, column.name, column.row, at)
			reserve = true
		}
	}
	for _, column := range []string{"due", "expires", "result"} {
		was := number(t, db, "SELECT coalesce("+column+", -1) FROM records")
		mustExec(t, db, fmt.Sprintf("UPDATE records SET %s = %d", column, was^1<<8))
		check(column)
		if was == -1 {
			mustExec(t, db, fmt.Sprintf("UPDATE records SET %s = NULL", column))
		} else {
			mustExec(t, db, fmt.Sprintf("UPDATE records SET %s = %d", column, was))
		}
	}
	if got, err := f.Get(t.Context(), einmal.Ref{ID: rec.ID}); err != nil || string(got.Result.Body) != "the answer" {
		t.Fatalf("put right again: %+v, %v", got.Result, err)
	}

	size := number(t, db, "SELECT length(data) FROM timeline")
	for at := range size {
		flipByte(t, db, "timeline", "data", number(t, db, "SELECT id FROM timeline"), at)
		if _, err := f.Timeline(t.Context(), rec.ID); !errors.Is(err, einmal.ErrUnreadable) {
			t.Fatalf("byte %d of a timeline entry: want ErrUnreadable, got %v", at, err)
		}
		flipByte(t, db, "timeline", "data", number(t, db, "SELECT id FROM timeline"), at)
	}
}

func TestADamagedStoreRowStopsEverything(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	rec := f.reserve(t, "key")
	db, err := sqlite3.Open("file:" + f.path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for at := range number(t, db, "SELECT length(state) FROM meta") {
		flipByte(t, db, "meta", "state", 1, at)
		_, err := f.Get(t.Context(), einmal.Ref{ID: rec.ID})
		_, _, err2 := f.Reserve(t.Context(), request("new"))
		_, err3 := f.Settings(t.Context())
		if err == nil || err2 == nil || err3 == nil || errors.Is(err, einmal.ErrNotFound) {
			t.Fatalf("byte %d: %v, %v, %v", at, err, err2, err3)
		}
		flipByte(t, db, "meta", "state", 1, at)
	}
}

// flipByte changes one bit of a blob; a second time changes it back.
func flipByte(t *testing.T, db *sqlite3.Conn, table, column string, row, at int64) {
	t.Helper()
	read, _, err := db.Prepare(fmt.Sprintf("SELECT %s FROM %s WHERE rowid = %d", column, table, row))
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	if !read.Step() {
		t.Fatalf("no row %d in %s: %v", row, table, read.Err())
	}
	b := read.ColumnBlob(0, nil)
	b[at] ^= 1 << (at % 8)
	if err := read.Reset(); err != nil {
		t.Fatal(err)
	}
	write, _, err := db.Prepare(fmt.Sprintf("UPDATE %s SET %s = ?1 WHERE rowid = %d", table, column, row))
	if err != nil {
		t.Fatal(err)
	}
	defer write.Close()
	if err := errors.Join(write.BindBlob(1, b), write.Exec()); err != nil {
		t.Fatal(err)
	}
}

func number(t *testing.T, db *sqlite3.Conn, sql string) int64 {
	t.Helper()
	stmt, _, err := db.Prepare(sql)
	if err != nil {
		t.Fatal(err)
	}
	defer stmt.Close()
	if !stmt.Step() {
		t.Fatalf("%s: no row, %v", sql, stmt.Err())
	}
	return stmt.ColumnInt64(0)
}

func mustExec(t *testing.T, db *sqlite3.Conn, sql string) {
	t.Helper()
	if err := db.Exec(sql); err != nil {
		t.Fatal(err)
	}
}

// A read that fails says nothing of the record that it was for. Whoever took it for damage would go on in a transaction that SQLite has ended by itself.
func TestAFailedReadIsNotTakenForDamage(t *testing.T) {
	t.Parallel()
	s, err := sqlitestore.Create(t.Context(), filepath.Join(t.TempDir(), "store.db"), sqlitestore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, _, err := s.Reserve(t.Context(), request("k")); err != nil {
		t.Fatal(err)
	}
	if err := s.ClaimWithWords(t.Context(), sqlite3.IOERR_READ); !errors.Is(err, sqlite3.IOERR_READ) {
		t.Errorf("a failed read: %v", err)
	}
	if err := s.ClaimWithWords(t.Context(), sqlitestore.Damaged); err != nil {
		t.Errorf("a damaged record holds up all others: %v", err)
	}
}

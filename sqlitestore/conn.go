package sqlitestore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/einmal-dev/einmal"
	"github.com/einmal-dev/einmal/internal/mutant"
)

const (
	// busyTimeout bounds the wait for another process; with the turnstile it is only a foreign program that one waits for.
	busyTimeout = 10 * time.Second
	// maxBlob bounds one row. SQLite's memory is 256 MB per connection.
	maxBlob = 32 << 20
)

// conn is a connection with its statements. Not safe for concurrent use.
type conn struct {
	db    *sqlite3.Conn
	stmts [numQueries]*sqlite3.Stmt
}

// connect opens a connection to a store's file and makes sure that a commit on it is durable.
func (s *Store) connect(ctx context.Context, flags sqlite3.OpenFlag) (*sqlite3.Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	db, err := sqlite3.OpenFlags(s.uri, flags|sqlite3.OPEN_READWRITE|sqlite3.OPEN_URI)
	if err != nil {
		return nil, err
	}
	db.Limit(sqlite3.LIMIT_LENGTH, maxBlob)
	if err := db.BusyTimeout(busyTimeout); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

// settle switches to the write-ahead log and to durable commits, in this order because the first can undo the second, and reads both back.
func settle(db *sqlite3.Conn, cacheKiB int) error {
	synchronous := "FULL"
	if mutant.On("sqlite-normal") {
		synchronous = "NORMAL"
	}
	if err := switchToWAL(db); err != nil {
		return err
	}
	for _, pragma := range []string{
		"synchronous = " + synchronous,
		fmt.Sprintf("wal_autocheckpoint = %d", checkpointPages),
		fmt.Sprintf("cache_size = -%d", cacheKiB),
		"temp_store = MEMORY",
		"cell_size_check = ON",
	} {
		if err := db.Exec("PRAGMA " + pragma); err != nil {
			return fmt.Errorf("PRAGMA %s: %w", pragma, err)
		}
	}
	mode, err := pragma(db, "journal_mode")
	if err != nil {
		return err
	}
	level, err := pragma(db, "synchronous")
	if err != nil {
		return err
	}
	if mode != "wal" || level != "2" && level != "3" && !mutant.On("sqlite-normal") {
		return fmt.Errorf("commits are not durable: journal_mode is %s, not wal, or synchronous is %s, not 2 (FULL)", mode, level)
	}
	return nil
}

// switchToWAL retries where another process is opening the same file: this one lock does not use the busy timeout.
func switchToWAL(db *sqlite3.Conn) error {
	for deadline := time.Now().Add(busyTimeout); ; {
		mode, err := pragma(db, "journal_mode = WAL")
		switch {
		case err == nil && mode != "wal":
			return fmt.Errorf("journal_mode stays %s: the file system or VFS has no shared memory", mode)
		case err == nil:
			return nil
		case !errors.Is(err, sqlite3.BUSY) || time.Now().After(deadline):
			return fmt.Errorf("PRAGMA journal_mode = WAL: %w", err)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// pragma runs one and returns its value.
func pragma(db *sqlite3.Conn, text string) (string, error) {
	stmt, _, err := db.Prepare("PRAGMA " + text)
	if err != nil {
		return "", err
	}
	defer stmt.Close()
	value := ""
	for stmt.Step() { // to the end: the switch to the log commits after its row, and reads back as done even if that fails
		value = strings.ToLower(stmt.ColumnText(0))
	}
	return value, stmt.Err()
}

// stmt returns a prepared statement. Statements are prepared when they are first used: most handles use few.
func (c *conn) stmt(q query) (*sqlite3.Stmt, error) {
	if c.stmts[q] == nil {
		stmt, _, err := c.db.PrepareFlags(queries[q], sqlite3.PREPARE_PERSISTENT)
		if err != nil {
			return nil, fmt.Errorf("preparing %q: %w", queries[q], err)
		}
		c.stmts[q] = stmt
	}
	return c.stmts[q], nil
}

// query returns a prepared statement with its first parameter, for the caller to step and to reset.
func (c *conn) query(q query, param int64) (*sqlite3.Stmt, error) {
	stmt, err := c.stmt(q)
	if err != nil {
		return nil, err
	}
	return stmt, stmt.BindInt64(1, param)
}

// each calls f with every row of a query of records, without their results, until f returns false.
func (c *conn) each(q query, param int64, f func(*row) bool) error {
	stmt, err := c.query(q, param)
	if err != nil {
		return err
	}
	defer stmt.Reset()
	for stmt.Step() {
		r, has := scanRow(stmt, noResult)
		if !has || !f(&r) {
			break
		}
	}
	return stmt.Err()
}

func (c *conn) close() error {
	for _, stmt := range c.stmts {
		if stmt != nil {
			_ = stmt.Close() // repeats the error of the last step, which was reported
		}
	}
	return c.db.Close()
}

// arg is a parameter: an integer, or a blob, or a text, or NULL.
type arg struct {
	kind argKind
	n    int64
	b    []byte
	s    string
}

type argKind uint8

const (
	argNull argKind = iota
	argInteger
	argBlob
	argText
)

func integer(n int64) arg { return arg{kind: argInteger, n: n} }
func blob(b []byte) arg   { return arg{kind: argBlob, b: b} }
func text(s string) arg   { return arg{kind: argText, s: s} }

// orNull binds 0 as NULL.
func orNull(n int64) arg {
	if n == 0 {
		return arg{}
	}
	return integer(n)
}

// bound returns a prepared statement with its parameters, for the caller to step and to reset.
func (c *conn) bound(q query, args ...arg) (*sqlite3.Stmt, error) {
	stmt, err := c.stmt(q)
	if err != nil {
		return nil, err
	}
	for i := range args {
		a := &args[i]
		switch a.kind {
		case argInteger:
			err = stmt.BindInt64(i+1, a.n)
		case argBlob:
			err = stmt.BindBlob(i+1, a.b)
		case argText:
			err = stmt.BindText(i+1, a.s)
		case argNull:
			err = stmt.BindNull(i + 1)
		}
		if err != nil {
			return nil, err
		}
	}
	return stmt, nil
}

// exec runs a statement that returns nothing.
func (c *conn) exec(q query, args ...arg) error {
	stmt, err := c.bound(q, args...)
	if err != nil {
		return err
	}
	return stmt.Exec()
}

// dataVersion changes with every commit on the file that the connection knows of; it learns of others' when a transaction begins.
func (c *conn) dataVersion() (uint32, error) {
	version, err := c.db.FileControl("main", sqlite3.FCNTL_DATA_VERSION)
	if err != nil {
		return 0, err
	}
	v, ok := version.(uint32)
	if !ok {
		return 0, errors.New("SQLite tells no data version")
	}
	return v, nil
}

// meta reads the store's state.
func (c *conn) meta() (meta, error) {
	stmt, err := c.stmt(readMeta)
	if err != nil {
		return meta{}, err
	}
	defer stmt.Reset()
	if !stmt.Step() {
		return meta{}, orDamaged(stmt.Err())
	}
	return decodeMeta(stmt.ColumnRawBlob(0))
}

// word reads an interned value from the file.
func (c *conn) word(id int64) (word, error) {
	stmt, err := c.query(wordByID, id)
	if err != nil {
		return word{}, err
	}
	defer stmt.Reset()
	if !stmt.Step() {
		return word{}, orDamaged(stmt.Err())
	}
	data := stmt.ColumnRawBlob(0)
	if uint32(stmt.ColumnInt64(1)) != checksum(data, id) {
		return word{}, errDamaged
	}
	return decodeWord(data)
}

// scanRow reads the columns of a row from column 1 on; has is false when the join found none.
func scanRow(stmt *sqlite3.Stmt, want part) (r row, has bool) {
	r.id = stmt.ColumnInt64(1)
	if r.id == 0 {
		return r, false
	}
	r.hash, r.due, r.expires, r.result = stmt.ColumnInt64(2), stmt.ColumnInt64(3), stmt.ColumnInt64(4), stmt.ColumnInt64(5)
	r.data = stmt.ColumnRawBlob(6)
	if r.result != 0 && want != noResult {
		r.head = stmt.ColumnRawBlob(7)
		if want == whole {
			r.body = stmt.ColumnRawBlob(8)
		}
	}
	return r, true
}

func orDamaged(err error) error {
	if err == nil {
		return errDamaged
	}
	return err
}

// unreadable turns what SQLite and the decoders say of damaged bytes into ErrUnreadable.
func unreadable(err error, id einmal.ID) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errDamaged), errors.Is(err, sqlite3.CORRUPT), errors.Is(err, sqlite3.IOERR_DATA), errors.Is(err, sqlite3.NOTADB):
		return fmt.Errorf("%w: record %d: %v", einmal.ErrUnreadable, id, err)
	}
	return err
}

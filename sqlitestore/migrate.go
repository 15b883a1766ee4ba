package sqlitestore

import (
	"context"
	"crypto/rand"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"github.com/ncruces/go-sqlite3"

	"github.com/einmal-dev/einmal/internal/crashpoint"
)

// applicationID marks a file as a store, in SQLite's header: "Einm".
const applicationID = 0x45696e6d

//go:embed migrations/*.sql
var migrationFiles embed.FS

// Migration is one step of the schema.
type Migration struct {
	Version int // 1, 2, …
	Name    string
	SQL     string
}

// Migrations returns all steps, in order.
func Migrations() []Migration {
	entries, err := fs.ReadDir(migrationFiles, "migrations") // sorted by name
	if err != nil {
		panic("sqlitestore: " + err.Error()) // embedded
	}
	all := make([]Migration, len(entries))
	for i, e := range entries {
		text, err := fs.ReadFile(migrationFiles, "migrations/"+e.Name())
		if err != nil {
			panic("sqlitestore: " + err.Error())
		}
		all[i] = Migration{Version: i + 1, Name: e.Name(), SQL: string(text)}
	}
	return all
}

func noStore(why string) error {
	return fmt.Errorf("%w: %s; check the path and that its volume is mounted, or make a store with `einmal init` or --create", ErrNoStore, why)
}

// prepareFile makes sure that the file is a store with this program's schema and that commits are durable. A file that is none is left as it is.
func (s *Store) prepareFile(ctx context.Context, db *sqlite3.Conn, create bool) error {
	if err := checkStore(db, create); err != nil {
		return err
	}
	if err := settle(db, writerCache); err != nil {
		return err
	}
	// What a killed process left in the log, complete but perhaps not on the disk, has just come to life. Nobody shall see it before it is durable.
	if _, _, err := db.WALCheckpoint("main", sqlite3.CHECKPOINT_PASSIVE); err != nil && !errors.Is(err, sqlite3.BUSY) {
		return fmt.Errorf("checkpoint: %w", err)
	}
	if err := migrate(ctx, db, create); err != nil {
		return err
	}
	if s.path == "" {
		return nil
	}
	return syncDir(filepath.Dir(s.path))
}

// checkStore refuses a file that is no store; an empty one passes if it may become one. It looks at one snapshot: somebody may be making the store.
func checkStore(db *sqlite3.Conn, create bool) (err error) {
	snapshot := db.Savepoint()
	defer snapshot.Release(&err)
	id, err := pragma(db, "application_id")
	if errors.Is(err, sqlite3.NOTADB) {
		return noStore("the file is not an SQLite database")
	}
	if err != nil {
		return err
	}
	if id == strconv.Itoa(applicationID) {
		return nil
	}
	tables, err := value(db, `SELECT count(*) FROM sqlite_schema`)
	switch {
	case err != nil:
		return err
	case tables > 0 || id != "0":
		return noStore("the file is a database of another program")
	case !create:
		return noStore("the file is empty")
	}
	return nil
}

// migrate runs the steps that are missing in one transaction, which also keeps out every other process that wants to.
func migrate(ctx context.Context, db *sqlite3.Conn, create bool) (err error) {
	tx, err := db.BeginImmediate()
	if err != nil {
		return err
	}
	defer tx.End(&err)
	if err := checkStore(db, create); err != nil { // again, now that nobody else can change it
		return err
	}
	if err := db.Exec(`CREATE TABLE IF NOT EXISTS migrations (version INTEGER PRIMARY KEY, name TEXT NOT NULL, at TEXT NOT NULL)`); err != nil {
		return err
	}
	have, err := value(db, `SELECT coalesce(max(version), 0) FROM migrations`)
	if err != nil {
		return err
	}
	all := Migrations()
	if have > int64(len(all)) {
		return fmt.Errorf("%w: its schema has version %d, this program knows %d", ErrNewerSchema, have, len(all))
	}
	for _, m := range all[have:] {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := db.Exec(m.SQL); err != nil {
			return fmt.Errorf("migration %s: %w", m.Name, err)
		}
		record := fmt.Sprintf(`INSERT INTO migrations VALUES (%d, %s, datetime('now'))`, m.Version, sqlite3.Quote(m.Name))
		if err := db.Exec(record); err != nil {
			return err
		}
		crashpoint.Here("sqlite: in migration")
	}
	if have > 0 {
		return nil
	}
	if err := writeFirst(db); err != nil {
		return err
	}
	crashpoint.Here("sqlite: before the first commit")
	return db.Exec(fmt.Sprintf(`PRAGMA application_id = %d`, applicationID))
}

// writeFirst gives a new store its id and secret.
func writeFirst(db *sqlite3.Conn) error {
	f := fixed{id: rand.Text(), secret: make([]byte, 32)}
	rand.Read(f.secret)
	m := meta{epoch: 1}
	stmt, _, err := db.Prepare(`INSERT INTO meta (one, fixed, state) VALUES (1, ?1, ?2)`)
	if err != nil {
		return err
	}
	defer stmt.Close()
	if err := errors.Join(stmt.BindBlob(1, f.encode()), stmt.BindBlob(2, m.encode())); err != nil {
		return err
	}
	return stmt.Exec()
}

func readFixed(db *sqlite3.Conn) (f fixed, err error) {
	stmt, _, err := db.Prepare(`SELECT fixed FROM meta WHERE one = 1`)
	if err != nil {
		return f, err
	}
	defer stmt.Close()
	if !stmt.Step() {
		return f, orDamaged(stmt.Err())
	}
	return decodeFixed(stmt.ColumnRawBlob(0))
}

// value runs a query for one number.
func value(db *sqlite3.Conn, query string) (int64, error) {
	stmt, _, err := db.Prepare(query)
	if err != nil {
		return 0, err
	}
	defer stmt.Close()
	if !stmt.Step() {
		return 0, stmt.Err()
	}
	return stmt.ColumnInt64(0), nil
}

// syncDir makes the names of new files durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

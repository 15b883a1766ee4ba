package faultvfs_test

import (
	"errors"
	"fmt"
	"strings"
	gosync "sync"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/einmal-dev/einmal/fault/faultvfs"
)

// connect opens a connection to a.db in the given journal mode, with full durability.
func connect(t *testing.T, d *faultvfs.Disk, mode string) *sqlite3.Conn {
	t.Helper()
	db, err := sqlite3.Open("file:/a.db?vfs=" + d.Name())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	if err := db.BusyTimeout(10 * time.Second); err != nil {
		t.Fatal(err)
	}
	if got := text(t, db, "PRAGMA journal_mode = "+mode); got != mode {
		t.Fatalf("journal mode %s, want %s", got, mode)
	}
	mustExec(t, db, "PRAGMA synchronous = FULL")
	return db
}

func mustExec(t *testing.T, db *sqlite3.Conn, sql string) {
	t.Helper()
	if err := db.Exec(sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func text(t *testing.T, db *sqlite3.Conn, query string) string {
	t.Helper()
	s, err := query1(db, query)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return s
}

func query1(db *sqlite3.Conn, query string) (string, error) {
	stmt, _, err := db.Prepare(query)
	if err != nil {
		return "", err
	}
	defer func() { _ = stmt.Close() }()
	s := ""
	if stmt.Step() {
		s = stmt.ColumnText(0)
	}
	return s, stmt.Err()
}

// Two sums that a transaction changes together: a reader that sees them differ has seen a half of one.
func TestWritersAndReadersOfOneFile(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"wal", "delete"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			d := newDisk(t)
			db := connect(t, d, mode)
			mustExec(t, db, "CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER); INSERT INTO t VALUES (1, 0), (2, 0)")
			const writers, rounds = 2, 100
			done := make(chan struct{})
			var writing, reading gosync.WaitGroup
			for range writers {
				c := connect(t, d, mode)
				mustExec(t, c, "PRAGMA wal_autocheckpoint = 20")
				writing.Go(func() {
					for range rounds {
						if err := c.Exec("BEGIN IMMEDIATE; UPDATE t SET n = n + 1 WHERE id = 1; UPDATE t SET n = n + 1 WHERE id = 2; COMMIT"); err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
			for range 3 {
				c := connect(t, d, mode)
				reading.Go(func() {
					for {
						select {
						case <-done:
							return
						default:
						}
						if diff, err := query1(c, "SELECT max(n) - min(n) FROM t"); err != nil || diff != "0" {
							t.Errorf("a reader saw a difference of %q, %v", diff, err)
							return
						}
					}
				})
			}
			writing.Wait()
			close(done)
			reading.Wait()
			if got, want := text(t, db, "SELECT min(n) FROM t"), fmt.Sprint(writers*rounds); got != want {
				t.Errorf("%s updates are there, want %s", got, want)
			}
			if got := text(t, db, "PRAGMA integrity_check"); got != "ok" {
				t.Error(got)
			}
		})
	}
}

// What was committed with FULL is there after a loss, in every journal mode, and the file is never damaged. The driver that claims FULL and does NORMAL
// loses some.
func TestCommitsAndPowerLoss(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, mode string
		asNormal   bool
	}{
		{"write-ahead log", "wal", false},
		{"rollback journal, synced beyond FULL", "delete", false},
		{"NORMAL that is called FULL", "wal", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			lost := 0
			for seed := range uint64(60) {
				d := newDisk(t)
				if tt.asNormal {
					d.AsNormal()
				}
				db := connect(t, d, tt.mode)
				mustExec(t, db, "PRAGMA wal_autocheckpoint = 10; CREATE TABLE t (id INTEGER PRIMARY KEY, b BLOB); PRAGMA wal_checkpoint(FULL)")
				if tt.mode == "delete" {
					mustExec(t, db, "PRAGMA synchronous = EXTRA") // FULL does not promise that the last commit survives
				}
				d.Inject(faultvfs.Fault{Op: faultvfs.Write, N: 1 + int(seed)*7%150, How: faultvfs.CutsPower, Seed: seed})
				acknowledged := 0
				for range 40 {
					if db.Exec("INSERT INTO t (b) VALUES (randomblob(3000))") != nil {
						break
					}
					acknowledged++
				}
				d.CutPower(seed)
				_ = db.Close()
				d.PowerOn()
				db = connect(t, d, tt.mode)
				if got := text(t, db, "PRAGMA integrity_check"); got != "ok" {
					t.Fatalf("seed %d: %s", seed, got)
				}
				var there int
				_, _ = fmt.Sscan(text(t, db, "SELECT count(*) FROM t"), &there)
				lost += max(0, acknowledged-there)
				_ = db.Close()
			}
			if (lost > 0) != tt.asNormal {
				t.Errorf("%d acknowledged commits were lost", lost)
			}
		})
	}
}

func TestACommitThatErrsButIsDurable(t *testing.T) {
	t.Parallel()
	d := newDisk(t)
	db := connect(t, d, "wal")
	mustExec(t, db, "CREATE TABLE t (n); INSERT INTO t VALUES (1)")
	d.Inject(faultvfs.Fault{Op: faultvfs.Sync, Name: "-wal", How: faultvfs.FailsAfter})
	if err := db.Exec("INSERT INTO t VALUES (2)"); !errors.Is(err, sqlite3.IOERR_FSYNC) {
		t.Fatalf("the commit gave %v, want an I/O error", err)
	}
	d.CutPower(1)
	_ = db.Close()
	d.PowerOn()
	if got := text(t, connect(t, d, "wal"), "SELECT count(*) FROM t"); got != "2" {
		t.Errorf("%s rows, want 2: it was durable", got)
	}
}

func TestSQLiteOnAFullDisk(t *testing.T) {
	t.Parallel()
	d := newDisk(t)
	db := connect(t, d, "wal")
	mustExec(t, db, "CREATE TABLE t (b)")
	d.Limit(20000)
	if err := db.Exec("INSERT INTO t VALUES (randomblob(100000))"); !errors.Is(err, sqlite3.FULL) {
		t.Fatalf("got %v, want SQLITE_FULL", err)
	}
	d.Limit(-1)
	mustExec(t, db, "INSERT INTO t VALUES (randomblob(100000))")
	if got := text(t, db, "SELECT count(*) FROM t"); got != "1" {
		t.Errorf("%s rows, want 1", got)
	}
}

func TestAsNormalLies(t *testing.T) {
	t.Parallel()
	for _, lie := range []bool{false, true} {
		d := newDisk(t)
		if lie {
			d.AsNormal()
		}
		db := connect(t, d, "wal")
		mustExec(t, db, "CREATE TABLE t (b)")
		if got := text(t, db, "PRAGMA synchronous"); got != "2" {
			t.Errorf("synchronous is said to be %s", got)
		}
		before := d.Count(faultvfs.Sync)
		mustExec(t, db, "INSERT INTO t VALUES (1)")
		if synced := d.Count(faultvfs.Sync) > before; synced == lie {
			t.Errorf("lie %v: a commit was synced: %v", lie, synced)
		}
	}
}

func TestConnectionsShareTheWALIndexThroughFilesInShmDir(t *testing.T) {
	t.Parallel()
	d := newDisk(t)
	a, b := connect(t, d, "wal"), connect(t, d, "wal")
	mustExec(t, a, "CREATE TABLE t (n); INSERT INTO t VALUES (1)")
	if got := text(t, b, "SELECT n FROM t"); got != "1" {
		t.Errorf("the other connection sees %q", got)
	}
	if files := strings.Join(d.Files(), " "); files != "/a.db /a.db-wal" {
		t.Errorf("the disk has %s", files)
	}
}

package main

import (
	"path/filepath"
	"sync"
	"time"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/vfs"
)

// each is what is built first on the same driver: one table, and a transaction of its own for every write. The mutex is what makes it fast: with
// several writing connections they would wait for each other in SQLite's busy loop.
type each struct {
	mu               sync.Mutex
	db               *sqlite3.Conn
	insert, complete *sqlite3.Stmt
}

func openEach(path, vfsName string) (*each, error) {
	db, err := sqlite3.Open("file:" + path + "?vfs=" + vfsName)
	if err != nil {
		return nil, err
	}
	e := &each{db: db}
	if err := db.Exec(`
		PRAGMA journal_mode = WAL;
		PRAGMA synchronous = FULL;
		PRAGMA wal_autocheckpoint = 16000;
		CREATE TABLE records (id INTEGER PRIMARY KEY, key TEXT UNIQUE, state INTEGER, fingerprint BLOB, fields BLOB, header BLOB, body BLOB)`); err != nil {
		return nil, err
	}
	if e.insert, _, err = db.Prepare(`INSERT INTO records (key, state, fingerprint, fields) VALUES (?1, 1, ?2, ?3) ON CONFLICT DO NOTHING`); err != nil {
		return nil, err
	}
	if e.complete, _, err = db.Prepare(`UPDATE records SET state = 2, header = ?2, body = ?3 WHERE key = ?1 AND state = 1`); err != nil {
		return nil, err
	}
	return e, nil
}

func (e *each) pair(caller, n int) error {
	r := reservation(identityOf(caller, n))
	key := r.Tenant + "\x00" + r.Operation + "\x00" + r.Key
	if err := e.write(e.insert, key, r.Fingerprint.Hash[:], make([]byte, 80)); err != nil {
		return err
	}
	return e.write(e.complete, key, make([]byte, headerBytes), answerBody)
}

// write is one transaction.
func (e *each) write(stmt *sqlite3.Stmt, key string, a, b []byte) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := stmt.BindText(1, key); err != nil {
		return err
	}
	if err := stmt.BindBlob(2, a); err != nil {
		return err
	}
	if err := stmt.BindBlob(3, b); err != nil {
		return err
	}
	return stmt.Exec()
}

func (e *each) close() {
	_ = e.insert.Close()
	_ = e.complete.Close()
	_ = e.db.Close()
}

// eachPairs measures pairs per second with a transaction for each write.
func eachPairs(callers int, vfsName string) func(*round) (float64, error) {
	return func(r *round) (float64, error) {
		e, err := openEach(filepath.Join(r.dir, "each.db"), vfsName)
		if err != nil {
			return 0, err
		}
		defer e.close()
		return hammer(callers, r.length, e.pair)
	}
}

// slowDisk is the operating system's files with a sync that takes slowSync longer.
const (
	slowDisk = "bench-slow"
	slowSync = 4 * time.Millisecond
)

type slowVFS struct{ vfs.VFS }

func init() { vfs.Register(slowDisk, slowVFS{vfs.Find("")}) }

func (v slowVFS) OpenFilename(name *vfs.Filename, flags vfs.OpenFlag) (vfs.File, vfs.OpenFlag, error) {
	f, flags, err := v.VFS.(vfs.VFSFilename).OpenFilename(name, flags)
	if err != nil {
		return f, flags, err
	}
	return slowFile{f}, flags, nil
}

type slowFile struct{ vfs.File }

func (f slowFile) SharedMemory() vfs.SharedMemory {
	return f.File.(vfs.FileSharedMemory).SharedMemory()
}

func (f slowFile) Sync(flags vfs.SyncFlag) error {
	time.Sleep(slowSync)
	return f.File.Sync(flags)
}

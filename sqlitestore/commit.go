package sqlitestore

import (
	"context"
	"errors"
	"fmt"

	"github.com/ncruces/go-sqlite3"

	"github.com/einmal-dev/einmal/internal/crashpoint"
	"github.com/einmal-dev/einmal/internal/mutant"
)

// together commits a batch in one transaction. When one of them breaks it, each goes alone.
func (w *writer) together(batch []*op) {
	broke, err := w.transact(batch)
	switch {
	case err == nil:
	case broke && len(batch) > 1 && !brokenFile(err) && !mutant.On("neighbour-fails"):
		for i := range batch {
			w.together(batch[i : i+1])
		}
	default:
		for _, o := range batch {
			o.err = err
		}
	}
}

// errRolledBack says that SQLite ended a transaction by itself, as it does after some errors, and nobody said so.
var errRolledBack = fmt.Errorf("SQLite has rolled the transaction back: %w", sqlite3.IOERR)

// transact runs a batch in one transaction. Their own errors are in the ops; broke says that one of them, and not the transaction itself, failed.
func (w *writer) transact(batch []*op) (broke bool, err error) {
	if err := w.reopen(); err != nil {
		return false, err
	}
	if err := w.store.place.check(); err != nil {
		return false, err
	}
	w.store.turn.take()
	crashpoint.Here("sqlite: before begin")
	if err := w.c.exec(begin); err != nil {
		w.failed(err)
		return false, fmt.Errorf("sqlitestore: begin: %w", err)
	}
	t := &tx{Store: w.store, c: w.c, w: w, alone: len(batch) == 1}
	if err := t.open(); err != nil {
		w.undo(err)
		return false, err
	}
	for _, o := range batch {
		if o.err = o.run(t); o.err != nil && t.broken == nil && fromSQLite(o.err) {
			t.broken = o.err
		}
		if t.broken == nil && w.c.db.GetAutocommit() { // what comes next would be written outside of any transaction
			t.broken = errRolledBack
		}
		if t.broken != nil {
			w.undo(t.broken)
			return true, fmt.Errorf("sqlitestore: %w", t.broken)
		}
	}
	if !t.dirty {
		w.undo(nil)
		return false, nil
	}
	if err := t.seal(); err != nil {
		w.undo(err)
		return false, fmt.Errorf("sqlitestore: %w", err)
	}
	crashpoint.Here("sqlite: before commit")
	if err := w.c.exec(commit); err != nil {
		w.undo(err)
		w.anchor()
		return false, fmt.Errorf("sqlitestore: commit, which may have happened all the same: %w", err)
	}
	crashpoint.Here("sqlite: after commit")
	w.noticeOwn()
	w.meta = &t.meta
	for word, id := range t.words {
		w.store.vocabulary.add(id, word)
	}
	return false, nil
}

// anchor commits something after a commit that failed. Its pages may be in the log, complete, and would come to life if the process died now; the next
// commit overwrites them, so that what callers read from here on stays true.
func (w *writer) anchor() {
	err := func() (err error) {
		if err := w.reopen(); err != nil {
			return err
		}
		if err := w.c.exec(begin); err != nil {
			return err
		}
		m, err := w.c.meta()
		if err != nil {
			return err
		}
		m.seq++
		if err := w.c.exec(writeMeta, blob(m.encode())); err != nil {
			return err
		}
		return w.c.exec(commit)
	}()
	if err != nil && w.c != nil {
		w.undo(err)
	}
}

// undo rolls back and forgets; cause is nil where nothing was written.
func (w *writer) undo(cause error) {
	if cause != nil {
		w.forget()
	}
	if !w.c.db.GetAutocommit() {
		if err := w.c.exec(rollback); err != nil && cause == nil {
			cause = err
		}
	}
	w.failed(cause)
}

// failed gives up the connection after an error that leaves it in doubt.
func (w *writer) failed(err error) {
	if err == nil || !brokenFile(err) && w.c.db.GetAutocommit() {
		return
	}
	w.store.log.Error("sqlitestore: the writer's connection is opened again", "error", err)
	w.forget()
	w.closeOld()
	w.old, w.c = w.c, nil
	if !w.old.db.GetAutocommit() { // it may hold SQLite's lock
		w.closeOld()
	}
}

// reopen opens a connection where there is none. The old one is open until then: if it were the last on the file, the next one would read the log
// anew and take a commit for done that failed, although it may never have reached the disk.
func (w *writer) reopen() (err error) {
	if w.c != nil {
		return nil
	}
	if w.c, err = w.store.openWriter(context.Background()); err != nil {
		return fmt.Errorf("sqlitestore: opening the writer's connection again: %w", err)
	}
	w.closeOld()
	return nil
}

func (w *writer) closeOld() {
	if w.old == nil {
		return
	}
	if err := w.old.close(); err != nil {
		w.store.log.Error("sqlitestore: closing the broken connection", "error", err)
	}
	w.old = nil
}

func fromSQLite(err error) bool {
	var failure *sqlite3.Error
	return errors.As(err, &failure)
}

// brokenFile reports whether an error is about the file and not about one row.
func brokenFile(err error) bool {
	for _, code := range []sqlite3.ErrorCode{
		sqlite3.IOERR, sqlite3.FULL, sqlite3.CORRUPT, sqlite3.NOTADB, sqlite3.CANTOPEN, sqlite3.READONLY, sqlite3.PROTOCOL, sqlite3.NOMEM,
	} {
		if errors.Is(err, code) {
			return true
		}
	}
	return false
}

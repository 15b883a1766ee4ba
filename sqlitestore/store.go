// Package sqlitestore keeps records in one SQLite file: the embedded store.
//
// A write is durable when its method returns: the file is in write-ahead mode with synchronous=FULL, which every connection reads back before it is
// used. One goroutine writes and commits whatever has come while its last commit was under way; readers have connections of their own. Several handles
// and several processes may use one file at the same time; network file systems have no locks that can be trusted and must not be used.
//
// Damage is found, never answered from: records, results and everything else that decides carry checksums.
package sqlitestore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/ncruces/go-sqlite3"

	"github.com/einmal-dev/einmal"
)

// Options are what Open can be told. The zero value is good.
type Options struct {
	Create bool         // make the store where there is none
	Clock  einmal.Clock // nil: einmal.SystemClock
	VFS    string       // name of a registered VFS, "": the operating system's files
	Log    *slog.Logger // nil: slog.Default
}

// Errors of Open, for errors.Is.
var (
	ErrNoStore     = errors.New("no store here") // no file, an empty one, or another program's
	ErrStoreExists = errors.New("there is a store already")
	ErrNewerSchema = errors.New("the store was written by a newer version of this program")
)

// Store is a handle on a store's file.
type Store struct {
	path, uri string
	runDir    string
	log       *slog.Logger
	fixed     fixed
	clock     clock
	writer    *writer
	turn      *turnstile
	place     filePlace

	hashMask   uint64 // all ones; tests make hashes collide
	vocabulary vocabulary
	known      known

	pool      chan *conn // nil ones are not open yet
	closed    chan struct{}
	closeOnce sync.Once
	closeErr  error
}

var _ einmal.Store = (*Store)(nil)

// Open opens the store in the file at path, which may also be an SQLite URI (file:…). Without Options.Create it is an error that wraps ErrNoStore when
// there is none, so that a wrong path or a volume that is not mounted does not look like an empty store.
func Open(ctx context.Context, path string, o Options) (*Store, error) {
	s := newStore(path, o)
	if err := s.open(ctx, o.Create); err != nil {
		return nil, fmt.Errorf("sqlitestore: %s: %w", path, err)
	}
	return s, nil
}

// Create makes a store in a new file and opens it. An error that wraps ErrStoreExists says that a file is there already.
func Create(ctx context.Context, path string, o Options) (*Store, error) {
	s := newStore(path, o)
	if s.path == "" {
		return nil, fmt.Errorf("sqlitestore: %s: only a plain file is created; open with Options.Create instead", path)
	}
	f, err := os.OpenFile(s.path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o666)
	if errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("sqlitestore: %s: %w", path, ErrStoreExists)
	}
	if err != nil {
		return nil, fmt.Errorf("sqlitestore: %w", err)
	}
	if err := f.Close(); err != nil {
		return nil, fmt.Errorf("sqlitestore: %w", err)
	}
	if err := s.open(ctx, true); err != nil {
		return nil, fmt.Errorf("sqlitestore: %s: %w", path, err)
	}
	return s, nil
}

func newStore(path string, o Options) *Store {
	s := &Store{uri: path, log: o.Log, clock: clock{guard: einmal.ClockGuard{Clock: o.Clock}}, hashMask: ^uint64(0), closed: make(chan struct{})}
	if s.log == nil {
		s.log = slog.Default()
	}
	switch {
	case strings.HasPrefix(path, "file:"):
		return s
	case o.VFS == "":
		if abs, err := filepath.Abs(path); err == nil { // connections are opened later too, and the process may be elsewhere then
			path = abs
		}
		s.path = path
		s.runDir = path + ".run"
	}
	s.uri = fileURI(path, bundle(o.VFS))
	return s
}

// fileURI names a plain path and a VFS.
func fileURI(path, vfs string) string {
	uri := strings.NewReplacer("%", "%25", "?", "%3f", "#", "%23").Replace(path)
	if filepath.IsAbs(path) {
		uri = "//" + uri
	}
	return "file:" + uri + "?vfs=" + url.QueryEscape(vfs)
}

// RunDir is a folder beside the file for what belongs to running processes, such as lock files. Whoever puts something there makes it; who only looks
// finds none. "" where there is none: the store is not a plain file.
func (s *Store) RunDir() string { return s.runDir }

// open opens the writer's connection, brings the schema up to date and starts the writer.
func (s *Store) open(ctx context.Context, create bool) (err error) {
	if s.path != "" && !create {
		if _, err := os.Stat(s.path); errors.Is(err, fs.ErrNotExist) {
			return noStore("there is no such file")
		}
	}
	flags := sqlite3.OpenFlag(0)
	if create {
		flags = sqlite3.OPEN_CREATE
	}
	db, err := s.connect(ctx, flags)
	if errors.Is(err, sqlite3.CANTOPEN) && !create {
		return noStore(err.Error())
	}
	if err != nil {
		return err
	}
	if err := s.prepareFile(ctx, db, create); err != nil {
		return errors.Join(err, db.Close())
	}
	c := &conn{db: db}
	if err := s.start(c); err != nil {
		return errors.Join(err, c.close())
	}
	return nil
}

// start reads what the store knows of itself and starts the writer.
func (s *Store) start(c *conn) (err error) {
	if s.fixed, err = readFixed(c.db); err != nil {
		return unreadableMeta(err)
	}
	m, err := c.meta()
	if err != nil {
		return unreadableMeta(err)
	}
	s.clock.start(&m)
	if s.place, err = newFilePlace(s.path); err != nil {
		return err
	}
	if s.turn, err = newTurnstile(s.path); err != nil {
		return err
	}
	s.pool = make(chan *conn, readers)
	for range readers {
		s.pool <- nil
	}
	s.writer = newWriter(s, c)
	go s.writer.loop()
	return nil
}

// Sizes of the connections' caches, in KiB, and how long the write-ahead log grows before a commit checkpoints it, in pages of 4 KiB.
const (
	writerCache     = 8 << 10
	readerCache     = 2 << 10
	checkpointPages = 16000
)

func (s *Store) openWriter(ctx context.Context) (*conn, error) { return s.openConn(ctx, writerCache) }

func (s *Store) openReader(ctx context.Context) (*conn, error) { return s.openConn(ctx, readerCache) }

// openConn opens one more connection to a store that is open already.
func (s *Store) openConn(ctx context.Context, cacheKiB int) (*conn, error) {
	db, err := s.connect(ctx, 0)
	if err != nil {
		return nil, err
	}
	if err := settle(db, cacheKiB); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	f, err := readFixed(db)
	if err == nil && f.id != s.fixed.id {
		err = errReplaced
	}
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &conn{db: db}, nil
}

// Close implements einmal.Store.
func (s *Store) Close() error {
	s.closeOnce.Do(func() {
		close(s.closed)
		s.writer.close()
		var errs []error
		for range readers {
			if c := <-s.pool; c != nil {
				errs = append(errs, c.close())
			}
		}
		s.writer.closeOld()
		if s.writer.c != nil {
			errs = append(errs, s.writer.c.close())
		}
		s.turn.close()
		s.closeErr = errors.Join(errs...)
	})
	return s.closeErr
}

package sqlitestore_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"
	_ "github.com/ncruces/go-sqlite3/vfs/memdb"

	"github.com/einmal-dev/einmal"
	"github.com/einmal-dev/einmal/sqlitestore"
)

var terms = einmal.Terms{
	Owner: "owner@example.com", Class: einmal.ClassOpaque, Deadline: time.Minute, Lease: 10 * time.Minute, Window: time.Hour, KeepResult: time.Minute,
	Tombstone: time.Hour, UnclearDeadline: time.Minute, Backoff: time.Second, MaxAttempts: 5,
}

// execSQL runs SQL on a file with a connection of its own.
func execSQL(t *testing.T, path, sql string) {
	t.Helper()
	db, err := sqlite3.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(db.Exec(sql), db.Close()); err != nil {
		t.Fatal(err)
	}
}

func TestOpenRefusesWhatIsNoStore(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(t *testing.T, path string){
		"a file that is not there":             func(*testing.T, string) {},
		"an empty file":                        func(t *testing.T, path string) { writeFile(t, path, "") },
		"a file of something else":             func(t *testing.T, path string) { writeFile(t, path, strings.Repeat("no database\n", 1000)) },
		"an SQLite file without tables":        func(t *testing.T, path string) { execSQL(t, path, "PRAGMA user_version = 1") },
		"another program's SQLite file":        func(t *testing.T, path string) { execSQL(t, path, "CREATE TABLE t (x)") },
		"another program's empty SQLite file":  func(t *testing.T, path string) { execSQL(t, path, "PRAGMA application_id = 7") },
		"a folder that is not there, and file": func(*testing.T, string) {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "store.db")
			if strings.Contains(name, "folder") {
				path = filepath.Join(t.TempDir(), "missing", "store.db")
			}
			prepare(t, path)
			before, _ := os.ReadFile(path)

			_, err := sqlitestore.Open(t.Context(), path, sqlitestore.Options{})
			if !errors.Is(err, sqlitestore.ErrNoStore) || !strings.Contains(err.Error(), "einmal init") || !strings.Contains(err.Error(), path) {
				t.Errorf("want ErrNoStore with the path and the cure, got %v", err)
			}
			if after, _ := os.ReadFile(path); string(after) != string(before) {
				t.Error("the file was changed")
			}
		})
	}
}

func TestCreateDoesNotTakeAFileThatIsThere(t *testing.T) {
	t.Parallel()
	for name, content := range map[string]string{"an empty file": "", "a file of something else": "hello"} {
		path := filepath.Join(t.TempDir(), "store.db")
		writeFile(t, path, content)
		if _, err := sqlitestore.Create(t.Context(), path, sqlitestore.Options{}); !errors.Is(err, sqlitestore.ErrStoreExists) {
			t.Errorf("%s: want ErrStoreExists, got %v", name, err)
		}
	}
	for name, sql := range map[string]string{"another program's": "CREATE TABLE t (x)", "with another application_id": "PRAGMA application_id = 7"} {
		path := filepath.Join(t.TempDir(), "store.db")
		execSQL(t, path, sql)
		if _, err := sqlitestore.Open(t.Context(), path, sqlitestore.Options{Create: true}); !errors.Is(err, sqlitestore.ErrNoStore) {
			t.Errorf("%s: Open with Create: want ErrNoStore, got %v", name, err)
		}
	}
}

func TestCreateThenOpenIsTheSameStore(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "with ? and # and %41", "store.db")
	if err := os.Mkdir(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	created, err := sqlitestore.Create(t.Context(), path, sqlitestore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	id := idOf(t, created)
	if want := path + ".run"; created.RunDir() != want {
		t.Errorf("RunDir is %q, want %q", created.RunDir(), want)
	}
	if _, err := os.Stat(path + ".run"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("who only looks made the folder for lock files: %v", err)
	}
	if err := created.Close(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := created.Reserve(t.Context(), request("late")); !errors.Is(err, einmal.ErrStoreClosed) {
		t.Errorf("Reserve on a closed handle: want ErrStoreClosed, got %v", err)
	}
	if _, err := created.Get(t.Context(), einmal.Ref{ID: 1}); !errors.Is(err, einmal.ErrStoreClosed) {
		t.Errorf("Get on a closed handle: want ErrStoreClosed, got %v", err)
	}
	opened, err := sqlitestore.Open(t.Context(), path, sqlitestore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	if again := idOf(t, opened); again != id || id == "" {
		t.Errorf("the store's id was %q and is %q", id, again)
	}
}

func TestManyWhoCreateAtOnceGetOneStore(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "store.db")
	ids := make([]string, 6)
	var wg sync.WaitGroup
	for i := range ids {
		wg.Go(func() {
			s, err := sqlitestore.Open(t.Context(), path, sqlitestore.Options{Create: true})
			if err != nil {
				t.Error(err)
				return
			}
			ids[i] = idOf(t, s)
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, id := range ids {
		if id != ids[0] || id == "" {
			t.Fatalf("different stores: %q", ids)
		}
	}
}

func TestANewerSchemaIsRefused(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "store.db")
	s, err := sqlitestore.Create(t.Context(), path, sqlitestore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	execSQL(t, path, "INSERT INTO migrations VALUES (999, 'from the future', '')")
	if _, err := sqlitestore.Open(t.Context(), path, sqlitestore.Options{Create: true}); !errors.Is(err, sqlitestore.ErrNewerSchema) {
		t.Errorf("want ErrNewerSchema, got %v", err)
	}
}

func TestAStoreWhoseCommitsAreNotDurableIsRefused(t *testing.T) {
	t.Parallel()
	// A VFS without shared memory, where SQLite keeps its old journal.
	_, err := sqlitestore.Open(t.Context(), "file:/"+t.Name()+"?vfs=memdb", sqlitestore.Options{Create: true})
	if err == nil || !strings.Contains(err.Error(), "journal_mode") {
		t.Errorf("want an error about journal_mode, got %v", err)
	}
}

func TestMigrationsAreNumberedAndEmbedded(t *testing.T) {
	t.Parallel()
	all := sqlitestore.Migrations()
	if len(all) == 0 {
		t.Fatal("none")
	}
	for i, m := range all {
		if m.Version != i+1 || !strings.HasPrefix(m.Name, "000") || m.SQL == "" {
			t.Errorf("migration %d is %d, %q", i+1, m.Version, m.Name)
		}
	}
}

func writeFile(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func idOf(t *testing.T, s einmal.Store) string {
	t.Helper()
	all, err := s.Settings(t.Context())
	if err != nil {
		t.Error(err)
	}
	for _, one := range all {
		if one.Name == "id" {
			return one.Value
		}
	}
	return ""
}

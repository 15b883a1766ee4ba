package sqlitestore_test

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/ncruces/go-sqlite3"

	"github.com/einmal-dev/einmal"
	"github.com/einmal-dev/einmal/sqlitestore"
)

// The ways that docs/operating.md names for a backup are other programs' SQLite, which knows nothing of what this package puts between itself and the file.
func TestABackupByAnySQLiteIsAStore(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "store.db")
	s, err := sqlitestore.Create(t.Context(), path, sqlitestore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	want, _, err := s.Reserve(t.Context(), request("k"))
	if err != nil {
		t.Fatal(err)
	}
	header := make([]byte, 100)
	if f, err := os.Open(path); err != nil {
		t.Fatal(err)
	} else if _, err := io.ReadFull(f, header); err != nil {
		t.Fatal(err)
	} else {
		_ = f.Close()
	}
	if header[20] != 0 { // SQLite file format, section 1.3.4: such as checksums of pages, which other programs' copies would not have
		t.Errorf("%d bytes of each page are reserved for what other programs do not know", header[20])
	}
	other, err := sqlite3.Open("file:" + path)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	vacuumed, copied := filepath.Join(dir, "vacuumed.db"), filepath.Join(dir, "copied.db")
	if err := other.Exec("VACUUM INTO " + sqlite3.Quote(vacuumed)); err != nil {
		t.Fatal(err)
	}
	if err := other.Backup("main", "file:"+copied); err != nil {
		t.Fatal(err)
	}
	for _, backup := range []string{vacuumed, copied} {
		b, err := sqlitestore.Open(t.Context(), backup, sqlitestore.Options{})
		if err != nil {
			t.Errorf("%s: %v", filepath.Base(backup), err)
			continue
		}
		if got, err := b.Get(t.Context(), einmal.Ref{Identity: want.Identity}); err != nil || got.ID != want.ID {
			t.Errorf("%s: %+v, %v", filepath.Base(backup), got, err)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
}

package sqlitestore_test

import (
	"path/filepath"
	"testing"

	"github.com/ncruces/go-sqlite3"

	"github.com/einmal-dev/einmal"
	"github.com/einmal-dev/einmal/sqlitestore"
	"github.com/einmal-dev/einmal/storetest"
)

func TestStore(t *testing.T) {
	t.Parallel()
	path, clock := filepath.Join(t.TempDir(), "store.db"), storetest.NewClock()
	storetest.Run(t, storetest.Maker{
		Open: func() (einmal.Store, error) {
			return sqlitestore.Open(t.Context(), path, sqlitestore.Options{Create: true, Clock: clock.Read})
		},
		Advance: clock.Advance,
		Jump:    clock.Jump,
		Damage:  func(id einmal.ID) error { return flip(path, id, 40) },
	})
}

// flip changes one byte of a record's data, counted from its end.
func flip(path string, id einmal.ID, fromEnd int) error {
	db, err := sqlite3.Open(path)
	if err != nil {
		return err
	}
	defer db.Close()
	blob, err := db.OpenBlob("main", "records", "data", int64(id), true)
	if err != nil {
		return err
	}
	defer blob.Close()
	if _, err := blob.Seek(int64(-fromEnd), 2); err != nil {
		return err
	}
	b := make([]byte, 1)
	if _, err := blob.Read(b); err != nil {
		return err
	}
	b[0] ^= 0x10
	if _, err := blob.Seek(int64(-fromEnd), 2); err != nil {
		return err
	}
	_, err = blob.Write(b)
	return err
}

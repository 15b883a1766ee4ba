package sqlitestore_test

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"testing"
	"time"

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

// TestIdentitiesThatShareAHashAreKeptApart leaves a store four hashes only.
func TestIdentitiesThatShareAHashAreKeptApart(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	sqlitestore.CollideHashes(f.Store)
	const keys = 40
	ids := map[string]einmal.ID{}
	for i := range keys {
		key := fmt.Sprint("key-", i)
		rec := f.reserve(t, key)
		if i%2 == 0 {
			if _, err := f.Apply(t.Context(), completed(&rec, []byte(key))); err != nil {
				t.Fatal(err)
			}
		}
		ids[key] = rec.ID
	}
	check := func(when string) {
		t.Helper()
		for key, id := range ids {
			rec, created, err := f.Reserve(t.Context(), request(key))
			if err != nil || created || rec.ID != id || rec.Key != key {
				t.Fatalf("%s: %s: record %d of %s, created %v, error %v; want record %d", when, key, rec.ID, rec.Key, created, err, id)
			}
			if rec, err := f.Get(t.Context(), einmal.Ref{Identity: request(key).Identity}); err != nil || rec.ID != id {
				t.Fatalf("%s: Get(%s): record %d, error %v; want record %d", when, key, rec.ID, err, id)
			}
		}
	}
	check("reserved")
	for range 3 { // completed ones become tombstones, and those that nobody needs to find another are deleted
		f.clock.Advance(2 * time.Hour)
		if _, err := f.Purge(t.Context(), 1000); err != nil {
			t.Fatal(err)
		}
	}
	maps.DeleteFunc(ids, func(key string, id einmal.ID) bool {
		rec, err := f.Get(t.Context(), einmal.Ref{ID: id})
		return errors.Is(err, einmal.ErrNotFound) || rec.State == einmal.StateExpired
	})
	if len(ids) != keys/2 {
		t.Errorf("%d records are open, want %d", len(ids), keys/2)
	}
	check("purged")
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

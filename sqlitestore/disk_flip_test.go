package sqlitestore_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/ncruces/go-sqlite3"

	"github.com/einmal-dev/einmal"
	"github.com/einmal-dev/einmal/fault/faultvfs"
	"github.com/einmal-dev/einmal/sqlitestore"
)

const pageSize = 4096

// A byte is flipped in the file: at every position of a page in use that is not empty, and at some of the empty ones. Whoever asks for a record gets it
// as it was, or an error: never another one. That there is none is the one wrong answer left: a flip in the key of an index, in a row's number or in the
// place of a row hides the row without breaking the page's form, which is all that SQLite looks at. They are counted.
func TestAFlippedByteNeverMakesAnotherRecord(t *testing.T) {
	t.Parallel()
	f := newFlips(t)
	file := f.disk.ReadFile("/store.db")
	told := map[string]int{}
	for name, page := range f.pages {
		for at := range pageSize {
			offset := int64(page-1)*pageSize + int64(at)
			if file[offset] == 0 && rand.IntN(20) > 0 {
				continue
			}
			mask := byte(1) << rand.IntN(8)
			if at%2 == 0 {
				mask = 0xff
			}
			f.disk.Flip("/store.db", offset, mask)
			f.refresh()
			for _, ref := range []einmal.Ref{{Identity: f.want.Identity}, {ID: f.want.ID}} {
				if f.complains(ref) {
					told[name]++
				}
				if t.Failed() {
					t.Fatalf("%s, byte %d of page %d, mask %#x, asked by ID: %v", name, at, page, mask, ref.ID != 0)
				}
			}
			f.disk.Flip("/store.db", offset, mask)
		}
	}
	for _, name := range []string{"records", "results", "records_hash"} {
		if told[name] == 0 {
			t.Errorf("no flip in %s was ever noticed: the test looks at the wrong pages", name)
		}
	}
	f.refresh()
	if f.complains(einmal.Ref{ID: f.want.ID}) {
		t.Error("with all bytes as they were, the record is not readable")
	}
	t.Logf("noticed: %v; hidden: %d", told, f.hidden)
}

// flips is a store with one record to look for among others, on a disk.
type flips struct {
	t     *testing.T
	disk  *faultvfs.Disk
	s     *sqlitestore.Store
	want  einmal.Record
	pages map[string]int // the root pages of tables and indexes, by name; all are small enough to have no other
	raw   *sqlite3.Conn

	hidden int // answers that there is no such record
}

func newFlips(t *testing.T) *flips {
	t.Helper()
	f := &flips{t: t, disk: newDisk(t), pages: map[string]int{}}
	f.s = mustOpenOn(t, f.disk)
	for i := range 5 {
		key := fmt.Sprint("order-", i)
		rec, _, err := f.s.Reserve(t.Context(), reservationOf(key))
		if err != nil {
			t.Fatal(err)
		}
		change := completionOf(rec.ID, key)
		change.Result.Body = []byte(strings.Repeat(key+" is paid. ", 10))
		change.Entry = &einmal.Entry{Event: "test", By: key}
		if i == 1 {
			continue // still running
		}
		if rec, err = f.s.Apply(t.Context(), change); err != nil {
			t.Fatal(err)
		}
		if i == 3 {
			f.want = rec
		}
	}
	f.connect()
	if err := f.raw.Exec("CREATE TABLE other (n INTEGER)"); err != nil {
		t.Fatal(err)
	}
	stmt, _, err := f.raw.Prepare("SELECT name, rootpage FROM sqlite_schema WHERE rootpage > 0 AND name NOT IN ('other', 'migrations')")
	if err != nil {
		t.Fatal(err)
	}
	for stmt.Step() {
		f.pages[stmt.ColumnText(0)] = stmt.ColumnInt(1)
	}
	// Closing moves everything from the log into the file.
	for _, err := range []error{stmt.Err(), stmt.Close(), f.s.Close(), f.raw.Close()} {
		if err != nil {
			t.Fatal(err)
		}
	}
	f.s = mustOpenOn(t, f.disk)
	t.Cleanup(func() { _ = f.s.Close() })
	f.connect()
	t.Cleanup(func() { _ = f.raw.Close() })
	return f
}

func (f *flips) connect() {
	f.t.Helper()
	var err error
	if f.raw, err = sqlite3.Open("file:/store.db?vfs=" + f.disk.Name()); err != nil {
		f.t.Fatal(err)
	}
	if err := f.raw.Exec("PRAGMA synchronous = OFF"); err != nil {
		f.t.Fatal(err)
	}
}

// refresh commits something elsewhere in the file, so that every connection reads its pages anew.
func (f *flips) refresh() {
	f.t.Helper()
	if err := f.raw.Exec("INSERT OR REPLACE INTO other (rowid, n) VALUES (1, 1)"); err != nil {
		f.t.Fatal(err)
	}
}

// complains reports whether the store says that it cannot read. Any other answer than that or the right one fails the test.
func (f *flips) complains(ref einmal.Ref) bool {
	ctx, cancel := context.WithTimeout(f.t.Context(), time.Minute)
	defer cancel()
	rec, err := f.s.Get(ctx, ref)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		f.t.Fatal("it hangs")
	case errors.Is(err, einmal.ErrNotFound):
		f.hidden++
		return false
	case err != nil:
		return true
	}
	rec.Now, rec.At = f.want.Now, f.want.At
	if !reflect.DeepEqual(f.want, rec) { // for speed
		f.t.Errorf("another record (-want +got):\n%s", cmp.Diff(f.want, rec))
	}
	return false
}

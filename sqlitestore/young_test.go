package sqlitestore_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/einmal-dev/einmal"
	"github.com/einmal-dev/einmal/sqlitestore"
)

// TestEveryOpenRecordIsFoundWhetherItIsIndexedOrYoung has more open records than one Claim puts into the index, with completed ones between them.
func TestEveryOpenRecordIsFoundWhetherItIsIndexedOrYoung(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const open = sqlitestore.YoungOpen + 120
	var wg sync.WaitGroup
	for part := range 40 {
		wg.Go(func() {
			for i := part; i < open; i += 40 {
				f.reserve(t, fmt.Sprint("open-", i))
				rec := f.reserve(t, fmt.Sprint("completed-", i))
				if _, err := f.Apply(t.Context(), completed(&rec, nil)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	other := f.open(t)
	check := func(when string) {
		t.Helper()
		seen := map[einmal.ID]bool{}
		last := einmal.ID(0)
		for after := ""; ; {
			page, next, err := other.List(t.Context(), einmal.Filter{States: []einmal.State{einmal.StateRunning}, After: after, Limit: 77})
			if err != nil {
				t.Fatal(err)
			}
			for _, rec := range page {
				if rec.ID <= last || seen[rec.ID] {
					t.Fatalf("%s: record %d after %d", when, rec.ID, last)
				}
				last, seen[rec.ID] = rec.ID, true
			}
			if after = next; after == "" {
				break
			}
		}
		if len(seen) != open {
			t.Errorf("%s: %d records are listed as running, want %d", when, len(seen), open)
		}
		r := request("one more")
		r.Limits.Open = open
		if _, _, err := other.Reserve(t.Context(), r); !errors.Is(err, einmal.ErrTooManyOpen) {
			t.Errorf("%s: a limit of %d open records: want ErrTooManyOpen, got %v", when, open, err)
		}
	}
	check("young")
	for i := range 3 {
		if claimed, err := f.Claim(t.Context(), einmal.Claim{Limit: 10, Lease: time.Minute}); err != nil || len(claimed) > 0 {
			t.Fatalf("Claim before anything is due: %d, %v", len(claimed), err)
		}
		check(fmt.Sprint("after Claim ", i+1))
	}
	before := f.spy.writes.Load()
	if _, err := f.Claim(t.Context(), einmal.Claim{Limit: 10, Lease: time.Minute}); err != nil || f.spy.writes.Load() != before {
		t.Errorf("a Claim with nothing left to do: %d writes, error %v", f.spy.writes.Load()-before, err)
	}
	f.clock.Advance(terms.Lease)
	claimed := map[einmal.ID]bool{}
	for range 2*open/100 + 2 {
		recs, err := other.Claim(t.Context(), einmal.Claim{Limit: 100, Lease: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		for _, rec := range recs {
			if claimed[rec.ID] {
				t.Fatalf("record %d was claimed twice", rec.ID)
			}
			claimed[rec.ID] = true
		}
	}
	if len(claimed) != open {
		t.Errorf("%d records were claimed, want %d", len(claimed), open)
	}
}

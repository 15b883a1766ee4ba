package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/einmal-dev/einmal/sqlitestore"
)

func init() {
	for _, c := range []struct {
		callers int
		atLeast float64
	}{{1, 0.85}, {16, 0.85}, {64, 0.45}} {
		add(row{
			name: fmt.Sprintf("sqlite-commit-%d", c.callers), against: "rawlog", unit: "pairs/s", atLeast: c.atLeast,
			subject: sqlitePairs(c.callers, sqlitestore.Options{}), rival: rawlogPairs(c.callers),
		})
	}
	add(
		row{
			name: "sqlite-group-gain-64", against: "one transaction each", unit: "pairs/s", atLeast: 8,
			subject: sqlitePairs(64, sqlitestore.Options{}), rival: eachPairs(64, "os"),
		},
		row{
			name: "slow-disk-64", against: "one transaction each", unit: "pairs/s", atLeast: 25,
			subject: sqlitePairs(64, sqlitestore.Options{VFS: slowDisk}), rival: eachPairs(64, slowDisk),
		},
		row{name: "size-per-record", against: "payload", unit: "bytes", atMost: 1.25, subject: bytesPerRecord, rival: payload},
		row{name: "retention-p99", against: "expiry off", unit: "ms", atMost: 1.3, subject: retention(true), rival: retention(false)},
		row{name: "resident-million", unit: "MB", atMost: 96, subject: residentMillion, onRequest: true},
	)
}

// fill writes pairs with 64 callers.
func fill(s *sqlitestore.Store, pairs int, pair func(caller, n int) error) error {
	const callers = 64
	errs := make([]error, callers)
	var wg sync.WaitGroup
	for caller := range callers {
		wg.Go(func() {
			for n := 0; n < pairs/callers && errs[caller] == nil; n++ {
				errs[caller] = pair(caller, n)
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// bytesPerRecord is the file's size after many pairs and a clean close.
func bytesPerRecord(r *round) (float64, error) {
	const pairs = 64 * 400
	s, err := newStore(r, sqlitestore.Options{})
	if err != nil {
		return 0, err
	}
	err = fill(s, pairs, func(caller, n int) error { return storePair(s, caller, n) })
	if closeErr := s.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return 0, err
	}
	info, err := os.Stat(filepath.Join(r.dir, "store.db"))
	if err != nil {
		return 0, err
	}
	return float64(info.Size()) / pairs, nil
}

// payload is what a record is asked to keep: the answer and the identity.
func payload(*round) (float64, error) {
	id := identityOf(1, 1)
	return float64(headerBytes + bodyBytes + len(id.Tenant) + len(id.Operation) + len(id.Key)), nil
}

// retention is the 99th percentile of a write's latency in milliseconds under load, on a store whose records are all over when the load begins; with
// purging or without. Purging keeps pace with the load, as it must in the long run: for every hundred new records a hundred expire and a hundred are
// deleted.
func retention(purge bool) func(*round) (float64, error) {
	return func(r *round) (float64, error) {
		const (
			over = 64 * 300
			each = 100
		)
		s, err := newStore(r, sqlitestore.Options{})
		if err != nil {
			return 0, err
		}
		defer s.Close()
		if err := fill(s, over, func(caller, n int) error { return shortPair(s, caller, n) }); err != nil {
			return 0, err
		}
		due := make(chan struct{}, over)
		purged := make(chan error, 1)
		go func() {
			var err error
			for range due {
				if purge && err == nil {
					_, err = s.Purge(context.Background(), each)
				}
			}
			purged <- err
		}()
		var mu sync.Mutex
		var took []time.Duration
		_, err = hammer(16, r.length, func(caller, n int) error {
			start := time.Now()
			err := storePair(s, 1000+caller, n)
			mu.Lock()
			defer mu.Unlock()
			if took = append(took, time.Since(start)/2); len(took)%each == 0 {
				due <- struct{}{}
			}
			return err
		})
		close(due)
		if purgeErr := <-purged; err == nil {
			err = purgeErr
		}
		if err != nil {
			return 0, err
		}
		slices.Sort(took)
		return float64(took[len(took)*99/100].Microseconds()) / 1000, nil
	}
}

// shortPair is a pair whose window is over at once.
func shortPair(s *sqlitestore.Store, caller, n int) error {
	r := reservation(identityOf(caller, n))
	r.Terms.Window, r.Terms.KeepResult, r.Terms.Tombstone = time.Millisecond, time.Millisecond, time.Millisecond
	rec, _, err := s.Reserve(context.Background(), r)
	if err != nil {
		return err
	}
	_, err = s.Apply(context.Background(), completion(&rec, r.Nonce))
	return err
}

// residentMillion is the process's resident memory with a store open that has a million records.
func residentMillion(r *round) (float64, error) {
	s, err := newStore(r, sqlitestore.Options{})
	if err != nil {
		return 0, err
	}
	defer s.Close()
	if err := fill(s, 1_000_000, func(caller, n int) error { return storePair(s, caller, n) }); err != nil {
		return 0, err
	}
	debug.FreeOSMemory()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(status)) {
		var kB float64
		if _, err := fmt.Sscanf(line, "VmRSS: %f kB", &kB); err == nil {
			return kB / 1024, nil
		}
	}
	return 0, fmt.Errorf("no VmRSS in /proc/self/status")
}

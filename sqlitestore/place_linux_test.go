package sqlitestore_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/einmal-dev/einmal"
	"github.com/einmal-dev/einmal/sqlitestore"
)

func TestAStoreWhoseFileIsReplacedTakesNoMoreWrites(t *testing.T) {
	t.Parallel()
	for name, replace := range map[string]func(path string) error{
		"removed": os.Remove,
		"moved":   func(path string) error { return os.Rename(path, path+".old") },
		"another store in its place": func(path string) error {
			if err := os.Rename(path, path+".old"); err != nil {
				return err
			}
			for _, left := range []string{"-wal", "-shm"} {
				if err := os.Remove(path + left); err != nil {
					return err
				}
			}
			other, err := sqlitestore.Create(t.Context(), path, sqlitestore.Options{})
			if err != nil {
				return err
			}
			return other.Close()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "store.db")
			s, err := sqlitestore.Create(t.Context(), path, sqlitestore.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			if _, _, err := s.Reserve(t.Context(), request("before")); err != nil {
				t.Fatal(err)
			}
			if err := replace(path); err != nil {
				t.Fatal(err)
			}
			for began := time.Now(); ; { // it is noticed within a moment
				if _, _, err = s.Reserve(t.Context(), request(fmt.Sprint("after", time.Since(began)))); err != nil {
					break
				}
				if time.Since(began) > 10*time.Second {
					t.Fatal("writes go on to a file that is gone")
				}
			}
			if !strings.Contains(err.Error(), "moved, removed or replaced") {
				t.Errorf("the error does not name the cause: %v", err)
			}
			// The readers' first connection is opened now: it must not answer from the other store.
			if _, err := s.Get(t.Context(), einmal.Ref{ID: 1}); err == nil || errors.Is(err, einmal.ErrNotFound) {
				t.Errorf("a look met another file: %v", err)
			}
		})
	}
}

// TestHelperElsewhere is no test: it is the process that opens a store by a relative path and goes elsewhere.
func TestHelperElsewhere(t *testing.T) {
	dir := os.Getenv("EINMAL_TEST_ELSEWHERE")
	if dir == "" {
		return
	}
	for _, sub := range []string{"here", "there"} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	var stores []*sqlitestore.Store
	for _, sub := range []string{"there", "here"} {
		if err := os.Chdir(filepath.Join(dir, sub)); err != nil {
			t.Fatal(err)
		}
		s, err := sqlitestore.Create(t.Context(), "store.db", sqlitestore.Options{})
		if err != nil {
			t.Fatal(err)
		}
		stores = append(stores, s)
	}
	here := stores[1]
	rec, _, err := here.Reserve(t.Context(), request("k"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chdir(filepath.Join(dir, "there")); err != nil {
		t.Fatal(err)
	}
	if got, err := here.Get(t.Context(), einmal.Ref{ID: rec.ID}); err != nil || got.Key != "k" {
		t.Fatalf("%+v, %v", got, err)
	}
}

func TestARelativePathMeansTheFolderWhereTheStoreWasOpened(t *testing.T) {
	t.Parallel()
	cmd := exec.Command(os.Args[0], "-test.run=^TestHelperElsewhere$")
	cmd.Env = append(os.Environ(), "EINMAL_TEST_ELSEWHERE="+t.TempDir())
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestANeighbourWhoIsFrozenInHisTurnHoldsNobodyForEver(t *testing.T) {
	t.Parallel()
	for name, at := range map[string]int64{"queued": 1 << 62, "writing": 1<<62 + 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "store.db")
			s, err := sqlitestore.Create(t.Context(), path, sqlitestore.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			frozen, err := os.OpenFile(path, os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer frozen.Close()
			if err := unix.FcntlFlock(frozen.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_WRLCK, Start: at, Len: 1}); err != nil {
				t.Fatal(err)
			}
			for i := range 20 { // the first waits for a while, the others do not wait again
				if _, _, err := s.Reserve(t.Context(), request(fmt.Sprint(i))); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

package sqlitestore_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/einmal-dev/einmal"
	"github.com/einmal-dev/einmal/sqlitestore"
)

// childStore names the file that a child process of this test works on.
const childStore = "EINMAL_TEST_CHILD_STORE"

func TestMain(m *testing.M) {
	if path := os.Getenv(childStore); path != "" {
		if err := child(path); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

const sharedKeys = 200

// child reserves all keys, several at a time, completes those that it got, and prints them.
func child(path string) error {
	s, err := sqlitestore.Open(context.Background(), path, sqlitestore.Options{})
	if err != nil {
		return err
	}
	var (
		wg     sync.WaitGroup
		mu     sync.Mutex
		failed error
	)
	for part := range 8 {
		wg.Go(func() {
			for i := part; i < sharedKeys; i += 8 {
				key := fmt.Sprint("key-", i)
				rec, created, err := s.Reserve(context.Background(), request(key))
				if err == nil && created {
					_, err = s.Apply(context.Background(), completed(&rec, []byte(key)))
				}
				mu.Lock()
				if err != nil {
					failed = err
				}
				if created {
					fmt.Println(key)
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if err := s.Close(); err != nil {
		return err
	}
	return failed
}

func TestTwoProcessesRunEachKeyOnce(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "store.db")
	s, err := sqlitestore.Create(t.Context(), path, sqlitestore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ran := map[string]int{}
	var wg sync.WaitGroup
	var mu sync.Mutex
	for range 2 {
		wg.Go(func() {
			cmd := exec.CommandContext(t.Context(), os.Args[0])
			cmd.Env = append(os.Environ(), childStore+"="+path)
			var complaint strings.Builder
			cmd.Stderr = &complaint
			out, err := cmd.Output()
			if err != nil {
				t.Errorf("child: %v: %s", err, complaint.String())
			}
			mu.Lock()
			defer mu.Unlock()
			for lines := bufio.NewScanner(strings.NewReader(string(out))); lines.Scan(); {
				ran[lines.Text()]++
			}
		})
	}
	wg.Wait()
	for i := range sharedKeys {
		key := fmt.Sprint("key-", i)
		if ran[key] != 1 {
			t.Errorf("%s ran %d times", key, ran[key])
		}
		rec, err := s.Get(t.Context(), einmal.Ref{Identity: request(key).Identity})
		if err != nil || rec.State != einmal.StateCompleted || string(rec.Result.Body) != key {
			t.Errorf("%s: %v, error %v", key, rec.State, err)
		}
	}
}

// TestABusyHandleDoesNotStarveAnother has one handle commit without a pause while another needs its turn now and then.
func TestABusyHandleDoesNotStarveAnother(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "store.db")
	busy, err := sqlitestore.Create(t.Context(), path, sqlitestore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	other, err := sqlitestore.Open(t.Context(), path, sqlitestore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()

	stop := make(chan struct{})
	var wg sync.WaitGroup
	for caller := range 8 {
		wg.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				if _, _, err := busy.Reserve(t.Context(), request(fmt.Sprint("busy-", caller, "-", n))); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	worst := int64(0)
	for n := range 20 {
		before := seqOf(t, busy)
		rec, _, err := other.Reserve(t.Context(), request(fmt.Sprint("other-", n)))
		if err != nil {
			t.Fatal(err)
		}
		worst = max(worst, rec.Seq-before)
	}
	close(stop)
	wg.Wait()
	// Two batches of eight that were before it, one whose commit was under way when the sequence was read, and some that came before it had asked.
	if worst > 20*8 {
		t.Errorf("a write of the other handle had to let %d writes of the busy one pass", worst)
	}
}

func seqOf(t *testing.T, s einmal.Store) (seq int64) {
	t.Helper()
	all, err := s.Settings(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range all {
		if one.Name == "seq" {
			_, _ = fmt.Sscan(one.Value, &seq)
		}
	}
	return seq
}

package sqlitestore_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/einmal-dev/einmal"
	"github.com/einmal-dev/einmal/fault/faultvfs"
	"github.com/einmal-dev/einmal/fingerprint"
	"github.com/einmal-dev/einmal/sqlitestore"
)

func fromEnv(t *testing.T, name string, otherwise int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

func newDisk(t *testing.T) *faultvfs.Disk {
	t.Helper()
	disk := faultvfs.New(t.TempDir())
	t.Cleanup(disk.Close)
	return disk
}

// openOn opens the store on a disk, and makes it where there is none. plain leaves out what sqlitestore puts between SQLite and the VFS.
func openOn(t *testing.T, disk *faultvfs.Disk, plain bool) (*sqlitestore.Store, error) {
	t.Helper()
	o := sqlitestore.Options{Create: true, VFS: disk.Name(), Log: slog.New(slog.NewTextHandler(io.Discard, nil))}
	if plain {
		return sqlitestore.Open(t.Context(), "file:/store.db?vfs="+disk.Name(), o)
	}
	return sqlitestore.Open(t.Context(), "/store.db", o)
}

func mustOpenOn(t *testing.T, disk *faultvfs.Disk) *sqlitestore.Store {
	t.Helper()
	s, err := openOn(t, disk, false)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func closeStore(t *testing.T, s *sqlitestore.Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Errorf("closing: %v", err)
	}
}

func newNonce() (n einmal.Nonce) {
	for i := range n {
		n[i] = byte(rand.Uint32())
	}
	return n
}

func reservationOf(key string) einmal.Reservation {
	return einmal.Reservation{
		Identity: einmal.Identity{Tenant: "tenant", Operation: "pay", Key: key}, Principal: "principal", PartnerKey: "partner-" + key,
		Fingerprint: fingerprint.Sum{Version: fingerprint.V1, Hash: sha256.Sum256([]byte(key))}, Nonce: newNonce(),
		Terms: einmal.Terms{
			Owner: "owner@example.com", Class: einmal.ClassOpaque, Deadline: time.Minute, Lease: time.Minute, Window: time.Hour, KeepResult: time.Hour,
			Tombstone: time.Hour, UnclearDeadline: time.Hour, Backoff: time.Second, MaxAttempts: 5,
		},
		Holder: einmal.Holder{Incarnation: "incarnation", Host: "host", Boot: "boot"},
	}
}

// bodyOf is the answer to a key: of a size that differs, and no two alike.
func bodyOf(key string) []byte {
	sum := sha256.Sum256([]byte(key))
	return bytes.Repeat(sum[:], 1+int(sum[0])*int(sum[1])%150)
}

func completionOf(id einmal.ID, key string) einmal.Change {
	return einmal.Change{
		ID: id, Kind: einmal.Transition, Guard: einmal.Guard{State: einmal.StateRunning, Attempt: 1}, Nonce: newNonce(),
		State: einmal.StateCompleted, Attempt: 1, Verdict: einmal.VerdictApplied,
		Result: &einmal.Result{Status: 201, Header: []einmal.Field{{Name: "Location", Value: "/payments/" + key}}, Body: bodyOf(key)},
	}
}

// firstUse makes and completes one record.
func firstUse(s *sqlitestore.Store, key string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	rec, created, err := s.Reserve(ctx, reservationOf(key))
	if err != nil || !created {
		return fmt.Errorf("reserving: created %v, %w", created, err)
	}
	if _, err := s.Apply(ctx, completionOf(rec.ID, key)); err != nil {
		return fmt.Errorf("completing: %w", err)
	}
	rec, err = s.Get(ctx, einmal.Ref{ID: rec.ID})
	if err != nil {
		return fmt.Errorf("reading: %w", err)
	}
	return sameAsCompleted(&rec, key)
}

func sameAsCompleted(rec *einmal.Record, key string) error {
	switch {
	case rec.State != einmal.StateCompleted || rec.Verdict != einmal.VerdictApplied || rec.Result == nil:
		return fmt.Errorf("%s is %v, verdict %v, with result: %v; it was completed", key, rec.State, rec.Verdict, rec.Result != nil)
	case rec.Key != key || rec.Result.Status != 201 || !bytes.Equal(rec.Result.Body, bodyOf(key)):
		return fmt.Errorf("%s has another result: key %s, status %d, %d bytes", key, rec.Key, rec.Result.Status, len(rec.Result.Body))
	}
	return nil
}

package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/einmal-dev/einmal"
	"github.com/einmal-dev/einmal/fingerprint"
	"github.com/einmal-dev/einmal/sqlitestore"
)

// A pair is a reservation and its completion: two durable commits, 190 bytes of header fields and a body of 1 KiB.
const (
	headerBytes = 190
	bodyBytes   = 1024
)

var (
	answerHeader = []einmal.Field{
		{Name: "Content-Type", Value: "application/json; charset=utf-8"},
		{Name: "Location", Value: "/v1/orders/3f1c2b9e-7a64-4c0e-9b51-2f6d8e0a7c11"},
		{Name: "Etag", Value: `"W/5d41402abc4b2a76b9719d911017c592"`},
		{Name: "Content-Language", Value: "en-GB,de-DE"},
		{Name: "Link", Value: `</v1/orders>; rel="x"`},
	}
	answerBody = func() []byte {
		b := make([]byte, bodyBytes)
		_, _ = rand.Read(b)
		return b
	}()
	quiet = slog.New(slog.NewTextHandler(io.Discard, nil))
)

func benchTerms() einmal.Terms {
	return einmal.Terms{
		Owner: "payments@example.com", Class: einmal.ClassOpaque, Deadline: 30 * time.Second, Lease: 10 * time.Second, Window: 24 * time.Hour,
		KeepResult: time.Hour, Tombstone: 720 * time.Hour, UnclearDeadline: 15 * time.Minute, Backoff: time.Second, MaxAttempts: 5,
	}
}

func init() {
	n := 0
	for _, f := range answerHeader {
		n += len(f.Name) + len(f.Value)
	}
	if n != headerBytes {
		panic(fmt.Sprintf("bench: the answer's header fields have %d bytes, not %d", n, headerBytes))
	}
}

// identityOf is the n-th operation of a caller.
func identityOf(caller, n int) einmal.Identity {
	return einmal.Identity{Tenant: "acme", Operation: "create-payment", Key: fmt.Sprintf("%08x-0000-4000-8000-%012x", caller, n)}
}

func reservation(id einmal.Identity) einmal.Reservation {
	r := einmal.Reservation{
		Identity: id, Principal: "user-1017", Fingerprint: fingerprint.Sum{Version: fingerprint.V1}, Terms: benchTerms(),
		Holder: einmal.Holder{Incarnation: "3CZQ5ZJ7LFX2K4D6", Host: "reference", Boot: "4be2d4cc-1a0e-4a33-9d5e-7b1a2c3d4e5f"},
	}
	_, _ = rand.Read(r.Nonce[:])
	_, _ = rand.Read(r.Fingerprint.Hash[:])
	return r
}

func completion(rec *einmal.Record, nonce einmal.Nonce) einmal.Change {
	return einmal.Change{
		ID: rec.ID, Kind: einmal.Transition, Guard: einmal.Guard{State: einmal.StateRunning, Attempt: 1}, Nonce: nonce,
		State: einmal.StateCompleted, Attempt: 1, Verdict: einmal.VerdictApplied,
		Result: &einmal.Result{Status: 201, Header: answerHeader, Body: answerBody},
	}
}

// storePair is one pair on a store.
func storePair(s einmal.Store, caller, n int) error {
	r := reservation(identityOf(caller, n))
	rec, created, err := s.Reserve(context.Background(), r)
	if err != nil {
		return err
	}
	if !created {
		return fmt.Errorf("%v is there already", r.Identity)
	}
	_, err = s.Apply(context.Background(), completion(&rec, r.Nonce))
	return err
}

// hammer has callers do one thing after the other for a while and returns how many were done a second.
func hammer(callers int, length time.Duration, do func(caller, n int) error) (float64, error) {
	var (
		wg     sync.WaitGroup
		done   atomic.Int64
		failed atomic.Pointer[error]
	)
	start := time.Now()
	for caller := range callers {
		wg.Go(func() {
			for n := 0; time.Since(start) < length && failed.Load() == nil; n++ {
				if err := do(caller, n); err != nil {
					failed.Store(&err)
					return
				}
				done.Add(1)
			}
		})
	}
	wg.Wait()
	took := time.Since(start)
	if err := failed.Load(); err != nil {
		return 0, *err
	}
	return float64(done.Load()) / took.Seconds(), nil
}

func newStore(r *round, o sqlitestore.Options) (*sqlitestore.Store, error) {
	o.Create, o.Log = true, quiet
	return sqlitestore.Open(context.Background(), filepath.Join(r.dir, "store.db"), o)
}

// sqlitePairs measures pairs per second on a new store.
func sqlitePairs(callers int, o sqlitestore.Options) func(*round) (float64, error) {
	return func(r *round) (float64, error) {
		s, err := newStore(r, o)
		if err != nil {
			return 0, err
		}
		defer s.Close()
		return hammer(callers, r.length, func(caller, n int) error { return storePair(s, caller, n) })
	}
}

// rawlogPairs measures pairs per second on a new log.
func rawlogPairs(callers int) func(*round) (float64, error) {
	return func(r *round) (float64, error) {
		l, err := openRawlog(filepath.Join(r.dir, "raw.log"))
		if err != nil {
			return 0, err
		}
		defer l.close()
		header := make([]byte, headerBytes)
		return hammer(callers, r.length, func(caller, n int) error {
			r := reservation(identityOf(caller, n))
			if _, err := l.reserve(r.Tenant+"\x00"+r.Operation+"\x00"+r.Key, r.Fingerprint.Hash, make([]byte, 80)); err != nil {
				return err
			}
			return l.complete(r.Tenant+"\x00"+r.Operation+"\x00"+r.Key, header, answerBody)
		})
	}
}

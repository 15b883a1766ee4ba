package einmalhttp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/einmal-dev/einmal"
	"github.com/einmal-dev/einmal/einmalhttp"
	"github.com/einmal-dev/einmal/memstore"
	"github.com/einmal-dev/einmal/sqlitestore"
)

// storages are where two handles can be on one storage.
var storages = map[string]func(t *testing.T) func() einmal.Store{
	"memstore": func(*testing.T) func() einmal.Store { return memstore.NewStorage(memstore.Options{}).Open },
	"sqlitestore": func(t *testing.T) func() einmal.Store {
		path := filepath.Join(t.TempDir(), "einmal.db")
		return func() einmal.Store {
			s, err := sqlitestore.Open(context.Background(), path, sqlitestore.Options{Create: true})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { s.Close() })
			return s
		}
	},
}

const duplicates = 64

// TestDuplicatesWhileTheFirstIsHeld: the first request is held inside the partner while 64 more arrive, over one engine and over two.
func TestDuplicatesWhileTheFirstIsHeld(t *testing.T) {
	t.Parallel()
	for storage, open := range storages {
		for engines := 1; engines <= 2; engines++ {
			t.Run(fmt.Sprintf("%s, engines: %d", storage, engines), func(t *testing.T) {
				t.Parallel()
				open := open(t)
				held, release := make(chan struct{}), make(chan struct{})
				var effects atomic.Int64
				apis := make([]*api, engines)
				for i := range apis {
					apis[i] = newAPI(t, options{store: open()})
					apis[i].handle("/op", einmal.Policy{}, func(w http.ResponseWriter, r *http.Request) {
						if effects.Add(1) == 1 {
							close(held)
						}
						<-release
						createOrder(w, r)
					})
				}
				first := make(chan answer, 1)
				go func() { first <- apis[0].send(request{path: "/op"}) }()
				await(t, "the attempt", held)
				refused, waiting := make(chan answer, duplicates), make(chan answer, duplicates)
				for i := range duplicates {
					a := apis[i%engines]
					if i < duplicates/2 {
						go func() { refused <- a.send(request{path: "/op"}) }()
					} else {
						go func() { waiting <- a.send(request{path: "/op", header: http.Header{"Prefer": {"wait=30"}}}) }()
					}
				}
				for range duplicates / 2 {
					if got := await(t, "a duplicate", refused); got.status != 409 {
						t.Errorf("a duplicate got %v", got)
					}
				}
				close(release)
				want := await(t, "the first answer", first)
				for range duplicates / 2 {
					got := await(t, "a waiter", waiting)
					if got.status != want.status || got.body != want.body || statusPath(t, got) != statusPath(t, want) {
						t.Errorf("a waiter got %v, the first %v", got, want)
					}
				}
				if n := effects.Load(); n != 1 {
					t.Errorf("%d effects", n)
				}
			})
		}
	}
}

// TestDuplicatesAtOnce: nobody is first. One executes, and the others are refused or get its answer.
func TestDuplicatesAtOnce(t *testing.T) {
	t.Parallel()
	for storage, open := range storages {
		t.Run(storage, func(t *testing.T) {
			t.Parallel()
			open := open(t)
			apis := []*api{newAPI(t, options{store: open()}), newAPI(t, options{store: open()})}
			for _, a := range apis {
				a.handle("/op", einmal.Policy{}, createOrder)
			}
			for round := range 4 {
				answers, start := make(chan answer, duplicates), make(chan struct{})
				for i := range duplicates {
					req := apis[i%2].build(request{path: "/op", key: fmt.Sprint("round-", round)})
					go func() {
						<-start
						got, err := apis[i%2].do(req)
						if err != nil {
							t.Error(err)
						}
						answers <- got
					}()
				}
				close(start)
				firsts := 0
				for range duplicates {
					got := await(t, "an answer", answers)
					switch {
					case got.status == 201 && got.header.Get("Idempotent-Replayed") == "":
						firsts++
					case got.status != 201 && got.status != 409:
						t.Errorf("got %v", got)
					}
				}
				if n := apis[0].effect.Load() + apis[1].effect.Load(); firsts != 1 || n != int64(round+1) {
					t.Errorf("round %d: %d first answers, %d effects so far", round, firsts, n)
				}
			}
		})
	}
}

// TestHammeredKey: one key that is held and sent again and again does not keep others from their turn. It counts, and measures no time.
func TestHammeredKey(t *testing.T) {
	t.Parallel()
	a := newAPI(t, options{store: storages["sqlitestore"](t)()})
	held, release := make(chan struct{}), make(chan struct{})
	a.handle("/held", einmal.Policy{}, func(w http.ResponseWriter, r *http.Request) {
		close(held)
		<-release
		createOrder(w, r)
	})
	a.handle("/op", einmal.Policy{}, createOrder)
	first := make(chan answer, 1)
	go func() { first <- a.send(request{path: "/held"}) }()
	await(t, "the attempt", held)

	const hammers, others, each = 16, 4, 25
	var hammered atomic.Int64
	var hammering, working sync.WaitGroup
	stop := make(chan struct{})
	for range hammers {
		hammering.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if got := a.send(request{path: "/held"}); got.status != 409 {
					t.Errorf("the hammered key: %v", got)
				}
				hammered.Add(1)
			}
		})
	}
	for w := range others {
		working.Go(func() {
			for i := range each {
				if got := a.send(request{path: "/op", key: fmt.Sprint(w, "-", i)}); got.status != 201 {
					t.Errorf("another key: %v", got)
				}
			}
		})
	}
	working.Wait()
	close(stop)
	hammering.Wait()
	close(release)
	await(t, "the first answer", first)
	a.wantEffects(1 + others*each)
	if n := hammered.Load(); n > 100*others*each {
		t.Errorf("%d requests of the hammered key were served for %d others", n, others*each)
	}
}

// pipeListener is a network inside a synctest bubble.
type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error   { l.once.Do(func() { close(l.closed) }); return nil }
func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }

func (l *pipeListener) dial() net.Conn {
	client, server := net.Pipe()
	l.conns <- server
	return client
}

// TestClientThatLeaves: while it uploads, while it executes, while it waits. There is one execution at most, and in the end not a goroutine is left: the
// bubble would not come to its end.
func TestClientThatLeaves(t *testing.T) {
	t.Parallel()
	const head = "POST /op HTTP/1.1\r\nHost: x\r\nIdempotency-Key: k-1\r\nContent-Length: 5\r\n"
	for name, c := range map[string]struct {
		first, second string // what two clients send before they leave
		effects       int64
		state         einmal.State // 0: no record
	}{
		"uploading":                    {head + "\r\nhel", "", 0, 0},
		"executing":                    {head + "\r\nhello", "", 1, einmal.StateCompleted},
		"waiting":                      {head + "\r\nhello", head + "Prefer: wait=30\r\n\r\nhello", 1, einmal.StateCompleted},
		"uploading a duplicate":        {head + "\r\nhello", head + "\r\nhel", 1, einmal.StateCompleted},
		"uploading, with 100-continue": {head + "Expect: 100-continue\r\n\r\nhe", "", 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				eng, err := einmal.New(einmal.Config{Store: memstore.New()})
				if err != nil {
					t.Fatal(err)
				}
				idem := einmalhttp.New(eng, einmalhttp.Config{Identify: func(*http.Request) (einmal.Caller, error) { return einmal.Caller{Principal: "alice"}, nil }})
				var effects atomic.Int64
				release := make(chan struct{})
				h := idem.Wrap(eng.Define(einmal.Policy{Name: "op", Owner: "o"}))(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					effects.Add(1)
					<-release
					createOrder(w, r)
				}))
				l := &pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
				server := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
				served := make(chan error, 1)
				go func() { served <- server.Serve(l) }()
				began := time.Now()
				for _, text := range []string{c.first, c.second} {
					if text == "" {
						continue
					}
					conn := l.dial()
					go func() { _, _ = io.Copy(io.Discard, conn) }() // a 100 Continue must not block the server
					if _, err := io.WriteString(conn, text); err != nil {
						t.Fatal(err)
					}
					synctest.Wait()
					_ = conn.Close()
				}
				synctest.Wait()
				close(release)
				synctest.Wait()
				if waited := time.Since(began); waited >= 10*time.Second {
					t.Errorf("somebody waited %v for a client that had left", waited)
				}
				op, err := eng.Find(t.Context(), einmal.Identity{Operation: "op", Key: "k-1"})
				if n := effects.Load(); n != c.effects || op.State != c.state || errors.Is(err, einmal.ErrNotFound) != (c.state == 0) {
					t.Errorf("%d effects, state %v, %v; want %d, %v", n, op.State, err, c.effects, c.state)
				}
				_ = server.Close()
				<-served
				if err := eng.Close(t.Context()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

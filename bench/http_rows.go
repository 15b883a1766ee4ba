package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/einmal-dev/einmal"
	"github.com/einmal-dev/einmal/einmalhttp"
	"github.com/einmal-dev/einmal/sqlitestore"
)

const connections = 64

func init() {
	add(
		row{
			name: "http-new", against: "rawlog behind HTTP", unit: "requests/s", atLeast: 0.55,
			subject: perSecond(onSQLite, newKeys), rival: perSecond(onRawlog, newKeys),
		},
		row{
			name: "http-new-bare", against: "bare handler", unit: "requests/s", atLeast: 0.2,
			subject: perSecond(onSQLite, newKeys), rival: perSecond(onBare, newKeys),
		},
		row{
			name: "http-new-p99", against: "", unit: "ms", atMost: 20,
			subject: func(r *round) (float64, error) {
				l, err := driven(r, onSQLite, newKeys)
				return l.p99.Seconds() * 1000, err
			},
		},
		row{
			name: "http-repeat", against: "bare handler", unit: "requests/s", atLeast: 0.55,
			subject: perSecond(onSQLite, repeatedKeys), rival: perSecond(onBare, repeatedKeys),
		},
		row{
			name: "http-repeat-rawlog", against: "rawlog behind HTTP", unit: "requests/s", atLeast: 0.5, onRequest: true,
			subject: perSecond(onSQLite, repeatedKeys), rival: perSecond(onRawlog, repeatedKeys),
		},
		row{
			name: "http-off", against: "bare handler", unit: "requests/s", atLeast: 0.95,
			subject: perSecond(onSQLite, noKey), rival: perSecond(onBare, noKey),
		},
		row{
			name: "contention", against: "the same load, 64 keys", unit: "others' p99, ms", atMost: 1.5,
			subject: func(r *round) (float64, error) { return othersP99(r, 1) },
			rival:   func(r *round) (float64, error) { return othersP99(r, connections) },
		},
		row{
			name: "contention-idle", against: "no other load", unit: "others' p99, ms", atMost: 1.5, onRequest: true,
			subject: func(r *round) (float64, error) { return othersP99(r, 1) },
			rival:   func(r *round) (float64, error) { return othersP99(r, 0) },
		},
	)
}

// createOrder reads its request and answers 201 with the header fields and the body of a pair.
func createOrder(w http.ResponseWriter, r *http.Request) {
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	h := w.Header()
	for _, f := range answerHeader {
		h.Set(f.Name, f.Value)
	}
	w.WriteHeader(http.StatusCreated)
	_, _ = w.Write(answerBody)
}

// service is a server under measurement.
type service struct {
	addr string
	end  func()
}

func serve(h http.Handler, end func()) (*service, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	server := &http.Server{Handler: h}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = server.Serve(l)
	}()
	return &service{l.Addr().String(), func() {
		_ = server.Close()
		<-ended
		end()
	}}, nil
}

func onBare(*round) (*service, error) { return serve(http.HandlerFunc(createOrder), func() {}) }

func onSQLite(r *round) (*service, error) { return onSQLiteWith(r, createOrder) }

func onSQLiteWith(r *round, h http.HandlerFunc) (*service, error) {
	store, err := newStore(r, sqlitestore.Options{})
	if err != nil {
		return nil, err
	}
	engine, err := einmal.New(einmal.Config{Store: store, Log: quiet})
	if err != nil {
		return nil, err
	}
	idem := einmalhttp.New(engine, einmalhttp.Config{Log: quiet, Identify: func(r *http.Request) (einmal.Caller, error) {
		return einmal.Caller{Tenant: "acme", Principal: r.Header.Get("X-User")}, nil
	}})
	op := engine.Define(einmal.Policy{Name: "create-order", Owner: "orders@example.com", KeyOptional: true})
	return serve(idem.Wrap(op)(h), func() {
		_ = engine.Close(context.Background())
		_ = store.Close()
	})
}

// onRawlog is the least that a durable middleware can do: the key, a hash of the body, a reservation, the answer kept until it is durable.
func onRawlog(r *round) (*service, error) {
	l, err := openRawlog(filepath.Join(r.dir, "raw.log"))
	if err != nil {
		return nil, err
	}
	var answers sync.Map // the rawlog itself keeps none in memory
	return serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		key := r.Header.Get("Idempotency-Key")
		if err != nil || key == "" {
			http.Error(w, "no body or key", http.StatusBadRequest)
			return
		}
		created, err := l.reserve(key, sha256.Sum256(body), make([]byte, 80))
		if err == nil && created {
			createdOrder(w, make([]byte, headerBytes), answerBody, func(header, body []byte) { err = l.complete(key, header, body) })
			answers.Store(key, answerBody)
		} else if stored, ok := answers.Load(key); ok && err == nil {
			createdOrder(w, nil, stored.([]byte), nil)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	}), func() { _ = l.close() })
}

func createdOrder(w http.ResponseWriter, header, body []byte, before func(header, body []byte)) {
	h := w.Header()
	for _, f := range answerHeader {
		h.Set(f.Name, f.Value)
	}
	if before != nil {
		before(header, body)
	}
	w.WriteHeader(http.StatusCreated)
	_, _ = w.Write(body)
}

// traffic prepares the requests of every connection.
type traffic func(s *service) (func(conn, n int) []byte, error)

func newKeys(*service) (func(conn, n int) []byte, error) {
	requests := requestsOf(connections, true)
	return func(conn, n int) []byte {
		requests[conn].setKey(conn, n)
		return requests[conn].bytes
	}, nil
}

// storedKeys is how many completed operations repeatedKeys repeats.
const storedKeys = 1000

func repeatedKeys(s *service) (func(conn, n int) []byte, error) {
	first, err := dialHTTP(s.addr)
	if err != nil {
		return nil, err
	}
	defer first.c.Close()
	var wg sync.WaitGroup
	errs := make([]error, 16)
	for w := range errs {
		wg.Go(func() {
			c, err := dialHTTP(s.addr)
			q := newRequest("/orders", true)
			for n := w; err == nil && n < storedKeys; n += len(errs) {
				q.setKey(0, n)
				_, err = c.do(q.bytes)
			}
			errs[w] = err
			if c != nil {
				_ = c.c.Close()
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	requests := requestsOf(connections, true)
	return func(conn, n int) []byte {
		requests[conn].setKey(0, (n*connections+conn)%storedKeys)
		return requests[conn].bytes
	}, nil
}

func noKey(*service) (func(conn, n int) []byte, error) {
	requests := requestsOf(connections, false)
	return func(conn, _ int) []byte { return requests[conn].bytes }, nil
}

func requestsOf(n int, withKey bool) []*httpRequest {
	requests := make([]*httpRequest, n)
	for i := range requests {
		requests[i] = newRequest("/orders", withKey)
	}
	return requests
}

func driven(r *round, on func(*round) (*service, error), t traffic) (load, error) {
	s, err := on(r)
	if err != nil {
		return load{}, err
	}
	defer s.end()
	next, err := t(s)
	if err != nil {
		return load{}, err
	}
	return drive(s.addr, connections, r.length, http.StatusCreated, next)
}

func perSecond(on func(*round) (*service, error), t traffic) func(*round) (float64, error) {
	return func(r *round) (float64, error) {
		l, err := driven(r, on, t)
		return l.perSecond, err
	}
}

// othersP99 is the p99 in milliseconds of 16 connections with new keys, while 64 connections send again and again what is running already: one request
// of one key, or of as many keys as held says.
func othersP99(r *round, held int) (float64, error) {
	var executions atomic.Int64
	release := make(chan struct{})
	s, err := onSQLiteWith(r, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/held" {
			executions.Add(1)
			<-release
		}
		createOrder(w, r)
	})
	if err != nil {
		return 0, err
	}
	defer s.end()
	defer close(release)
	for key := range held {
		c, err := dialHTTP(s.addr)
		if err != nil {
			return 0, err
		}
		defer c.c.Close()
		q := newRequest("/held", true)
		q.setKey(connections, key)
		if _, err := c.c.Write(q.bytes); err != nil {
			return 0, err
		}
	}
	for executions.Load() < int64(held) {
		time.Sleep(time.Millisecond)
	}
	hammered := make(chan error, 1)
	if held > 0 {
		requests := make([]*httpRequest, connections)
		for i := range requests {
			requests[i] = newRequest("/held", true)
			requests[i].setKey(connections, i%held)
		}
		go func() {
			_, err := drive(s.addr, connections, r.length, http.StatusConflict, func(conn, _ int) []byte { return requests[conn].bytes })
			hammered <- err
		}()
	} else {
		hammered <- nil
	}
	next, _ := newKeys(nil)
	l, err := drive(s.addr, 16, r.length, http.StatusCreated, next)
	if err == nil {
		err = <-hammered
	}
	if n := executions.Load(); err == nil && n != int64(held) {
		err = fmt.Errorf("%d executions of %d held keys", n, held)
	}
	return l.p99.Seconds() * 1000, err
}

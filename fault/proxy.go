package fault

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
)

// Proxy stands between a client and a server, speaks HTTP/1.1 without TLS, and does to each request what a Rule says. It passes on the very bytes that
// it gets; it has its own connection to the server for every request. Set the fields before Start.
type Proxy struct {
	Target string                   // the server's host and port; see Retarget
	Match  func(*http.Request) bool // which requests take a rule, others pass; nil: POST, PUT, PATCH and DELETE

	journal journal
	rules   queue[Rule]
	closed  chan struct{}
	running sync.WaitGroup

	mu       sync.Mutex
	target   string
	addr     string
	listener net.Listener      // nil: refusing
	clients  map[net.Conn]bool // true: a request is under way
	servers  map[net.Conn]bool
}

// Start listens on a free port of 127.0.0.1.
func (p *Proxy) Start() error {
	p.closed = make(chan struct{})
	p.clients, p.servers = map[net.Conn]bool{}, map[net.Conn]bool{}
	p.target = p.Target
	return p.listen("127.0.0.1:0")
}

// Addr is the host and port that the proxy listens on. It stays the same.
func (p *Proxy) Addr() string { return p.addr }

// URL is http:// and Addr.
func (p *Proxy) URL() string { return "http://" + p.addr }

// Retarget passes later requests on to another server, for one that was started again on another port.
func (p *Proxy) Retarget(addr string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = addr
}

// Then gives the next matching requests their rules, one each, after those that were given before. Requests after that are as Always says.
func (p *Proxy) Then(rules ...Rule) { p.rules.add("", rules) }

// ThenFor gives rules to the next requests with this Idempotency-Key; they take nothing from Then's queue.
func (p *Proxy) ThenFor(key string, rules ...Rule) { p.rules.add(key, rules) }

// Always is the rule for matching requests that were given none.
func (p *Proxy) Always(rule Rule) { p.rules.setAlways(rule) }

// Refuse makes connecting fail with "connection refused", and cuts idle connections so that every client has to connect. Requests under way go on.
func (p *Proxy) Refuse() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener != nil {
		_ = p.listener.Close()
		p.listener = nil
	}
	for conn, busy := range p.clients {
		if !busy {
			_ = conn.Close()
		}
	}
}

// Accept ends Refuse, on the same port.
func (p *Proxy) Accept() error { return p.listen(p.addr) }

// Count returns how often something happened to requests with this Idempotency-Key, "" for all.
func (p *Proxy) Count(what What, key string) int {
	n, _ := p.journal.count(what, key)
	return n
}

// Await returns when something has happened n times to requests with this Idempotency-Key, "" for all, counted from the proxy's start; or with an error
// when the context ends.
func (p *Proxy) Await(ctx context.Context, what What, key string, n int) error {
	return p.journal.await(ctx, what, key, n)
}

// Events returns everything that happened so far, in order.
func (p *Proxy) Events() []Event { return p.journal.list() }

// Close cuts everything, drops what is held, and returns when nothing of the proxy runs any more.
func (p *Proxy) Close() {
	p.mu.Lock()
	select {
	case <-p.closed:
	default:
		close(p.closed)
	}
	if p.listener != nil {
		_ = p.listener.Close()
		p.listener = nil
	}
	for conn := range p.clients {
		_ = conn.Close()
	}
	for conn := range p.servers {
		_ = conn.Close()
	}
	p.mu.Unlock()
	p.running.Wait()
}

func (p *Proxy) listen(addr string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener != nil || p.isClosed() {
		return nil
	}
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return fmt.Errorf("fault: proxy: %w", err)
	}
	p.listener, p.addr = listener, listener.Addr().String()
	p.running.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			if !p.track(p.clients, conn) {
				return
			}
			p.running.Go(func() {
				defer p.forget(p.clients, conn)
				p.serve(conn)
			})
		}
	})
	return nil
}

func (p *Proxy) isClosed() bool {
	select {
	case <-p.closed:
		return true
	default:
		return false
	}
}

// track remembers a connection for Close; false, with the connection closed, if that was already.
func (p *Proxy) track(conns map[net.Conn]bool, conn net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.isClosed() {
		_ = conn.Close()
		return false
	}
	conns[conn] = false
	return true
}

func (p *Proxy) forget(conns map[net.Conn]bool, conn net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(conns, conn)
	_ = conn.Close()
}

// setBusy tells Refuse whether to spare the connection; false if it is to end instead, for the proxy refuses.
func (p *Proxy) setBusy(conn net.Conn, busy bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clients[conn] = busy
	return busy || p.listener != nil
}

var errClosed = errors.New("fault: proxy closed")

func (p *Proxy) dial() (net.Conn, error) {
	p.mu.Lock()
	target := p.target
	p.mu.Unlock()
	conn, err := net.Dial("tcp", target)
	if err != nil {
		return nil, err
	}
	if !p.track(p.servers, conn) {
		return nil, errClosed
	}
	return conn, nil
}

func (p *Proxy) rule(r *http.Request) Rule {
	match := p.Match
	if match == nil {
		match = func(r *http.Request) bool {
			return r.Method == http.MethodPost || r.Method == http.MethodPut || r.Method == http.MethodPatch || r.Method == http.MethodDelete
		}
	}
	if !match(r) {
		return Rule{}
	}
	return p.rules.take(r.Header.Get("Idempotency-Key"))
}

package fault

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// tap reads HTTP messages from a connection and keeps their bytes as they came.
type tap struct {
	conn net.Conn
	br   *bufio.Reader
	raw  []byte
}

func newTap(conn net.Conn) *tap {
	t := &tap{conn: conn}
	t.br = bufio.NewReader(t)
	return t
}

// Read is for t.br only.
func (t *tap) Read(b []byte) (int, error) {
	n, err := t.conn.Read(b)
	t.raw = append(t.raw, b[:n]...)
	return n, err
}

// taken returns the bytes that were read from t.br since the last call.
func (t *tap) taken() []byte {
	n := len(t.raw) - t.br.Buffered()
	b := t.raw[:n:n]
	t.raw = t.raw[n:]
	return b
}

var (
	errCut  = errors.New("fault: cut as told")
	errRead = errors.New("fault: the message ended early")
)

// pump reads a message's body up to limit bytes (below 0: all of it) and writes what came over the wire, the head included, to w as it comes.
// At the limit it returns errCut; errRead if the message does not come whole.
func (t *tap) pump(body io.Reader, w io.Writer, limit int64) error {
	if _, err := w.Write(t.taken()); err != nil {
		return err
	}
	buf := make([]byte, 32<<10)
	for {
		part := buf
		if limit >= 0 && limit < int64(len(part)) {
			part = part[:limit]
		}
		if len(part) == 0 {
			return errCut
		}
		n, err := body.Read(part)
		if limit >= 0 {
			limit -= int64(n)
		}
		if _, werr := w.Write(t.taken()); werr != nil {
			return werr
		}
		if err == io.EOF {
			if limit >= 0 {
				return errCut
			}
			return nil
		}
		if err != nil {
			return fmt.Errorf("%w: %w", errRead, err)
		}
	}
}

// serve takes the requests of one client connection, one after the other.
func (p *Proxy) serve(conn net.Conn) {
	client := newTap(conn)
	for p.setBusy(conn, false) {
		if _, err := client.br.Peek(1); err != nil {
			return
		}
		p.setBusy(conn, true)
		if !p.exchange(client) {
			return
		}
	}
}

// exchange does one request; false ends the client's connection.
func (p *Proxy) exchange(client *tap) (again bool) {
	r, err := http.ReadRequest(client.br)
	if err != nil {
		return false
	}
	key := r.Header.Get("Idempotency-Key")
	rule := p.rule(r)
	p.journal.add(Arrived, key, key)

	// The request is kept where it is needed whole or again; otherwise it goes on as it comes.
	var kept bytes.Buffer
	late := rule.Delay > 0 || rule.Hold != nil
	limit := int64(-1)
	if rule.Cut == CutInUpload {
		limit = rule.After
	}
	var cut error
	if late {
		if cut = client.pump(r.Body, &kept, limit); cut != nil && !errors.Is(cut, errCut) {
			return false
		}
		if !wait(rule.Delay, rule.Hold, p.closed) {
			return false
		}
	}
	conn, err := p.dial()
	if err != nil {
		return false
	}
	defer p.forget(p.servers, conn)
	server := newTap(conn)

	answered := make(chan error, 1)
	var answer *http.Response
	stream := rule.Cut == CutNever
	if stream {
		// Before the request is through: an answer may come early, and 100 Continue has to.
		p.running.Go(func() {
			var err error
			answer, err = passAnswer(server, r, client.conn)
			answered <- err
		})
	}
	if late {
		_, err = conn.Write(kept.Bytes())
	} else {
		var w io.Writer = conn
		if rule.Copies > 0 {
			w = io.MultiWriter(conn, &kept)
		}
		cut = client.pump(r.Body, w, limit)
		if !errors.Is(cut, errCut) {
			err = cut
		}
	}
	switch {
	case errors.Is(cut, errCut):
		p.journal.add(Cut, key, key)
		return false
	case err != nil && !stream:
		return false
	case err != nil:
		if errors.Is(err, errRead) {
			_ = conn.Close()
		} else {
			// The server stopped reading; its answer may be on the way.
			_ = conn.SetReadDeadline(time.Now().Add(time.Second))
		}
		<-answered
		return false
	}
	p.journal.add(PassedOn, key, key)
	for range rule.Copies {
		p.running.Go(func() { p.deliverCopy(rule, key, r, kept.Bytes()) })
	}
	if !stream {
		p.cutAnswer(rule, key, r, client.conn, server)
		return false
	}
	return p.finish(client, server, late, key, r, answered, &answer)
}

// finish waits for the streamed answer's end, and meanwhile passes on that the client left.
func (p *Proxy) finish(client, server *tap, late bool, key string, r *http.Request, answered <-chan error, answer **http.Response) (again bool) {
	next := make(chan error, 1)
	p.running.Go(func() {
		_, err := client.br.Peek(1)
		next <- err
	})
	var err error
	select {
	case err = <-answered:
	case left := <-next:
		next <- left
		if left != nil && !late {
			_ = server.conn.Close()
		}
		err = <-answered
	}
	if err == nil {
		p.journal.add(Answered, key, key)
	}
	upgraded := err == nil && (*answer).StatusCode == http.StatusSwitchingProtocols
	if upgraded {
		p.running.Go(func() {
			_, _ = io.Copy(client.conn, server.br)
			_ = client.conn.Close()
		})
	}
	if err != nil || !upgraded && (r.Close || (*answer).Close) {
		_ = client.conn.Close()
		<-next
		return false
	}
	if upgraded {
		if <-next == nil {
			_, _ = io.Copy(server.conn, client.br)
		}
		return false
	}
	return p.setBusy(client.conn, false) && <-next == nil
}

// passAnswer passes the answer on, with the interim ones before it, and returns it without its body.
func passAnswer(server *tap, r *http.Request, client io.Writer) (*http.Response, error) {
	for {
		answer, err := http.ReadResponse(server.br, r)
		if err != nil {
			return nil, err
		}
		if answer.StatusCode >= 200 || answer.StatusCode == http.StatusSwitchingProtocols {
			err = server.pump(answer.Body, client, -1)
			return answer, err
		}
		if _, err := client.Write(server.taken()); err != nil {
			return nil, err
		}
	}
}

// cutAnswer lets the server answer and gives the client as much of it as the rule says.
func (p *Proxy) cutAnswer(rule Rule, key string, r *http.Request, client net.Conn, server *tap) {
	if rule.Cut == CutAfterUpload {
		_ = client.Close()
		p.journal.add(Cut, key, key)
	}
	var kept bytes.Buffer
	if _, err := passAnswer(server, r, &kept); err != nil {
		return
	}
	p.journal.add(Answered, key, key)
	if rule.Cut == CutAfterUpload {
		return
	}
	if rule.Cut == CutInAnswer {
		after := rule.After
		if after < 0 {
			after = max(0, int64(kept.Len())+after)
		}
		_, _ = client.Write(kept.Bytes()[:min(after, int64(kept.Len()))])
	}
	_ = client.Close()
	p.journal.add(Cut, key, key)
}

func (p *Proxy) deliverCopy(rule Rule, key string, r *http.Request, raw []byte) {
	if !wait(rule.CopyDelay, rule.CopyHold, p.closed) {
		return
	}
	conn, err := p.dial()
	if err != nil {
		return
	}
	defer p.forget(p.servers, conn)
	if _, err := conn.Write(raw); err != nil {
		return
	}
	p.journal.add(CopyPassedOn, key, key)
	if _, err := passAnswer(newTap(conn), r, io.Discard); err == nil {
		p.journal.add(CopyAnswered, key, key)
	}
}

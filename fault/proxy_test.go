package fault_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/einmal-dev/einmal/fault"
)

func startProxy(t *testing.T, target string) *fault.Proxy {
	t.Helper()
	p := &fault.Proxy{Target: strings.TrimPrefix(target, "http://")}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// between starts a partner that does not deduplicate, and a proxy in front of it.
func between(t *testing.T) (*fault.Proxy, *fault.Partner) {
	t.Helper()
	partner := &fault.Partner{Opaque: true}
	return startProxy(t, startPartner(t, partner)), partner
}

func TestProxyPassesTheVeryBytes(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	const request = "POST /x?a=%20b HTTP/1.1\r\nhost: h\r\niDEMPOTENCY-kEY:  k\r\nTransfer-Encoding: chunked\r\n\r\n3;ext=1\r\nabc\r\n0\r\nTrailer: t\r\n\r\n"
	const answer = "HTTP/1.1 103 Early Hints\r\nlink: a\r\n\r\nHTTP/1.1 299 Odd Reason\r\nx-LOWER: 1\r\nContent-Length: 2\r\n\r\nok"
	got := make(chan string, 2)
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			b := make([]byte, len(request))
			_, _ = io.ReadFull(conn, b)
			got <- string(b)
			_, _ = io.WriteString(conn, answer)
		}
	}()
	p := startProxy(t, listener.Addr().String())
	conn, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	for range 2 { // on one connection
		if _, err := io.WriteString(conn, request); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(request, <-got); diff != "" {
			t.Errorf("the server's bytes (-want +got):\n%s", diff)
		}
		b := make([]byte, len(answer))
		if _, err := io.ReadFull(conn, b); err != nil || string(b) != answer {
			t.Errorf("the client's bytes: %q, %v", b, err)
		}
	}
}

func TestProxyCutsTheAnswer(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		rule fault.Rule
		want string // what the client gets, "…" stands for the rest of the head
	}{
		{"all of it", fault.DropAnswer(), ""},
		{"after some bytes of the head", fault.CutAnswer(10), "HTTP/1.1 2"},
		{"before the last byte of the body", fault.CutAnswer(-1), `…{"id":"effect-1","ref":"k"`},
		{"after its end, so only the connection", fault.CutAnswer(1 << 20), `…{"id":"effect-1","ref":"k"}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p, partner := between(t)
			p.Then(tt.rule)
			conn, err := net.Dial("tcp", p.Addr())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.Close() }()
			if _, err := io.WriteString(conn, "POST / HTTP/1.1\r\nHost: h\r\nIdempotency-Key: k\r\nContent-Length: 3\r\n\r\npay"); err != nil {
				t.Fatal(err)
			}
			b, err := io.ReadAll(conn)
			got := string(b)
			if _, body, whole := strings.Cut(got, "\r\n\r\n"); whole {
				got = "…" + body
			}
			if got != tt.want || err != nil {
				t.Errorf("got %q, %v, want %q", got, err, tt.want)
			}
			if partner.Effects("k") != 1 {
				t.Errorf("%d effects, want 1", partner.Effects("k"))
			}
			mustAwait(t, p, fault.Cut, "k", 1)
		})
	}
}

func TestProxyCutsTheUpload(t *testing.T) {
	t.Parallel()
	for _, chunked := range []bool{false, true} {
		t.Run(fmt.Sprintf("chunked %v", chunked), func(t *testing.T) {
			t.Parallel()
			type upload struct {
				body string
				err  error
			}
			uploads := make(chan upload, 1)
			p := startProxy(t, serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				b, err := io.ReadAll(r.Body)
				uploads <- upload{string(b), err}
			})))
			p.Then(fault.CutUpload(4))
			var body io.Reader = strings.NewReader("pay 100")
			if chunked {
				body = io.MultiReader(body)
			}
			r, _ := http.NewRequestWithContext(testContext(t), http.MethodPost, p.URL(), body)
			r.GetBody = nil
			res, err := newClient(t).Do(r)
			if err == nil {
				_ = res.Body.Close()
				t.Errorf("the client got %d", res.StatusCode)
			}
			if got := <-uploads; got.body != "pay " || !errors.Is(got.err, io.ErrUnexpectedEOF) {
				t.Errorf("the server got %q, %v, want 4 bytes and an unexpected end", got.body, got.err)
			}
			mustAwait(t, p, fault.Cut, "", 1)
		})
	}
}

func TestProxyLeavesAfterTheUpload(t *testing.T) {
	t.Parallel()
	p, partner := between(t)
	gate := make(chan struct{})
	partner.Then(fault.Hang(gate))
	p.Then(fault.Leave())
	if got, err := post(testContext(t), newClient(t), p.URL(), "k", "pay"); err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the client got %+v, %v, want a cut connection", got, err)
	}
	mustAwait(t, partner, fault.Arrived, "k", 1)
	if partner.Total() != 0 || p.Count(fault.Answered, "") != 0 {
		t.Error("the client's error came after the server's answer")
	}
	close(gate)
	mustAwait(t, p, fault.Answered, "k", 1)
	if partner.Effects("k") != 1 {
		t.Errorf("%d effects, want 1", partner.Effects("k"))
	}
}

func TestProxyDeliversTwice(t *testing.T) {
	t.Parallel()
	p, partner := between(t)
	again := make(chan struct{})
	p.Then(fault.DeliverAgain(again))
	if got, err := post(testContext(t), newClient(t), p.URL(), "k", "pay"); err != nil || got.status != http.StatusCreated {
		t.Fatalf("got %+v, %v", got, err)
	}
	if partner.Effects("k") != 1 || p.Count(fault.CopyPassedOn, "") != 0 {
		t.Errorf("%d effects before the copy was let go", partner.Effects("k"))
	}
	close(again)
	mustAwait(t, p, fault.CopyAnswered, "k", 1)
	if partner.Effects("k") != 2 {
		t.Errorf("%d effects after the copy, want 2", partner.Effects("k"))
	}
	if list := partner.List(); string(list[1].Body) != "pay" {
		t.Errorf("the copy's body is %q", list[1].Body)
	}

	p.Then(fault.Rule{Copies: 2, Cut: fault.CutBeforeAnswer}, fault.DeliverTwice(time.Millisecond))
	if _, err := post(testContext(t), newClient(t), p.URL(), "l", "pay"); err == nil {
		t.Error("the client got an answer that was to be dropped")
	}
	mustAwait(t, p, fault.CopyAnswered, "l", 2)
	if _, err := post(testContext(t), newClient(t), p.URL(), "m", "pay"); err != nil {
		t.Error(err)
	}
	mustAwait(t, p, fault.CopyAnswered, "m", 1)
	if partner.Effects("l") != 3 || partner.Effects("m") != 2 {
		t.Errorf("%d and %d effects, want 3 and 2", partner.Effects("l"), partner.Effects("m"))
	}
}

func TestProxyHoldsBytesThatArriveAfterTheClientLeft(t *testing.T) {
	t.Parallel()
	p, partner := between(t)
	gate := make(chan struct{})
	p.Then(fault.HoldBack(gate))
	ctx, leave := context.WithCancel(testContext(t))
	left := make(chan struct{})
	go func() {
		_, _ = post(ctx, newClient(t), p.URL(), "k", "pay")
		close(left)
	}()
	mustAwait(t, p, fault.Arrived, "k", 1)
	leave()
	<-left
	if partner.Count(fault.Arrived, "") != 0 {
		t.Error("passed on while held")
	}
	close(gate)
	mustAwait(t, partner, fault.Effected, "k", 1)
}

func TestProxyDelays(t *testing.T) {
	t.Parallel()
	p, partner := between(t)
	p.Then(fault.Rule{Delay: 30 * time.Millisecond})
	began := time.Now()
	if got, err := post(testContext(t), newClient(t), p.URL(), "k", "pay"); err != nil || got.status != http.StatusCreated {
		t.Fatalf("got %+v, %v", got, err)
	}
	if late := partner.List()[0].At.Sub(began); late < 30*time.Millisecond {
		t.Errorf("the request arrived after %v, want 30ms", late)
	}
}

func TestProxyRefusesConnections(t *testing.T) {
	t.Parallel()
	p, partner := between(t)
	idle, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = idle.Close() }()
	_ = idle.SetDeadline(time.Now().Add(10 * time.Second))
	_, _ = io.WriteString(idle, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\npay")
	br := bufio.NewReader(idle)
	res, err := http.ReadResponse(br, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, res.Body)
	client, addr := newClient(t), p.Addr()
	p.Refuse()
	p.Refuse()
	if _, err := br.ReadByte(); err != io.EOF {
		t.Errorf("the idle connection: %v, want it cut", err)
	}
	if _, err := post(testContext(t), client, p.URL(), "", "pay"); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("got %v, want connection refused", err)
	}
	if err := p.Accept(); err != nil {
		t.Fatal(err)
	}
	if _, err := post(testContext(t), client, "http://"+addr, "", "pay"); err != nil || partner.Total() != 2 {
		t.Errorf("after Accept: %v, %d effects, want 2", err, partner.Total())
	}
}

func TestProxyRefusingSparesARequestUnderWay(t *testing.T) {
	t.Parallel()
	p, partner := between(t)
	gate := make(chan struct{})
	partner.Then(fault.Hang(gate))
	got := make(chan seen, 1)
	go func() {
		s, _ := post(testContext(t), newClient(t), p.URL(), "k", "pay")
		got <- s
	}()
	mustAwait(t, partner, fault.Arrived, "k", 1)
	p.Refuse()
	close(gate)
	if s := <-got; s.status != http.StatusCreated {
		t.Errorf("got %+v, want 201", s)
	}
}

func TestProxyRulesAreForWritesAndByKey(t *testing.T) {
	t.Parallel()
	p, _ := between(t)
	p.Then(fault.DropAnswer())
	p.ThenFor("b", fault.CutAnswer(3))
	res, err := newClient(t).Get(p.URL())
	if err != nil {
		t.Fatalf("a GET took the rule: %v", err)
	}
	_ = res.Body.Close()
	for _, key := range []string{"b", "a"} {
		_, _ = post(testContext(t), newClient(t), p.URL(), key, "pay")
		mustAwait(t, p, fault.Cut, key, 1)
	}
	if _, err := post(testContext(t), newClient(t), p.URL(), "c", "pay"); err != nil {
		t.Errorf("the third write took a rule: %v", err)
	}
	p.Always(fault.DropAnswer())
	if _, err := post(testContext(t), newClient(t), p.URL(), "c", "pay"); err == nil {
		t.Error("Always is not the rule")
	}
}

func TestProxyGoesToAnotherServer(t *testing.T) {
	t.Parallel()
	p, first := between(t)
	var second fault.Partner
	client := newClient(t)
	_, err1 := post(testContext(t), client, p.URL(), "k", "pay")
	p.Retarget(strings.TrimPrefix(startPartner(t, &second), "http://"))
	_, err2 := post(testContext(t), client, p.URL(), "k", "pay")
	if err1 != nil || err2 != nil || first.Total() != 1 || second.Total() != 1 {
		t.Errorf("%v, %v, %d and %d effects, want 1 and 1", err1, err2, first.Total(), second.Total())
	}
}

func TestProxyTellsTheServerThatTheClientLeft(t *testing.T) {
	t.Parallel()
	arrived, gone := make(chan struct{}), make(chan struct{})
	p := startProxy(t, serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		close(arrived)
		<-r.Context().Done()
		close(gone)
	})))
	ctx, leave := context.WithCancel(testContext(t))
	go func() { _, _ = post(ctx, newClient(t), p.URL(), "k", "pay") }()
	<-arrived
	leave()
	select {
	case <-gone:
	case <-testContext(t).Done():
		t.Fatal("the server was not told")
	}
}

func TestProxyStreamsBothWays(t *testing.T) {
	t.Parallel()
	p := startProxy(t, serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Reads, so that 100 Continue is sent, and answers line by line before the upload ends.
		control := http.NewResponseController(w)
		_ = control.EnableFullDuplex()
		for lines := bufio.NewScanner(r.Body); lines.Scan(); {
			_, _ = fmt.Fprintln(w, strings.ToUpper(lines.Text()))
			_ = control.Flush()
		}
	})))
	body, upload := io.Pipe()
	r, _ := http.NewRequestWithContext(testContext(t), http.MethodPost, p.URL(), body)
	r.Header.Set("Expect", "100-continue")
	client := &http.Client{Transport: &http.Transport{ExpectContinueTimeout: time.Hour}}
	defer client.CloseIdleConnections()
	go func() { _, _ = io.WriteString(upload, "a\n") }()
	res, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	lines := bufio.NewReader(res.Body)
	first, err1 := lines.ReadString('\n')
	_, _ = io.WriteString(upload, "b\n")
	second, err2 := lines.ReadString('\n')
	_ = upload.Close()
	rest, err3 := io.ReadAll(lines)
	if first != "A\n" || second != "B\n" || len(rest) != 0 || err1 != nil || err2 != nil || err3 != nil {
		t.Errorf("got %q %q %q, %v %v %v", first, second, rest, err1, err2, err3)
	}
}

func TestProxyPassesAnUpgrade(t *testing.T) {
	t.Parallel()
	p := startProxy(t, serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = conn.Close() }()
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: echo\r\nConnection: Upgrade\r\n\r\n")
		_, _ = io.Copy(conn, rw)
	})))
	conn, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: h\r\nUpgrade: echo\r\nConnection: Upgrade\r\n\r\n")
	br := bufio.NewReader(conn)
	res, err := http.ReadResponse(br, nil)
	if err != nil || res.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("got %v, %v", res, err)
	}
	for _, line := range []string{"one\n", "two\n"} {
		_, _ = io.WriteString(conn, line)
		if got, err := br.ReadString('\n'); got != line || err != nil {
			t.Errorf("got %q, %v, want %q", got, err, line)
		}
	}
}

func TestProxyPassesAnEarlyAnswer(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	go func() {
		conn, err := listener.Accept()
		if err == nil {
			_, _ = io.WriteString(conn, "HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
		}
	}()
	p := startProxy(t, listener.Addr().String())
	body, upload := io.Pipe()
	defer func() { _ = upload.Close() }()
	r, _ := http.NewRequestWithContext(testContext(t), http.MethodPost, p.URL(), body)
	res, err := newClient(t).Do(r)
	if err != nil || res.StatusCode != http.StatusRequestEntityTooLarge {
		t.Fatalf("got %v, %v, want 413 while the upload goes on", res, err)
	}
	_ = res.Body.Close()
}

func TestProxyCloseCutsWhatIsHeld(t *testing.T) {
	t.Parallel()
	p, partner := between(t)
	p.Then(fault.HoldBack(make(chan struct{})))
	cut := make(chan error, 1)
	go func() {
		_, err := post(testContext(t), newClient(t), p.URL(), "k", "pay")
		cut <- err
	}()
	mustAwait(t, p, fault.Arrived, "k", 1)
	p.Close()
	p.Close()
	if err := <-cut; err == nil || partner.Total() != 0 {
		t.Errorf("got %v, %d effects", err, partner.Total())
	}
}

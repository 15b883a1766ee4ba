package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/einmal-dev/einmal/contract"
)

// request is what a client sends.
type request struct {
	who   string // whose token
	path  string
	key   string
	cents int64
	wait  int // seconds of "Prefer: wait"
}

// ref is what the partner knows the request's payment by.
func (r *request) ref() string { return people[r.who].Tenant + "/" + r.key }

// answer is what a client got.
type answer struct {
	status int
	header http.Header
	body   []byte
	err    error // no answer
}

func (a *answer) replayed() bool { return a.header.Get(contract.HeaderReplayed) == "true" }

// problem is the last part of a problem's type, "" for any other answer.
func (a *answer) problem() string {
	if _, kind, ok := bytes.Cut([]byte(a.field("type")), []byte("#")); ok {
		return string(kind)
	}
	return ""
}

// next is what a problem says to do.
func (a *answer) next() contract.Next { return contract.Next(a.field("next")) }

func (a *answer) field(name string) string {
	var doc map[string]any
	if a.header.Get("Content-Type") != "application/problem+json" || json.Unmarshal(a.body, &doc) != nil {
		return ""
	}
	s, _ := doc[name].(string)
	return s
}

func (a *answer) retryAfter() time.Duration {
	n, _ := strconv.Atoi(a.header.Get("Retry-After"))
	return time.Duration(n) * time.Second
}

// String is the answer as the diagram shows it.
func (a *answer) String() string {
	switch {
	case a.err != nil:
		return "no answer"
	case a.problem() != "":
		return fmt.Sprintf("%d %s", a.status, a.problem())
	case a.replayed():
		return fmt.Sprintf("%d, replayed", a.status)
	}
	var o order
	if json.Unmarshal(a.body, &o) == nil && o.Payment > 0 {
		return fmt.Sprintf("%d, payment %d", a.status, o.Payment)
	}
	return strconv.Itoa(a.status)
}

// send sends a request, on a connection of its own, while the scene goes on.
func (s *scene) send(r request) <-chan answer {
	s.requests++
	got := make(chan answer, 1)
	go func() {
		transport := &http.Transport{DisableKeepAlives: true}
		defer transport.CloseIdleConnections()
		got <- exchange(s.ctx, &http.Client{Transport: transport}, s.proxy.URL(), r)
	}()
	return got
}

func exchange(ctx context.Context, client *http.Client, base string, r request) answer {
	req, err := newWrite(ctx, base+r.path, r.key, order{Order: r.key, Cents: r.cents})
	if err != nil {
		return answer{err: err}
	}
	req.Header.Set("Authorization", "Bearer "+r.who)
	if r.wait > 0 {
		req.Header.Set("Prefer", "wait="+strconv.Itoa(r.wait))
	}
	resp, err := client.Do(req)
	if err != nil {
		return answer{err: err}
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return answer{status: resp.StatusCode, header: resp.Header, body: body, err: err}
}

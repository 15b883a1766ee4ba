package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"
)

// httpConn is the least of an HTTP/1.1 client, so that its own cost weighs little on the shared cores: one request at a time, nothing is allocated.
type httpConn struct {
	c net.Conn
	r *bufio.Reader
}

func dialHTTP(addr string) (*httpConn, error) {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	return &httpConn{c, bufio.NewReaderSize(c, 8<<10)}, nil
}

var (
	lengthField = []byte("Content-Length: ")
	lineEnd     = []byte("\r\n")
)

// do sends a request and reads the answer, which must have a Content-Length.
func (c *httpConn) do(request []byte) (status int, err error) {
	if _, err = c.c.Write(request); err != nil {
		return 0, err
	}
	line, err := c.r.ReadSlice('\n')
	if err != nil || len(line) < 12 {
		return 0, fmt.Errorf("status line %q: %w", line, err)
	}
	if status, err = strconv.Atoi(string(line[9:12])); err != nil {
		return 0, err
	}
	length := -1
	for {
		if line, err = c.r.ReadSlice('\n'); err != nil {
			return 0, err
		}
		if bytes.Equal(line, lineEnd) {
			break
		}
		if value, ok := bytes.CutPrefix(line, lengthField); ok {
			if length, err = strconv.Atoi(string(bytes.TrimRight(value, "\r\n"))); err != nil {
				return 0, err
			}
		}
	}
	if length < 0 {
		return 0, fmt.Errorf("an answer %d without Content-Length", status)
	}
	_, err = c.r.Discard(length)
	return status, err
}

// httpRequest is a POST whose key is patched in place.
type httpRequest struct {
	bytes []byte
	key   []byte // of 36 bytes inside of bytes; nil where the request has none
}

const requestBody = `{"customer":"3f1c2b9e-7a64-4c0e-9b51-2f6d8e0a7c11","items":[{"sku":"A-1017","quantity":2},{"sku":"B-9","quantity":1}],"currency":"EUR","amount":4210}`

func newRequest(path string, withKey bool) *httpRequest {
	head := "POST " + path + " HTTP/1.1\r\nHost: api.example.com\r\nUser-Agent: bench\r\nContent-Type: application/json\r\n"
	if withKey {
		head += "Idempotency-Key: "
	}
	q := &httpRequest{}
	rest := "\r\nX-User: user-1017\r\nContent-Length: " + strconv.Itoa(len(requestBody)) + "\r\n\r\n" + requestBody
	if !withKey {
		q.bytes = []byte(head + rest[2:])
		return q
	}
	q.bytes = []byte(head + "00000000-0000-4000-8000-000000000000" + rest)
	q.key = q.bytes[len(head) : len(head)+36]
	return q
}

// setKey names the n-th operation of a connection.
func (q *httpRequest) setKey(conn, n int) {
	const digits = "0123456789abcdef"
	for i := range 8 {
		q.key[7-i] = digits[conn>>(4*i)&15]
	}
	for i := range 12 {
		q.key[35-i] = digits[n>>(4*i)&15]
	}
}

// load is what connections do at the same time, and what came of it.
type load struct {
	perSecond float64
	p50, p99  time.Duration
}

// drive has connections send one request after the other for a while. next prepares the n-th request of a connection, and want is every answer's status.
func drive(addr string, connections int, length time.Duration, want int, next func(conn, n int) []byte) (load, error) {
	conns := make([]*httpConn, connections)
	for i := range conns {
		c, err := dialHTTP(addr)
		if err != nil {
			return load{}, err
		}
		defer c.c.Close()
		conns[i] = c
	}
	var (
		wg     sync.WaitGroup
		mu     sync.Mutex
		all    []time.Duration
		failed error
	)
	start := time.Now()
	for i, c := range conns {
		wg.Go(func() {
			took := make([]time.Duration, 0, 1<<14)
			var err error
			for n, before := 0, start; before.Sub(start) < length; n++ {
				status := 0
				if status, err = c.do(next(i, n)); err != nil {
					break
				}
				if status != want {
					err = fmt.Errorf("an answer %d instead of %d", status, want)
					break
				}
				now := time.Now()
				took, before = append(took, now.Sub(before)), now
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, took...)
			if err != nil && err != io.EOF {
				failed = err
			}
		})
	}
	wg.Wait()
	took := time.Since(start)
	if failed != nil {
		return load{}, failed
	}
	slices.Sort(all)
	return load{float64(len(all)) / took.Seconds(), all[len(all)/2], all[len(all)*99/100]}, nil
}

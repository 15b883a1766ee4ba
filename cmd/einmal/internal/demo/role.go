package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"time"
)

// message is a line that a child writes to its standard output.
type message struct {
	Ready string `json:"ready,omitempty"` // the address it listens on; its first line
	Event *event `json:"event,omitempty"`
}

// event is one of the engine's, as the shop saw it.
type event struct {
	Name      string `json:"name"`
	Operation string `json:"operation,omitempty"`
	Tenant    string `json:"tenant,omitempty"`
	Key       string `json:"key,omitempty"`
	ID        string `json:"id,omitempty"`
	Attempt   int    `json:"attempt,omitempty"`
	Reason    string `json:"reason,omitempty"`
}

// reporter writes messages, one a line.
type reporter struct {
	mu  sync.Mutex
	enc *json.Encoder
}

func newReporter(w io.Writer) *reporter { return &reporter{enc: json.NewEncoder(w)} }

func (r *reporter) report(m message) {
	r.mu.Lock()
	defer r.mu.Unlock()
	_ = r.enc.Encode(m) // without the demo there is nobody to report to
}

// untilParentLeaves ends when the demo closes the child's standard input, or dies.
func untilParentLeaves(ctx context.Context, stdin io.Reader) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		_, _ = io.Copy(io.Discard, stdin)
		cancel()
	}()
	return ctx, cancel
}

// serve listens on a free port, reports it, and serves until ctx ends.
func serve(ctx context.Context, handler http.Handler, rep *reporter) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	rep.report(message{Ready: listener.Addr().String()})
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	stopping, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := server.Shutdown(stopping); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return nil
}

// Child is what both children of the demo get.
type Child struct {
	Stdin  io.Reader
	Stdout io.Writer
}

// StdChild is a child on the process's own streams.
func StdChild() Child { return Child{Stdin: os.Stdin, Stdout: os.Stdout} }

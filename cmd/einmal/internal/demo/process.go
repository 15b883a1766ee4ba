package demo

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"
)

// process is a child of the demo: this very program under another name.
type process struct {
	name   string
	cmd    *exec.Cmd
	stdin  io.Closer
	addr   string
	seen   *sightings
	exited chan struct{}
	log    *os.File
}

// start starts a child and returns when it listens. Its events go to seen; what it logs, to a file in the demo's folder.
func (d *demo) start(ctx context.Context, name string, args ...string) (*process, error) {
	logFile, err := os.OpenFile(d.path(name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	p := &process{name: name, seen: d.seen, exited: make(chan struct{}), log: logFile}
	p.cmd = exec.Command(d.exe, append([]string{"demo-" + name}, args...)...)
	p.cmd.Stderr, p.cmd.SysProcAttr = logFile, childAttr()
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting the %s: %w", name, err)
	}
	ready := make(chan string, 1)
	go p.listen(stdout, ready)
	select {
	case addr, ok := <-ready:
		if !ok {
			return nil, fmt.Errorf("the %s did not start; see %s", name, logFile.Name())
		}
		p.addr = addr
		return p, nil
	case <-ctx.Done():
		p.kill()
		return nil, fmt.Errorf("the %s did not start: %w", name, context.Cause(ctx))
	}
}

// listen takes the child's messages until it ends.
func (p *process) listen(stdout io.Reader, ready chan<- string) {
	lines := bufio.NewScanner(stdout)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var m message
		if json.Unmarshal(lines.Bytes(), &m) != nil {
			continue
		}
		if m.Ready != "" {
			ready <- m.Ready
		}
		if m.Event != nil {
			p.seen.add(*m.Event)
		}
	}
	close(ready)
	_ = p.cmd.Wait()
	_ = p.log.Close()
	close(p.exited)
}

// kill is kill -9, and returns when the process is gone.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.exited
}

// stop lets the child end in order, and kills it if it does not.
func (p *process) stop() {
	_ = p.stdin.Close()
	select {
	case <-p.exited:
	case <-time.After(3 * time.Second):
		p.kill()
	}
}

// sightings are the server's events, each of which is awaited at most once.
type sightings struct {
	mu      sync.Mutex
	events  []event
	changed chan struct{}
	watch   func(event) // instead of keeping them
}

func newSightings() *sightings { return &sightings{changed: make(chan struct{})} }

func (s *sightings) add(e event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.watch != nil {
		s.watch(e)
		return
	}
	s.events = append(s.events, e)
	close(s.changed)
	s.changed = make(chan struct{})
}

// take waits for an event about a key and takes it out. A refusal that tells nothing of its operation is about any key.
func (s *sightings) take(ctx context.Context, key string, wanted func(event) bool) (event, error) {
	for {
		s.mu.Lock()
		for i, e := range s.events {
			if (e.Key == key || e.Key == "") && wanted(e) {
				s.events = append(s.events[:i], s.events[i+1:]...)
				s.mu.Unlock()
				return e, nil
			}
		}
		changed := s.changed
		s.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return event{}, context.Cause(ctx)
		}
	}
}

// show hands every event from now on to watch.
func (s *sightings) show(watch func(event)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watch = watch
}

// clear forgets what a scene did not ask for.
func (s *sightings) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = nil
}

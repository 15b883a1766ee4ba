package main_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/einmal-dev/einmal"
	"github.com/einmal-dev/einmal/sqlitestore"
)

// server is an engine at work on a store, in this process, while the tests run commands on the same store in another.
type server struct {
	t      *testing.T
	dir    string
	engine *einmal.Engine
	op     *einmal.Op
	events chan einmal.Event
}

const owner = "shop@example.com"

func newServer(t *testing.T, p einmal.Policy) *server {
	t.Helper()
	s := &server{t: t, dir: t.TempDir(), events: make(chan einmal.Event, 100)}
	store, err := sqlitestore.Create(t.Context(), filepath.Join(s.dir, "orders.db"), sqlitestore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s.engine, err = einmal.New(einmal.Config{
		Store: store, Poll: 10 * time.Millisecond, Log: slog.New(slog.DiscardHandler),
		Observe: func(_ context.Context, ev einmal.Event) { s.events <- ev },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := s.engine.Close(ctx); err != nil {
			t.Errorf("closing the engine: %v", err)
		}
		if err := store.Close(); err != nil {
			t.Errorf("closing the store: %v", err)
		}
	})
	p.Name, p.Owner = "create-order", owner
	s.op = s.engine.Define(p)
	return s
}

// order runs an order that ends as the handler says, and returns its ID.
func (s *server) order(key string, handler func(context.Context) einmal.Ending) (einmal.Outcome, error) {
	req := einmal.Request{Caller: einmal.Caller{Tenant: "acme", Principal: "alice"}, Key: key}
	return s.engine.Run(s.t.Context(), s.op, req, handler)
}

// unclear makes an unclear operation whose attempt has spoken, and returns its ID.
func (s *server) unclear(key string) string {
	s.t.Helper()
	out, err := s.order(key, func(context.Context) einmal.Ending {
		return einmal.Ending{End: einmal.EndOpen, Reason: "connection\x1b[31m lost"}
	})
	if err != nil || out.Operation.State != einmal.StateUnclear {
		s.t.Fatalf("the order is %v, %v, want unclear", out.Operation.State, err)
	}
	return out.Operation.ID
}

// einmal runs a command on the server's store.
func (s *server) einmal(args ...string) result {
	s.t.Helper()
	cmd := command(s.t, einmalPath, s.dir, args...)
	cmd.Env = append(cmd.Env, "EINMAL_STORE=sqlite:orders.db")
	return run(s.t, cmd)
}

// want runs a command and checks its exit code and what it prints, on standard output if the code is 0, else on standard error.
func (s *server) want(code int, words []string, args ...string) string {
	s.t.Helper()
	got := s.einmal(args...)
	text, other := got.stdout, got.stderr
	if code != 0 {
		text = got.stderr
		other = ""
	}
	text = strings.ReplaceAll(text, " \\\n    ", " ") // a command of more than one line
	if got.code != code || other != "" {
		s.t.Fatalf("einmal %s: exit code %d, want %d\n%s%s", strings.Join(args, " "), got.code, code, got.stdout, got.stderr)
	}
	for _, word := range words {
		if !strings.Contains(text, word) {
			s.t.Errorf("einmal %s: no %q in\n%s", strings.Join(args, " "), word, text)
		}
	}
	if strings.Contains(got.stdout+got.stderr, "\x1b") {
		s.t.Errorf("einmal %s: an escape sequence in %q", strings.Join(args, " "), got.stdout+got.stderr)
	}
	return text
}

func TestAnUnclearOperationIsListedShownAndResolvedAsApplied(t *testing.T) {
	t.Parallel()
	s := newServer(t, einmal.Policy{})
	s.want(0, []string{"no open operations"}, "operations", "list")
	narrow := command(t, einmalPath, s.dir, "operations", "list", "--store", "sqlite:orders.db")
	narrow.Env = append(narrow.Env, "COLUMNS=60")
	if got := run(t, narrow).stdout; strings.Index(got, "\n") > 60 {
		t.Errorf("in 60 columns: %q", got)
	}
	id := s.unclear("order-1")
	s.want(0, []string{id, "unclear", "create-order", "acme", "order-1", owner, "1 operation is unclear", "operations show " + id}, "operations", "list")
	byID := s.want(0, []string{
		"unclear since", "It is not repeated on its own", "409 outcome-unclear", "alice", "create-order (opaque)", "version      2",
		"1  open  attempt  yes   it has ended", "running → unclear", `open: connection\x1b[31m lost`, "resolve " + id + " --version 2", "applied also needs --result-unknown",
	}, "operations", "show", id)
	byIdentity := s.want(0, nil, "operations", "show", "--operation", "create-order", "--key", "order-1", "--tenant", "acme")
	if cut := func(text string) string { return text[:strings.Index(text, "unclear since")] }; cut(byID) != cut(byIdentity) {
		t.Errorf("shown by ID and by identity:\n%s\n%s", byID, byIdentity)
	}

	answer := filepath.Join(s.dir, "answer.json")
	if err := os.WriteFile(answer, []byte(`{"order":1}`), 0o600); err != nil {
		t.Fatal(err)
	}
	s.want(0, []string{id, "tenant acme, key order-1", "unclear since", "version 2", "completed: it happened", "payment 812, by carol", "version 3", "201 with Idempotent-Replayed: true"},
		"operations", "resolve", id, "--version", "2", "--as", "applied", "--result", answer, "--status", "201", "--header", "content-type: application/json",
		"--reason", "payment 812", "--actor", "carol", "--link", "https://tickets.example.com/4711")
	out, err := s.order("order-1", func(context.Context) einmal.Ending { panic("ran again") })
	if err != nil {
		t.Fatal(err)
	}
	want := &einmal.Result{Status: 201, Header: []einmal.Field{{Name: "Content-Type", Value: "application/json"}}, Body: []byte(`{"order":1}`)}
	if diff := cmp.Diff(want, out.Operation.Result); diff != "" {
		t.Errorf("the caller gets (-want +got):\n%s", diff)
	}

	s.want(0, []string{"completed since", "201, 11 bytes", "Content-Type: application/json", "resolved", "carol", "applied: payment 812", "https://tickets.example.com/4711"},
		"operations", "show", id)
	if text := s.want(0, []string{`{"order":1}`}, "operations", "show", id, "--body"); strings.Contains(text, "operations resolve") {
		t.Errorf("advice about a settled operation in\n%s", text)
	}
	s.want(1, []string{"it is completed", "a settled operation never changes"}, "operations", "resolve", id, "--version", "3", "--as", "withdrawn", "--reason", "x")
	s.want(0, []string{"no open operations"}, "operations", "list")
	s.want(0, []string{id, "completed"}, "operations", "list", "--state", "all")
}

func TestResolveHasOtherWaysToo(t *testing.T) {
	t.Parallel()
	s := newServer(t, einmal.Policy{})
	unknown, notApplied, withdrawn := s.unclear("unknown"), s.unclear("not-applied"), s.unclear("withdrawn")
	s.want(0, []string{"an answer that is not known", "303 to the operation's status resource"},
		"operations", "resolve", unknown, "--version", "2", "--as", "applied", "--result-unknown", "--reason", "it is in their list")
	s.want(0, []string{"may run again", "the operation runs again"},
		"operations", "resolve", "--operation", "create-order", "--key", "not-applied", "--tenant", "acme", "--version", "2", "--as", "not-applied", "--reason", "it is not in their list")
	s.want(0, []string{"shall not", "410 withdrawn"}, "operations", "resolve", withdrawn, "--version", "2", "--as", "withdrawn", "--reason", "customer gave up")

	ran := false
	if _, err := s.order("not-applied", func(context.Context) einmal.Ending {
		ran = true
		return einmal.Ending{End: einmal.EndSuccess, Result: &einmal.Result{Status: 200}}
	}); err != nil || !ran {
		t.Errorf("the next request: %v, ran %t", err, ran)
	}
	s.want(0, []string{"1  no_effect  person", "2  success    attempt", "not_applied → running", "not-applied: it is not in their list"}, "operations", "show", notApplied)
}

// Two people look at an unclear operation. One settles it, its client sends it again, and that attempt pays and is unclear too. What the other says is
// about an attempt that he never saw.
func TestWhatChangedSinceAPersonLookedIsNotSettled(t *testing.T) {
	t.Parallel()
	s := newServer(t, einmal.Policy{})
	id := s.unclear("order-1")
	s.want(3, []string{"--version", "einmal operations show " + id}, "operations", "resolve", id, "--as", "not-applied", "--reason", "no such payment")
	s.want(3, []string{"einmal operations show --operation create-order --key order-1 --tenant 'a b'"},
		"operations", "resolve", "--operation", "create-order", "--key", "order-1", "--tenant", "a b", "--as", "not-applied", "--reason", "no such payment")
	s.want(0, nil, "operations", "resolve", id, "--version", "2", "--as", "not-applied", "--reason", "no such payment", "--actor", "anna", "--link", "ticket 7")
	if again := s.unclear("order-1"); again != id {
		t.Fatalf("the second request made %s, not %s", again, id)
	}
	text := s.want(1, []string{
		"has changed since version 2", "is unclear at version 5 now", "anna", "not-applied: no such payment", "ticket 7", "not_applied → running", "attempt 2", "running → unclear",
		"einmal operations show " + id,
	}, "operations", "resolve", id, "--version", "2", "--as", "not-applied", "--reason", "no such payment", "--actor", "bert")
	if strings.Contains(text, "attempt 1") || strings.Contains(text, "reserved") {
		t.Errorf("what was there at version 2 is told as a change:\n%s", text)
	}
	text = s.want(1, nil, "operations", "resolve", id, "--version", "4", "--as", "withdrawn", "--reason", "x")
	if strings.Contains(text, "anna") || !strings.Contains(text, "running → unclear") {
		t.Errorf("since version 4 it became unclear, and nothing else happened:\n%s", text)
	}
	s.want(1, []string{"has no version 9 yet: it is unclear at version 5"}, "operations", "resolve", id, "--version", "9", "--as", "withdrawn", "--reason", "x")
	s.want(0, []string{"resolve " + id + " --version 5"}, "operations", "show", id)
}

// Whoever copies a command from what another one printed gets the same store.
func TestHintsNameTheStoreThatTheCommandNamed(t *testing.T) {
	t.Parallel()
	s := newServer(t, einmal.Policy{})
	id := s.unclear("order-1")
	elsewhere := "sqlite:" + filepath.Join(s.dir, "orders.db")
	for _, args := range [][]string{
		{"operations", "list"},
		{"operations", "show", id},
		{"operations", "list", "--limit", "1"},
		{"operations", "resolve", id, "--as", "withdrawn", "--reason", "x"},
		{"operations", "resolve", id, "--version", "1", "--as", "withdrawn", "--reason", "x"},
	} {
		bare, named := s.einmal(args...), s.einmal(append(args, "--store", elsewhere)...)
		if text := bare.stdout + bare.stderr; strings.Contains(text, "--store") {
			t.Errorf("%v: the environment names the store, and still:\n%s", args, text)
		}
		if text := strings.ReplaceAll(named.stdout+named.stderr, "\\\n    ", ""); !strings.Contains(text, "--store "+elsewhere) {
			t.Errorf("%v: no --store in\n%s", args, text)
		}
	}
}

// An attempt that lost its lease, in a process that is alive, could still cause the effect.
func TestNotAppliedIsRefusedWhileAnAttemptIsNotProvablyOver(t *testing.T) {
	t.Parallel()
	s := newServer(t, einmal.Policy{Deadline: 500 * time.Millisecond, Lease: 50 * time.Millisecond})
	gate, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		_, _ = s.order("order-1", func(context.Context) einmal.Ending {
			<-gate // deaf to its context
			return einmal.Ending{End: einmal.EndNoEffect}
		})
	}()
	var id string
	for id == "" {
		select {
		case ev := <-s.events:
			if ev.Name == einmal.EventUnclear {
				id = ev.Operation.ID
			}
		case <-done:
			t.Fatal("the attempt ended before it was unclear")
		}
	}
	s.want(0, []string{"1  unknown  recovery  no    its process is alive"}, "operations", "show", id)
	s.want(1, []string{"attempt 1 is not provably over (its process is alive)", "--accept-live"},
		"operations", "resolve", id, "--version", "2", "--as", "not-applied", "--reason", "asked the partner")
	s.want(0, []string{"✓ resolved"}, "operations", "resolve", id, "--version", "2", "--as", "not-applied", "--reason", "asked the partner", "--accept-live")
	close(gate)
	<-done
}

func TestOperationsAreFilteredAndPaged(t *testing.T) {
	t.Parallel()
	s := newServer(t, einmal.Policy{})
	var ids []string
	for i := range 3 {
		ids = append(ids, s.unclear(fmt.Sprint("order-", i)))
	}
	list := func(args ...string) (found []string, next string) {
		t.Helper()
		text := s.want(0, nil, append([]string{"operations", "list", "--json"}, args...)...)
		var doc struct {
			Operations []struct{ ID, State, Since string }
			Next       string
		}
		if err := json.Unmarshal([]byte(text), &doc); err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		for _, op := range doc.Operations {
			if _, err := time.Parse(time.RFC3339Nano, op.Since); err != nil || op.State != "unclear" {
				t.Errorf("listed as %+v, %v", op, err)
			}
			found = append(found, op.ID)
		}
		return found, doc.Next
	}
	first, next := list("--limit", "2")
	rest, end := list("--limit", "2", "--after", next)
	if diff := cmp.Diff(ids, append(first, rest...)); diff != "" || len(first) != 2 || end != "" {
		t.Errorf("two pages, oldest first, then %q (-want +got):\n%s", end, diff)
	}
	s.want(0, []string{"There are more:  --after " + next, "2 operations are unclear"}, "operations", "list", "--limit", "2")
	for _, tt := range []struct {
		args []string
		n    int
	}{
		{[]string{"--state", "unclear", "--state", "running"}, 3},
		{[]string{"--state", "completed,not-applied"}, 0},
		{[]string{"--tenant", "acme", "--operation", "create-order", "--owner", owner}, 3},
		{[]string{"--tenant", "globex"}, 0},
		{[]string{"--tenant", ""}, 0},
		{[]string{"--operation", "create"}, 0},
		{[]string{"--owner", "nobody"}, 0},
		{[]string{"--older-than", "1h"}, 0},
		{[]string{"--attention"}, 0},
	} {
		if got, _ := list(tt.args...); len(got) != tt.n {
			t.Errorf("list %v has %d operations, want %d", tt.args, len(got), tt.n)
		}
	}
}

func TestShowJSONHasEverything(t *testing.T) {
	t.Parallel()
	s := newServer(t, einmal.Policy{Effect: einmal.Keyed(time.Hour)})
	out, err := s.order("order-1", func(context.Context) einmal.Ending {
		return einmal.Ending{End: einmal.EndSuccess, Result: &einmal.Result{Status: 201, Header: []einmal.Field{{Name: "Etag", Value: `"1"`}}, Body: []byte("<ok>")}}
	})
	if err != nil {
		t.Fatal(err)
	}
	var doc map[string]any
	if err := json.Unmarshal([]byte(s.want(0, nil, "operations", "show", out.Operation.ID, "--json", "--body")), &doc); err != nil {
		t.Fatal(err)
	}
	for _, when := range []string{"created", "since", "now", "recognised_until", "partner_window_until"} {
		if text, _ := doc[when].(string); text == "" {
			t.Errorf("no %s", when)
		}
		delete(doc, when)
	}
	for _, entry := range doc["timeline"].([]any) {
		delete(entry.(map[string]any), "at")
	}
	want := map[string]any{
		"id": out.Operation.ID, "tenant": "acme", "operation": "create-order", "key": "order-1", "principal": "alice",
		"state": "completed", "verdict": "applied", "effect": "keyed", "owner": owner, "partner_key": out.Operation.PartnerKey,
		"means": "The effect happened, and its answer is stored.", "callers_get": "the stored answer, 201 with Idempotent-Replayed: true, and nothing runs.",
		"attempt": 1.0, "version": 2.0, "may_run_again": false, "attention": false, "escalations": 0.0,
		"attempts": []any{map[string]any{"attempt": 1.0, "end": "success", "by": "attempt", "over": true, "why": "it has ended"}},
		"result":   map[string]any{"status": 201.0, "kept": "whole", "size_bytes": 4.0, "header": []any{[]any{"Etag", `"1"`}}, "body": "<ok>"},
		"timeline": []any{
			map[string]any{"event": "reserved", "to": "running", "attempt": 1.0, "actor": "attempt"},
			map[string]any{"event": "completed", "from": "running", "to": "completed", "attempt": 1.0, "actor": "attempt", "reason": "applied"},
		},
	}
	if diff := cmp.Diff(want, doc); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

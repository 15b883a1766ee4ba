// Victim runs one operation against a partner, by one caller or by several at once, and says how it ended for each. A test kills it at every crash
// point (go build -tags crashpoints).
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/einmal-dev/einmal"
	"github.com/einmal-dev/einmal/contract"
	"github.com/einmal-dev/einmal/sqlitestore"
)

// Report is a line of the victim's: a caller's end, or, with Waits, that a caller met the first "in-progress".
type Report struct {
	Answer  string `json:"answer,omitempty"`
	Problem string `json:"problem,omitempty"`
	Next    string `json:"next,omitempty"`
	Ran     int    `json:"ran"` // attempts of this caller
	Waits   bool   `json:"waits,omitempty"`
}

func main() {
	path := flag.String("store", "", "SQLite file")
	class := flag.String("class", "opaque", "opaque or keyed")
	partner := flag.String("partner", "", "the partner's URL")
	key := flag.String("key", "", "the operation's key")
	callers := flag.Int("callers", 1, "how many call at once")
	lease := flag.Duration("lease", 100*time.Millisecond, "the operation's lease")
	flag.Parse()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := run(ctx, *path, *class, *partner, *key, *callers, *lease); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, path, class, partner, key string, callers int, lease time.Duration) (err error) {
	store, err := sqlitestore.Open(ctx, path, sqlitestore.Options{Create: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	eng, err := einmal.New(einmal.Config{Store: store, Poll: 20 * time.Millisecond, Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, eng.Close(ctx)) }()
	policy := einmal.Policy{
		Name: "pay", Owner: "test", Window: time.Hour, Deadline: 5 * time.Second, Lease: lease,
		Rules: &einmal.Rules{MaxAttempts: 1000, Backoff: time.Millisecond},
	}
	if class == "keyed" {
		policy.Effect = einmal.Keyed(time.Hour)
	}
	op := eng.Define(policy)
	var print sync.Mutex
	say := func(r Report) {
		print.Lock()
		defer print.Unlock()
		_ = json.NewEncoder(os.Stdout).Encode(r)
	}
	errs := make(chan error)
	for range callers {
		go func() {
			report, err := call(ctx, op, partner, key, func() { say(Report{Waits: true}) })
			if err == nil {
				say(report)
			}
			errs <- err
		}()
	}
	for range callers {
		err = errors.Join(err, <-errs)
	}
	return err
}

// call repeats the operation until its outcome is known, or somebody has to resolve it.
func call(ctx context.Context, op *einmal.Op, partner, key string, waits func()) (report Report, err error) {
	call := einmal.Call{Caller: einmal.Caller{Tenant: "t", Principal: "p"}, Key: key, Input: key}
	met := false
	for {
		answer, err := einmal.Do(ctx, op, call, func(ctx context.Context, partnerKey string) (string, error) {
			report.Ran++
			return pay(ctx, partner, key, partnerKey)
		})
		var problem *einmal.Problem
		switch {
		case err == nil:
			report.Answer = answer
			return report, nil
		case !errors.As(err, &problem):
			return report, err
		case problem.Next == contract.NextResolve:
			report.Problem, report.Next = string(problem.Kind), string(problem.Next)
			return report, nil
		}
		if !met && errors.Is(err, einmal.ErrInProgress) {
			met = true
			waits()
		}
		if ctx.Err() != nil {
			return report, fmt.Errorf("no end in sight: %w", err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func pay(ctx context.Context, url, ref, partnerKey string) (string, error) {
	body := fmt.Sprintf(`{"ref":%q}`, ref)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, io.NopCloser(strings.NewReader(body)))
	if err != nil {
		return "", einmal.NoEffect(err)
	}
	req.ContentLength = int64(len(body))
	if partnerKey != "" {
		req.Header["idempotency-key"] = []string{partnerKey} // spelled so that the transport never sends it twice on its own
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusCreated {
		err = errors.New(resp.Status)
	}
	return string(answer), err
}

// Victim runs one operation against a partner and says how it ended. A test kills it at every crash point (go build -tags crashpoints).
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
	"time"

	"github.com/einmal-dev/einmal"
	"github.com/einmal-dev/einmal/contract"
	"github.com/einmal-dev/einmal/sqlitestore"
)

// Report is the victim's last line.
type Report struct {
	Answer  string `json:"answer,omitempty"`
	Problem string `json:"problem,omitempty"`
	Next    string `json:"next,omitempty"`
	Ran     int    `json:"ran"` // attempts of this process
}

func main() {
	path := flag.String("store", "", "SQLite file")
	class := flag.String("class", "opaque", "opaque or keyed")
	partner := flag.String("partner", "", "the partner's URL")
	key := flag.String("key", "", "the operation's key")
	flag.Parse()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	report, err := run(ctx, *path, *class, *partner, *key)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	_ = json.NewEncoder(os.Stdout).Encode(report)
}

func run(ctx context.Context, path, class, partner, key string) (report Report, err error) {
	store, err := sqlitestore.Open(ctx, path, sqlitestore.Options{Create: true})
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	eng, err := einmal.New(einmal.Config{Store: store, Poll: 20 * time.Millisecond, Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, eng.Close(ctx)) }()
	policy := einmal.Policy{
		Name: "pay", Owner: "test", Window: time.Hour, Deadline: 5 * time.Second, Lease: 100 * time.Millisecond,
		Rules: &einmal.Rules{MaxAttempts: 1000, Backoff: time.Millisecond},
	}
	if class == "keyed" {
		policy.Effect = einmal.Keyed(time.Hour)
	}
	op := eng.Define(policy)
	call := einmal.Call{Caller: einmal.Caller{Tenant: "t", Principal: "p"}, Key: key, Input: key}
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

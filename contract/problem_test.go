package contract_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/einmal-dev/einmal/contract"
)

// The answers of the design, one line each: a change here is a change of the contract.
func TestEverySituationHasItsAnswer(t *testing.T) {
	t.Parallel()
	type answer struct {
		Status int
		Next   contract.Next
	}
	want := map[contract.Kind]answer{
		contract.KeyMissing:       {400, contract.NextFix},
		contract.KeyInvalid:       {400, contract.NextFix},
		contract.NotYours:         {403, contract.NextResolve},
		contract.KeyReused:        {422, contract.NextResolve},
		contract.ResultNotStored:  {303, contract.NextResolve},
		contract.ResultUnknown:    {303, contract.NextResolve},
		contract.Withdrawn:        {410, contract.NextFix},
		contract.InProgress:       {409, contract.NextWait},
		contract.OutcomeUnclear:   {409, contract.NextResolve},
		contract.KeyExpired:       {422, contract.NextResolve},
		contract.Paused:           {503, contract.NextWait},
		contract.Stopping:         {503, contract.NextWait},
		contract.StoreUnavailable: {503, contract.NextWait},
		contract.StoreRestored:    {503, contract.NextWait},
		contract.RecordUnreadable: {500, contract.NextResolve},
		contract.TooManyOpen:      {429, contract.NextWait},
		contract.BodyTooLarge:     {413, contract.NextFix},
		contract.BodyIncomplete:   {400, contract.NextRetry},
		contract.NotKnown:         {404, contract.NextRetry},
	}
	got := map[contract.Kind]answer{}
	for _, s := range contract.Situations {
		got[s.Kind] = answer{s.Status, s.Next}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("situations (-want +got):\n%s", diff)
	}
	if len(got) != len(contract.Situations) {
		t.Error("a kind is listed twice")
	}
}

func TestEverySituationHasItsTexts(t *testing.T) {
	t.Parallel()
	for _, s := range contract.Situations {
		if strings.Trim(string(s.Kind), "abcdefghijklmnopqrstuvwxyz-") != "" {
			t.Errorf("%q is no URL fragment of lower-case letters and hyphens", s.Kind)
		}
		if s.Title == "" || strings.HasSuffix(s.Title, ".") || strings.Contains(s.Title, "\n") {
			t.Errorf("%s: the title %q is no single line without a full stop", s.Kind, s.Title)
		}
		for _, text := range []string{s.Means, s.Do} {
			if !strings.HasSuffix(text, ".") || strings.TrimSpace(text) != text {
				t.Errorf("%s: %q is no sentence", s.Kind, text)
			}
		}
		if http.StatusText(s.Status) == "" {
			t.Errorf("%s: status %d", s.Kind, s.Status)
		}
		if found, ok := contract.Lookup(s.Kind); !ok || found != s {
			t.Errorf("Lookup(%s) = %v, %v", s.Kind, found, ok)
		}
	}
	if _, ok := contract.Lookup("no-such-kind"); ok {
		t.Error("Lookup finds an unknown kind")
	}
}

func TestProblemDocument(t *testing.T) {
	t.Parallel()
	known := true
	full := contract.NewProblem(contract.KeyExpired, `its window ended "yesterday"`)
	full.RetryAfter = 1500 * time.Millisecond
	full.ID = "op_1"
	full.Known = &known
	full.Cause = errors.New("secret")
	unknown := contract.NewProblem(contract.KeyExpired, "")
	unknown.Known = new(bool)

	tests := []struct {
		name      string
		problem   *contract.Problem
		statusURL string
		want      string
	}{
		{
			"a bare problem has type, title, status and next", contract.NewProblem(contract.KeyMissing, ""), "",
			`{"type":"https://api.example.com/.idempotency/contract#key-missing","title":"This operation needs an Idempotency-Key","status":400,"next":"fix"}`,
		},
		{
			"a full one has everything but the cause", full, "/.idempotency/operations/op_1",
			`{"type":"https://api.example.com/.idempotency/contract#key-expired","title":"The time in which this key is recognised is over","status":422,` +
				`"detail":"its window ended \"yesterday\"","next":"resolve","retry_after":2,"operation":"op_1","status_url":"/.idempotency/operations/op_1",` +
				`"known":true}`,
		},
		{
			"known: false is said", unknown, "",
			`{"type":"https://api.example.com/.idempotency/contract#key-expired","title":"The time in which this key is recognised is over","status":422,` +
				`"next":"resolve","known":false}`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := tt.problem.Document("https://api.example.com/.idempotency/contract#", tt.statusURL)
			if diff := cmp.Diff(tt.want+"\n", string(got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if !json.Valid(got) {
				t.Error("not JSON")
			}
		})
	}
}

func TestProblemDetailCannotBreakTheDocument(t *testing.T) {
	t.Parallel()
	for _, detail := range []string{"\xff\xfe", "\x00\n\u2028", `</script>"\`, strings.Repeat("x", 1<<16)} {
		if doc := contract.NewProblem(contract.KeyInvalid, detail).Document("#", ""); !json.Valid(doc) {
			t.Errorf("detail %.20q gives %.200q", detail, doc)
		}
	}
}

func TestProblemsAreEqualByKind(t *testing.T) {
	t.Parallel()
	detailed := contract.NewProblem(contract.InProgress, "attempt 2")
	detailed.Cause = io.ErrUnexpectedEOF
	wrapped := fmt.Errorf("create-order: %w", detailed)

	tests := []struct {
		name   string
		err    error
		target error
		want   bool
	}{
		{"the same kind, whatever the detail", detailed, contract.NewProblem(contract.InProgress, ""), true},
		{"the same kind, wrapped", wrapped, contract.NewProblem(contract.InProgress, ""), true},
		{"another kind", wrapped, contract.NewProblem(contract.OutcomeUnclear, ""), false},
		{"its cause", wrapped, io.ErrUnexpectedEOF, true},
		{"another error", wrapped, io.EOF, false},
		{"a cause that is a problem", &contract.Problem{Kind: contract.StoreUnavailable, Cause: detailed}, contract.NewProblem(contract.InProgress, ""), true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := errors.Is(tt.err, tt.target); got != tt.want {
				t.Errorf("errors.Is(%v, %v) = %v", tt.err, tt.target, got)
			}
		})
	}

	var found *contract.Problem
	if !errors.As(wrapped, &found) || found != detailed {
		t.Errorf("errors.As finds %v", found)
	}
	if got, want := detailed.Error(), "einmal: in-progress: The operation is still running: attempt 2: unexpected EOF"; got != want {
		t.Errorf("Error() = %q, want %q", got, want)
	}
}

func TestNewProblemRefusesAnUnknownKind(t *testing.T) {
	t.Parallel()
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	contract.NewProblem("no-such-kind", "")
}

func TestRetryAfterIsNeverTooEarly(t *testing.T) {
	t.Parallel()
	tests := []struct {
		wait time.Duration
		want string
	}{
		{-time.Second, ""},
		{0, ""},
		{1, "1"},
		{time.Second - 1, "1"},
		{time.Second, "1"},
		{time.Second + 1, "2"},
		{90 * time.Second, "90"},
		{math.MaxInt64, "9223372037"},
	}
	for _, tt := range tests {
		p := contract.NewProblem(contract.InProgress, "")
		p.RetryAfter = tt.wait
		if got := p.RetryAfterSeconds(); got != tt.want {
			t.Errorf("Retry-After for %v is %q, want %q", tt.wait, got, tt.want)
		}
		var doc struct {
			RetryAfter json.Number `json:"retry_after"`
		}
		if err := json.Unmarshal(p.Document("#", ""), &doc); err != nil || string(doc.RetryAfter) != tt.want {
			t.Errorf("retry_after for %v is %q, want %q (%v)", tt.wait, doc.RetryAfter, tt.want, err)
		}
	}
}

package einmalhttp_test

import (
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/einmal-dev/einmal"
	"github.com/einmal-dev/einmal/einmalhttp"
	"github.com/einmal-dev/einmal/memstore"
)

// TestAnswersAfterTheDeadline: an error that the end of the handler's context caused looks to many handlers like the client's fault. Its status says
// nothing of the effect then, and neither the record nor the caller may take it for a refusal. Time is virtual.
func TestAnswersAfterTheDeadline(t *testing.T) {
	t.Parallel()
	type ending = func(http.ResponseWriter, *http.Request) error
	says := func(status int) ending {
		return func(w http.ResponseWriter, _ *http.Request) error { w.WriteHeader(status); return nil }
	}
	opaque, keyed := einmal.Opaque(), einmal.Keyed(time.Hour)
	for name, c := range map[string]struct {
		effect einmal.Effect
		end    ending
		serve  bool
		status int // of the first answer
		state  einmal.State
	}{
		"400":                  {opaque, says(400), false, 504, einmal.StateUnclear},
		"422":                  {opaque, says(422), false, 504, einmal.StateUnclear},
		"422 of Serve":         {opaque, says(422), true, 504, einmal.StateUnclear},
		"429":                  {opaque, says(429), false, 504, einmal.StateUnclear},
		"429 of Serve":         {opaque, says(429), true, 504, einmal.StateUnclear},
		"422, keyed":           {keyed, says(422), false, 504, einmal.StateUnclear},
		"422, stored with key": {keyed, says(424), false, 504, einmal.StateUnclear},
		"nothing":              {opaque, func(http.ResponseWriter, *http.Request) error { return nil }, false, 504, einmal.StateUnclear},
		"500":                  {opaque, says(500), false, 500, einmal.StateUnclear},
		"a success counts":     {opaque, says(201), false, 201, einmal.StateCompleted},
		"so does a certificate": {opaque, func(w http.ResponseWriter, _ *http.Request) error {
			w.WriteHeader(503)
			return einmal.NoEffect(errors.New("nothing was sent"))
		}, true, 503, einmal.StateNotApplied},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				eng, err := einmal.New(einmal.Config{Store: memstore.New(), Log: slog.New(slog.DiscardHandler)})
				if err != nil {
					t.Fatal(err)
				}
				defer eng.Close(t.Context())
				p := einmal.Policy{Name: "op", Owner: "o", Effect: c.effect, Deadline: time.Second}
				if c.effect == keyed {
					p.Rules = &einmal.Rules{Statuses: map[int]einmal.End{424: einmal.EndRefused}, BoundToKey: []int{424}}
				}
				op := eng.Define(p)
				idem := einmalhttp.New(eng, einmalhttp.Config{
					Identify: func(*http.Request) (einmal.Caller, error) { return einmal.Caller{Principal: "alice"}, nil },
				})
				handler := func(w http.ResponseWriter, r *http.Request) error { <-r.Context().Done(); return c.end(w, r) }
				w, r := httptest.NewRecorder(), httptest.NewRequest("POST", "/op", strings.NewReader("hello"))
				r.Header.Set("Idempotency-Key", "k-1")
				if c.serve {
					if err := idem.Serve(w, r, op, handler); err != nil {
						t.Errorf("Serve leaves %v to be answered", err)
					}
				} else {
					idem.Wrap(op)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _ = handler(w, r) })).ServeHTTP(w, r)
				}
				found, err := eng.Find(t.Context(), einmal.Identity{Operation: "op", Key: "k-1"})
				if w.Code != c.status || err != nil || found.State != c.state {
					t.Errorf("got %d, %v, %v; want %d, %v", w.Code, found.State, err, c.status, c.state)
				}
			})
		})
	}
}

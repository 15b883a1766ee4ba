package einmalhttp_test

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/einmal-dev/einmal"
	"github.com/einmal-dev/einmal/contract"
	"github.com/einmal-dev/einmal/memstore"
)

// tamperedStore gives every stored answer another form, as an older program or another hand might have left it.
type tamperedStore struct {
	einmal.Store
	result atomic.Pointer[einmal.Result]
}

func (s *tamperedStore) Reserve(ctx context.Context, r einmal.Reservation) (einmal.Record, bool, error) {
	rec, created, err := s.Store.Reserve(ctx, r)
	return s.tamper(rec), created, err
}

func (s *tamperedStore) Get(ctx context.Context, ref einmal.Ref) (einmal.Record, error) {
	rec, err := s.Store.Get(ctx, ref)
	return s.tamper(rec), err
}

func (s *tamperedStore) tamper(rec einmal.Record) einmal.Record {
	if other := s.result.Load(); other != nil && rec.Result != nil {
		rec.Result = other
	}
	return rec
}

// TestStoredAnswerIsNotTrusted: what a record holds is sent only as far as the contract allows it.
func TestStoredAnswerIsNotTrusted(t *testing.T) {
	t.Parallel()
	store := &tamperedStore{Store: memstore.New()}
	a := newAPI(t, options{store: store})
	a.handle("/op", einmal.Policy{}, createOrder)
	path := strings.Replace(statusPath(t, a.send(request{path: "/op"})), "status", "result", 1)
	for _, kept := range []einmal.Kept{einmal.KeptWhole, einmal.KeptTooLarge} {
		for _, code := range []int{-1, 0, 42, 101, 199, 600, 1000} {
			store.result.Store(&einmal.Result{Status: code, Body: []byte("x"), Kept: kept})
			for _, send := range []func() (answer, error){
				func() (answer, error) { return a.do(a.build(request{path: "/op"})) },
				func() (answer, error) { return a.do(a.build(request{method: "GET", path: path, noKey: true})) },
			} {
				got, err := send()
				if err != nil {
					t.Errorf("status %d: %v", code, err)
					continue
				}
				wantProblem(t, got, 500, contract.RecordUnreadable, contract.NextResolve)
			}
		}
	}
	store.result.Store(&einmal.Result{Status: 200, Body: []byte("x"), Header: []einmal.Field{
		{Name: "Set-Cookie", Value: "sid=1"},
		{Name: "link", Value: "</a>"},
		{Name: "Link", Value: "</b>"},
		{Name: "set-cookie", Value: "sid=2"},
		{Name: "Idempotency-Recorded", Value: "false"},
		{Name: "etag", Value: `"1"`},
		{Name: "Connection", Value: "close"},
	}})
	for _, got := range []answer{a.send(request{path: "/op"}), a.get(path, "alice")} {
		names := slices.Sorted(maps.Keys(got.header))
		want := []string{"Cache-Control", "Content-Length", "Date", "Etag", "Idempotent-Replayed", "Link"}
		if links := got.header["Link"]; !slices.Equal(names, want) || len(links) != 3 || got.body != "x" {
			t.Errorf("got %v", got)
		}
	}
	a.wantEffects(1)
}

// TestRefusalsAskForPermission: a refusal that tells of an operation is told only to those who may see it.
func TestRefusalsAskForPermission(t *testing.T) {
	t.Parallel()
	var ahead atomic.Int64
	storage := memstore.NewStorage(memstore.Options{Clock: func() (time.Time, time.Duration) {
		wall, mono := einmal.SystemClock()
		return wall.Add(time.Duration(ahead.Load())), mono + time.Duration(ahead.Load())
	}})
	store := &steeredStore{Store: storage.Open()}
	a := newAPI(t, options{authorize: true, store: store, engine: einmal.Config{Poll: time.Hour}})
	a.handle("/unclear", einmal.Policy{}, status(502, "broken"))
	a.handle("/withdrawn", einmal.Policy{}, status(502, "broken"))
	a.handle("/expired", einmal.Policy{Window: time.Hour}, status(201, "done"))
	a.handle("/unknown", einmal.Policy{}, status(502, "broken"))
	a.handle("/large", einmal.Policy{Rules: &einmal.Rules{MaxResult: 1}}, status(201, "too large"))
	a.send(request{path: "/expired"})
	ahead.Store(int64(2 * time.Hour))
	if n, err := storage.Open().Purge(context.Background(), 10); n != 1 || err != nil {
		t.Fatalf("purged %d: %v", n, err)
	}
	a.send(request{path: "/unclear"})
	a.send(request{path: "/large"})
	a.resolve(a.send(request{path: "/withdrawn"}), einmal.ResolveWithdrawn, nil)
	a.resolve(a.send(request{path: "/unknown"}), einmal.ResolveApplied, nil)
	held, release := make(chan struct{}), make(chan struct{})
	a.handle("/running", einmal.Policy{}, func(http.ResponseWriter, *http.Request) { close(held); <-release })
	ended := make(chan answer, 1)
	go func() { ended <- a.send(request{path: "/running"}) }()
	await(t, "the running attempt", held)

	kinds := map[string]struct {
		status int
		kind   contract.Kind
	}{
		"/unclear": {409, contract.OutcomeUnclear}, "/withdrawn": {410, contract.Withdrawn}, "/expired": {422, contract.KeyExpired},
		"/running": {409, contract.InProgress}, "/unknown": {303, contract.ResultUnknown}, "/large": {303, contract.ResultNotStored},
	}
	for path, want := range kinds {
		got := a.send(request{path: path})
		if doc := problemOf(t, got); got.status != want.status || !strings.HasSuffix(doc.Type, "#"+string(want.kind)) {
			t.Errorf("%s, permitted: %v", path, got)
		}
		statusPath(t, got)
	}
	a.forbid.Store(true)
	for path := range kinds {
		header := http.Header{}
		if path != "/running" {
			header.Set("Prefer", "wait=1")
		}
		got := a.send(request{path: path, header: header})
		problemOf(t, got)
		if all := got.String(); got.status != 403 || strings.Contains(all, "op_") || strings.Contains(all, "Preference-Applied") {
			t.Errorf("%s, not permitted: %v", path, got)
		}
	}
	a.forbid.Store(false)
	failWith(&store.get, errors.New("gone"))
	got := a.send(request{path: "/unclear"})
	wantProblem(t, got, 503, contract.StoreUnavailable, contract.NextWait)
	if strings.Contains(got.String(), "op_") {
		t.Errorf("nobody could be asked: %v", got)
	}
	heal(&store.get)
	close(release)
	await(t, "the first answer", ended)
}

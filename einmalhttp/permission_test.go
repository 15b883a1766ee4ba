package einmalhttp_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/einmal-dev/einmal"
	"github.com/einmal-dev/einmal/contract"
	"github.com/einmal-dev/einmal/memstore"
)

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

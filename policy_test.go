package einmal_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/einmal-dev/einmal"
	"github.com/einmal-dev/einmal/contract"
)

func panicText(f func()) (text string) {
	defer func() {
		if r := recover(); r != nil {
			text = fmt.Sprint(r)
		}
	}()
	f()
	return ""
}

func TestDefinePanicsOnAMistakeAndNamesIt(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		tests := map[string]struct {
			spoil func(*einmal.Policy)
			says  string
		}{
			"no owner":                           {func(p *einmal.Policy) { p.Owner = "" }, "Owner"},
			"no name":                            {func(p *einmal.Policy) { p.Name = "" }, "name"},
			"a name with a space":                {func(p *einmal.Policy) { p.Name = "a b" }, "not allowed"},
			"the name of every operation":        {func(p *einmal.Policy) { p.Name = "*" }, "not allowed"},
			"a window shorter than an attempt":   {func(p *einmal.Policy) { p.Window = 39 * time.Second }, "shorter than Deadline"},
			"a partner window without a second":  {func(p *einmal.Policy) { p.Effect = einmal.Keyed(40 * time.Second) }, "partner window"},
			"bound to a key that is never sent":  {func(p *einmal.Policy) { p.Rules = &einmal.Rules{BoundToKey: []int{402}} }, "keyed"},
			"an end that no status can mean":     {func(p *einmal.Policy) { p.Rules = &einmal.Rules{Statuses: map[int]einmal.End{500: einmal.EndUnknown}} }, "Statuses"},
			"a status that is none":              {func(p *einmal.Policy) { p.Rules = &einmal.Rules{Statuses: map[int]einmal.End{99: einmal.EndOpen}} }, "Statuses"},
			"a refusal that is a success status": {func(p *einmal.Policy) { p.Rules = &einmal.Rules{RefusesBeforeEffect: []int{200}} }, "RefusesBeforeEffect"},
			"a negative lease":                   {func(p *einmal.Policy) { p.Lease = -1 }, "negative"},
			"a negative limit":                   {func(p *einmal.Policy) { p.Rules = &einmal.Rules{Limits: einmal.Limits{Open: -1}} }, "Limits"},
		}
		for name, tt := range tests {
			p := policy("order")
			tt.spoil(&p)
			if text := panicText(func() { w.eng.Define(p) }); !strings.Contains(text, tt.says) {
				t.Errorf("%s: %q does not say %q", name, text, tt.says)
			}
		}
		w.eng.Define(policy("order"))
		if text := panicText(func() { w.eng.Define(policy("order")) }); !strings.Contains(text, "twice") {
			t.Errorf("%q", text)
		}
		other := w.engine(w.storage.Open()).Define(policy("order"))
		if text := panicText(func() { _, _ = w.eng.Run(t.Context(), other, request("k"), never(t)) }); !strings.Contains(text, "another engine") {
			t.Errorf("%q", text)
		}
	})
}

func TestWhatAStatusMeansForItsAttempt(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		bound := keyed("bound")
		bound.Rules = &einmal.Rules{
			BoundToKey: []int{402, 409}, RefusesBeforeEffect: []int{503}, Statuses: map[int]einmal.End{500: einmal.EndSuccess, 404: einmal.EndOpen},
		}
		none := policy("none")
		none.Rules = &einmal.Rules{RefusesBeforeEffect: []int{}}
		ops := map[string]*einmal.Op{"opaque": w.eng.Define(policy("opaque")), "keyed": w.eng.Define(keyed("keyed")), "bound": w.eng.Define(bound), "none": w.eng.Define(none)}
		type want map[int]einmal.End
		for name, wants := range map[string]want{
			"opaque": {
				200: einmal.EndSuccess, 204: einmal.EndSuccess, 303: einmal.EndSuccess, 399: einmal.EndSuccess, 400: einmal.EndRefused, 401: einmal.EndNoEffect,
				402: einmal.EndRefused, 403: einmal.EndNoEffect, 404: einmal.EndRefused, 407: einmal.EndOpen, 408: einmal.EndOpen, 409: einmal.EndRefused,
				417: einmal.EndRefused, 418: einmal.EndOpen, 421: einmal.EndNoEffect, 422: einmal.EndRefused, 424: einmal.EndOpen, 425: einmal.EndNoEffect,
				428: einmal.EndRefused, 429: einmal.EndNoEffect, 431: einmal.EndNoEffect, 451: einmal.EndRefused, 499: einmal.EndOpen, 500: einmal.EndOpen,
				502: einmal.EndOpen, 503: einmal.EndOpen, 599: einmal.EndOpen, 0: einmal.EndOpen, 100: einmal.EndOpen, 199: einmal.EndOpen, 600: einmal.EndOpen, -1: einmal.EndOpen,
			},
			"keyed": {409: einmal.EndOpen, 402: einmal.EndRefused},
			"bound": {409: einmal.EndRefused, 500: einmal.EndSuccess, 503: einmal.EndNoEffect, 429: einmal.EndOpen, 404: einmal.EndOpen},
			"none":  {401: einmal.EndOpen, 429: einmal.EndOpen, 422: einmal.EndRefused},
		} {
			for status, end := range wants {
				if got, _ := ops[name].End(status); got != end {
					t.Errorf("%s: %d means %v, want %v", name, status, got, end)
				}
			}
		}
		for status, want := range map[int]bool{402: true, 409: true, 422: false, 500: false} {
			if _, got := ops["bound"].End(status); got != want {
				t.Errorf("%d bound: %v", status, got)
			}
		}
	})
}

func TestThePolicysTermsAreFixedAtReservation(t *testing.T) {
	inWorldWithPoll(t, time.Hour, func(t *testing.T, w *world) {
		before := w.eng.Define(policy("order"))
		_, _ = w.eng.Run(t.Context(), before, request("k"), ends(einmal.EndOpen))
		later := w.engine(w.storage.Open())
		p := keyed("order") // today's policy may run again, the record's may not
		p.Owner, p.Window = "others", 48*time.Hour
		after := later.Define(p)
		time.Sleep(time.Hour)
		_, err := later.Run(t.Context(), after, request("k"), never(t))
		problem(t, err, contract.OutcomeUnclear, contract.NextResolve)
		if got := w.state(before, "k"); got.Terms.Owner != "team@example.com" || got.Terms.Window != 24*time.Hour {
			t.Errorf("%+v", got.Terms)
		}
	})
}

func TestWhatWouldStartMeetsPauseLimitsAndRestoredStores(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		p := policy("order")
		p.Rules = &einmal.Rules{Limits: einmal.Limits{Unclear: 2}}
		op := w.eng.Define(p)
		if _, err := w.eng.Run(t.Context(), op, request("done"), ends(einmal.EndSuccess)); err != nil {
			t.Fatal(err)
		}
		if _, err := w.eng.Run(t.Context(), op, request("none"), ends(einmal.EndNoEffect)); err != nil {
			t.Fatal(err)
		}
		pause := einmal.Setting{Name: "pause", Tenant: "acme", Operation: "*", Value: "maintenance"}
		if _, err := w.store.Settings(t.Context(), pause); err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{"new", "none"} {
			_, err := w.eng.Run(t.Context(), op, request(key), never(t))
			problem(t, err, contract.Paused, contract.NextWait)
		}
		if _, err := w.eng.Run(t.Context(), op, request("done"), never(t)); err != nil {
			t.Errorf("pause stopped a replay: %v", err)
		}
		pause.Delete = true
		if _, err := w.store.Settings(t.Context(), pause); err != nil {
			t.Fatal(err)
		}
		w.unclear(op, "a")
		w.unclear(op, "b")
		_, err := w.eng.Run(t.Context(), op, request("c"), never(t))
		problem(t, err, contract.TooManyOpen, contract.NextWait)

		w.resolve(op, "a", einmal.ResolveWithdrawn)

		restored := w.engine(ahead{w.storage.Open()})
		op = restored.Define(p)
		for _, key := range []string{"d", "none"} {
			_, err = restored.Run(t.Context(), op, request(key), never(t))
			problem(t, err, contract.StoreRestored, contract.NextWait)
		}
		if _, err := restored.Run(t.Context(), op, request("done"), never(t)); err != nil {
			t.Errorf("a restored store refused a replay: %v", err)
		}
		if _, err := w.store.Settings(t.Context(), einmal.Setting{Name: "epoch", Value: "accept"}); err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{"d", "none"} {
			if _, err := restored.Run(t.Context(), op, request(key), ends(einmal.EndSuccess)); err != nil {
				t.Errorf("after the gap was accepted: %v", err)
			}
		}
	})
}

// ahead is a store whose node has seen more in epoch 1 than the store has: it was restored from an older state.
type ahead struct{ einmal.Store }

func (s ahead) Reserve(ctx context.Context, r einmal.Reservation) (einmal.Record, bool, error) {
	if r.Seen.Epoch == 1 {
		r.Seen.Seq += 1000
	}
	return s.Store.Reserve(ctx, r)
}

func (s ahead) Apply(ctx context.Context, c einmal.Change) (einmal.Record, error) {
	if c.Seen.Epoch == 1 {
		c.Seen.Seq += 1000
	}
	return s.Store.Apply(ctx, c)
}

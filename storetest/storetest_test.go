package storetest_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/einmal-dev/einmal"
	"github.com/einmal-dev/einmal/memstore"
	"github.com/einmal-dev/einmal/storetest"
)

func newStorage() *memstore.Storage {
	return memstore.NewStorage(memstore.Options{Clock: storetest.NewClock().Read})
}

func makerOf(b *bug) storetest.Maker {
	clock := storetest.NewClock()
	storage := memstore.NewStorage(memstore.Options{Clock: clock.Read})
	return storetest.Maker{
		Open: func() (einmal.Store, error) {
			s := storage.Open()
			if b.open != nil {
				s = b.open(storage.Open)
			}
			return broken{Store: s, bug: b}, nil
		},
		Advance: clock.Advance,
		Jump:    clock.Jump,
	}
}

func TestCheckFindsNothingInACorrectStore(t *testing.T) {
	t.Parallel()
	if err := storetest.Check(t.Context(), makerOf(&bug{})); err != nil {
		t.Error(err)
	}
}

func TestCheckWorksWithAClockThatGoesOn(t *testing.T) {
	t.Parallel()
	offset, begin := storetest.NewClock(), time.Now()
	storage := memstore.NewStorage(memstore.Options{Clock: func() (time.Time, time.Duration) {
		wall, mono := offset.Read()
		return wall.Add(time.Since(begin)), mono + time.Since(begin)
	}})
	if err := storetest.Check(t.Context(), storetest.Maker{
		Open:    func() (einmal.Store, error) { return storage.Open(), nil },
		Advance: offset.Advance,
		Jump:    offset.Jump,
	}); err != nil {
		t.Error(err)
	}
}

func TestEveryBugBreaksTheRuleThatNamesIt(t *testing.T) {
	t.Parallel()
	for _, b := range bugs() {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			err := storetest.CheckRule(t.Context(), makerOf(&b), b.rule)
			var v *storetest.Violation
			if !errors.As(err, &v) || !strings.Contains(v.Rule, b.rule) || v.Case == "" || v.Seen == "" {
				t.Fatalf("want a violation of %q, got %v", b.rule, err)
			}
		})
	}
}

func TestCheckJoinsAllViolations(t *testing.T) {
	t.Parallel()
	err := storetest.Check(t.Context(), makerOf(&bug{
		apply: func(ctx context.Context, next einmal.Store, c einmal.Change) (einmal.Record, error) {
			c.Guard.Version, c.Guard.LeaseHeld = 0, false
			return next.Apply(ctx, c)
		},
		timeline: func(context.Context, einmal.Store, einmal.ID) ([]einmal.Entry, error) { panic("no timelines here") },
	}))
	for _, words := range []string{
		"every part of a Guard that is set must hold", "a lost lease must not be revived", "the timeline is what people judge an unclear outcome by",
		"panic: no timelines here", "version 3",
	} {
		if err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("the error does not say %q:\n%v", words, err)
		}
	}
}

func TestCheckRefusesAMakerThatCannotServe(t *testing.T) {
	t.Parallel()
	whole := makerOf(&bug{})
	for name, m := range map[string]storetest.Maker{
		"no Open":                   {Advance: whole.Advance},
		"no Advance":                {Open: whole.Open},
		"Open fails":                {Open: func() (einmal.Store, error) { return nil, errors.New("no disk") }, Advance: whole.Advance},
		"a clock that stands still": {Open: whole.Open, Advance: whole.Jump},
	} {
		if err := storetest.Check(t.Context(), m); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

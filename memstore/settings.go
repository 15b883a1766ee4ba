package memstore

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/einmal-dev/einmal"
	"github.com/einmal-dev/einmal/internal/mutant"
)

type settingKey struct{ name, tenant, operation string }

func (s *store) Settings(ctx context.Context, set ...einmal.Setting) (all []einmal.Setting, err error) {
	err = s.atomically(ctx, func(now time.Time) error {
		for _, one := range set {
			if err := checkSetting(one); err != nil {
				return err
			}
		}
		maps.DeleteFunc(s.settings, func(_ settingKey, kept einmal.Setting) bool { return gone(kept, now) })
		for _, one := range set {
			s.set(one, now)
		}
		if len(set) > 0 {
			s.nextSeq()
		}
		all = s.allSettings()
		return nil
	})
	return all, err
}

// checkSetting refuses what is the store's own, except for the two acceptances.
func checkSetting(s einmal.Setting) error {
	switch s.Name {
	case "", "id", "seq":
		return fmt.Errorf("memstore: setting %q cannot be written", s.Name)
	case "clock", "epoch":
		if s.Value != "accept" || s.Delete {
			return fmt.Errorf("memstore: setting %q can be given the value accept only", s.Name)
		}
	}
	return nil
}

func (s *store) set(one einmal.Setting, now time.Time) {
	key := settingKey{one.Name, one.Tenant, one.Operation}
	_, there := s.settings[key]
	switch {
	case one.Name == "clock":
		s.mark, s.jumped = s.guard.Accept(), false
		s.accepts++
		s.accepted = s.accepts
	case one.Name == "epoch":
		s.position.Epoch++
	case one.Delete:
		delete(s.settings, key)
	case !there || !one.IfAbsent:
		kept := einmal.Setting{Name: one.Name, Tenant: one.Tenant, Operation: one.Operation, Value: one.Value}
		if one.For != 0 {
			kept.Until = now.Add(one.For)
		}
		s.settings[key] = kept
	}
}

func gone(s einmal.Setting, now time.Time) bool { return !s.Until.IsZero() && !s.Until.After(now) }

// allSettings returns what is there, the store's own facts first.
func (s *store) allSettings() []einmal.Setting {
	clock := "ok"
	if s.jumped {
		clock = "jumped"
	}
	own := []einmal.Setting{
		{Name: "id", Value: s.position.Store},
		{Name: "epoch", Value: strconv.FormatInt(s.position.Epoch, 10)},
		{Name: "seq", Value: strconv.FormatInt(s.position.Seq, 10)},
		{Name: "clock", Value: clock},
	}
	return slices.AppendSeq(own, slices.Values(slices.SortedFunc(maps.Values(s.settings), func(a, b einmal.Setting) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.Operation, b.Operation))
	})))
}

// paused reports whether a pause covers the operation.
func (s *store) paused(id einmal.Identity, now time.Time) bool {
	covers := func(scope, name string) bool { return scope == "*" || scope == name }
	for key, p := range s.settings {
		if key.name == "pause" && !gone(p, now) && covers(key.tenant, id.Tenant) && covers(key.operation, id.Operation) {
			return !mutant.On("pause-not-checked")
		}
	}
	return false
}

package storetest

import (
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/einmal-dev/einmal"
)

var settingCases = []testCase{
	{
		name: "settings are shared, kept as given and overwritten",
		rule: "a setting is named by name, tenant and operation together, comes back as written over every handle, and the last write counts; Delete removes it",
		check: func(e *env) {
			name := "setting-" + rand.Text()
			all := []einmal.Setting{
				{Name: name, Value: "plain"},
				{Name: name, Tenant: e.tenant, Value: ""},
				{Name: name, Operation: e.tenant, Value: "ü 鍵 \x00 ' \" \\"},
				{Name: name, Tenant: e.tenant, Operation: e.op, Value: strings.Repeat("long", 16<<10)},
				{Name: name, Tenant: "*", Operation: "*", Value: "star"},
			}
			e.settings(e.a, all...)
			for i, s := range []einmal.Store{e.a, e.b, e.open()} {
				for _, want := range all {
					if got := find(e.settings(s), want); got == nil || got.Value != want.Value || !got.Until.IsZero() {
						e.see("handle %d: %s is %s, want %s for ever", i+1, nameOf(want), showSetting(got), show(valueOf(want.Value)))
					}
				}
			}
			e.settings(e.b, einmal.Setting{Name: name, Value: "other"}, einmal.Setting{Name: name, Tenant: e.tenant, Delete: true})
			now := e.settings(e.a)
			if got := find(now, all[0]); got == nil || got.Value != "other" {
				e.see("overwritten: %s", showSetting(got))
			}
			if got := find(now, all[1]); got != nil {
				e.see("deleted, but %s is there", showSetting(got))
			}
			if got := find(now, all[4]); got == nil || got.Value != "star" {
				e.see("deleting one touched another: %s", showSetting(got))
			}
			e.settings(e.a, einmal.Setting{Name: name, Tenant: e.tenant, Delete: true}) // deleting what is not there is fine
			if returned := e.settings(e.a, einmal.Setting{Name: name, Value: "third"}); find(returned, all[0]).Value != "third" {
				e.see("Settings returned the state before its own write")
			}
		},
	},
	{
		name: "of many writers if-absent one wins and all learn the value",
		rule: "IfAbsent writes only where there is none, in one atomic step, and every caller reads the one value that won: the store's secret is made by this race, " +
			"and two secrets would be two partner keys for one operation",
		check: func(e *env) {
			for round := range 8 {
				setting := einmal.Setting{Name: fmt.Sprintf("secret-%d", round), Tenant: e.tenant, IfAbsent: true}
				var mu sync.Mutex
				values := map[string]bool{}
				e.together(16, func(i int) error {
					mine := setting
					mine.Value = strconv.Itoa(i)
					all, err := e.handle(i).Settings(e.ctx, mine)
					if err != nil {
						return err
					}
					mu.Lock()
					defer mu.Unlock()
					if got := find(all, mine); got != nil {
						values[got.Value] = true
					} else {
						values["none"] = true
					}
					return nil
				})
				if len(values) != 1 || values["none"] {
					e.fail("16 writers read the values %v", values)
				}
				kept := find(e.settings(e.open()), setting)
				if kept == nil || !values[kept.Value] {
					e.fail("the writers read %v, and kept is %s", values, showSetting(kept))
				}
			}
		},
	},
	{
		name: "a setting with a duration goes",
		rule: "a setting written with For is returned with its end and is gone after it, and counts as absent then; written again without For it stays",
		check: func(e *env) {
			setting := einmal.Setting{Name: "brief", Tenant: e.tenant, Value: "1", For: time.Hour}
			now := e.running().Now
			got := find(e.settings(e.a, setting), setting)
			if got == nil || got.Value != "1" || (got.Until.Sub(now)-time.Hour).Abs() > slack {
				e.fail("written for an hour at %v: %s", now, showSetting(got))
			}
			e.maker.Advance(time.Hour - 2*slack)
			absent := setting
			absent.IfAbsent, absent.Value = true, "2"
			if got := find(e.settings(e.b, absent), setting); got == nil || got.Value != "1" {
				e.fail("before its end: %s", showSetting(got))
			}
			e.maker.Advance(3 * slack)
			if got := find(e.settings(e.b), setting); got != nil {
				e.see("after its end: %s", showSetting(got))
			}
			absent.For = 0
			if got := find(e.settings(e.a, absent), setting); got == nil || got.Value != "2" || !got.Until.IsZero() {
				e.see("written if absent after its end: %s", showSetting(got))
			}
			e.settings(e.a, setting)
			setting.For = 0
			if got := find(e.settings(e.a, setting), setting); got == nil || !got.Until.IsZero() {
				e.see("written again without For: %s", showSetting(got))
			}
		},
	},
	{
		name: "the store's own settings are told and not written",
		rule: "id, epoch, seq and clock are always returned and, but for the two acceptances, not to be written; a call with such a setting writes nothing at all",
		check: func(e *env) {
			rec := e.running()
			tell := func(name string) string {
				got := find(e.settings(e.b), einmal.Setting{Name: name})
				if got == nil {
					e.fail("%q is not among the returned settings", name)
				}
				return got.Value
			}
			before := map[string]string{"id": tell("id"), "epoch": tell("epoch"), "clock": tell("clock")}
			at := e.get(e.a, rec.ID).At
			if before["id"] != at.Store || before["epoch"] != strconv.FormatInt(at.Epoch, 10) || before["clock"] != "ok" {
				e.fail("settings say %v, and Record.At is %+v", before, at)
			}
			if seq, err := strconv.ParseInt(tell("seq"), 10, 64); err != nil || seq < rec.Seq {
				e.fail("seq is %q after a write with seq %d", tell("seq"), rec.Seq)
			}
			along := einmal.Setting{Name: "along", Tenant: e.tenant, Value: "1"}
			for _, own := range []einmal.Setting{
				{Name: "id", Value: "mine"},
				{Name: "id", Delete: true},
				{Name: "seq", Value: "1"},
				{Name: "seq", Delete: true},
				{Name: "epoch", Value: "7"},
				{Name: "epoch", Delete: true},
				{Name: "epoch", Value: "accept", Delete: true},
				{Name: "clock", Value: "ok"},
				{Name: "clock", Value: "jumped"},
				{Name: "clock", Delete: true},
			} {
				if _, err := e.a.Settings(e.ctx, along, own); err == nil {
					e.see("%+v was written", own)
				}
				if _, err := e.a.Settings(e.ctx, own, along); err == nil {
					e.see("%+v was written", own)
				}
				if got := find(e.settings(e.b), along); got != nil {
					e.see("a call that was refused for %+v wrote another setting", own)
				}
			}
			for name, was := range before {
				if is := tell(name); is != was {
					e.see("%s was %q and is %q", name, was, is)
				}
			}
		},
	},
	{
		name: "a pause covers its scope",
		rule: "the setting \"pause\" refuses every start in its scope while it exists: exactly its tenant and operation, \"*\" for all of them, " +
			"until it is deleted or its time is over",
		check: func(e *env) {
			restart := e.running()
			restart = e.apply(restart, toNotApplied(restart))
			starts := func(pause einmal.Setting, want bool) {
				var wantErr error
				if !want {
					wantErr = einmal.ErrStorePaused
				}
				if _, created, err := e.b.Reserve(e.ctx, e.request()); !errors.Is(err, wantErr) || created != want {
					e.see("Reserve with %s: want error %v, got %v", nameOf(pause), wantErr, err)
				}
				rec, err := e.b.Apply(e.ctx, toRunning(restart))
				if !errors.Is(err, wantErr) {
					e.see("a start with %s: want error %v, got %v", nameOf(pause), wantErr, err)
				}
				if err == nil {
					restart = e.apply(rec, toNotApplied(rec))
				}
			}
			for _, try := range []struct {
				tenant, operation string
				starts            bool
			}{
				{e.tenant, e.op, false},
				{"*", e.op, false},
				{e.tenant, "*", false},
				{"*", "*", false},
				{e.tenant + "x", e.op, true},
				{e.tenant, e.op + "x", true},
				{"*", e.op + "x", true},
				{e.tenant + "x", "*", true},
				{"", e.op, true},
				{e.tenant, "", true},
				{"", "", true},
				{e.op, e.tenant, true},
			} {
				pause := einmal.Setting{Name: "pause", Tenant: try.tenant, Operation: try.operation, Value: "why"}
				func() {
					defer func() {
						pause.Delete = true
						e.settings(e.a, pause)
					}()
					e.settings(e.a, pause)
					starts(pause, try.starts)
				}()
				starts(einmal.Setting{Name: "no pause"}, true)
			}
			pause := einmal.Setting{Name: "pause", Tenant: e.tenant, Operation: "*", For: time.Hour}
			e.settings(e.a, pause)
			starts(pause, false)
			e.maker.Advance(time.Hour + slack)
			starts(pause, true)
		},
	},
	{
		name: "when a pause returns nothing more starts",
		rule: "a start checks for a pause in its own transaction: when the call that pauses has returned, no start that did not see it can commit, " +
			"so whoever paused knows all that is still in flight",
		check: func(e *env) {
			for round := range rounds(3) {
				pause := einmal.Setting{Name: "pause", Tenant: e.tenant, Operation: "*"}
				requests := make([][]einmal.Reservation, 8)
				for i := range requests {
					for range 100 {
						requests[i] = append(requests[i], e.request())
					}
				}
				var known []einmal.Record
				e.together(len(requests)+1, func(i int) error {
					if i < len(requests) {
						for _, r := range requests[i] {
							if _, _, err := e.handle(i).Reserve(e.ctx, r); errors.Is(err, einmal.ErrStorePaused) {
								return nil
							} else if err != nil {
								return err
							}
						}
						return nil
					}
					yield(round)
					_, err := e.handle(round).Settings(e.ctx, pause)
					if err == nil {
						known, err = listAll(e.ctx, e.handle(round+1), einmal.Filter{Tenant: &e.tenant})
					}
					return err
				})
				e.sameIDs("all that started, and what there was when the pause had returned", e.list(e.a, einmal.Filter{Tenant: &e.tenant}), idsOf(known))
				pause.Delete = true
				e.settings(e.a, pause)
			}
		},
	},
}

func find(all []einmal.Setting, named einmal.Setting) *einmal.Setting {
	i := slices.IndexFunc(all, func(s einmal.Setting) bool {
		return s.Name == named.Name && s.Tenant == named.Tenant && s.Operation == named.Operation
	})
	if i < 0 {
		return nil
	}
	return &all[i]
}

func nameOf(s einmal.Setting) string { return fmt.Sprintf("%s(%q, %q)", s.Name, s.Tenant, s.Operation) }

func showSetting(s *einmal.Setting) string {
	if s == nil {
		return "not there"
	}
	return fmt.Sprintf("%s = %s until %v", nameOf(*s), show(valueOf(s.Value)), s.Until)
}

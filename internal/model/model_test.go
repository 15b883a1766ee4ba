package model_test

import (
	"slices"
	"sync"
	"testing"

	"github.com/einmal-dev/einmal/internal/model"
)

// sizes are the numbers that docs/states.md tells.
var sizes = map[model.Class]struct{ states, edges int }{
	model.Opaque: {47553, 574309},
	model.Keyed:  {856197, 11456779},
}

// explored is the whole model, explored once for all tests.
var explored = map[model.Class]func() *model.Report{model.Opaque: explore(model.Opaque), model.Keyed: explore(model.Keyed)}

func explore(class model.Class) func() *model.Report {
	return sync.OnceValue(func() *model.Report { return model.Explore(model.Rules{Class: class, MaxAttempts: model.Attempts}) })
}

func TestTheProtocolKeepsItsPromiseInEveryReachableState(t *testing.T) {
	t.Parallel()
	if underRace {
		t.Skip("one goroutine, and ten times slower under the race detector")
	}
	for class, size := range sizes {
		t.Run(class.String(), func(t *testing.T) {
			t.Parallel()
			r := explored[class]()
			if r.Violation != nil {
				t.Fatalf("%v", r.Violation)
			}
			t.Logf("%d states, %d edges, at most %d events to a new state", r.States, r.Edges, r.Depth)
			if r.States != size.states || r.Edges != size.edges {
				t.Errorf("%d states and %d edges, docs/states.md says %d and %d", r.States, r.Edges, size.states, size.edges)
			}
			for _, s := range model.AllSituations() {
				t.Logf("%9d  %s", r.Seen[s], s)
				if never := slices.Contains(onlyKeyed, s) && class == model.Opaque; never != (r.Seen[s] == 0) {
					t.Errorf("%v: seen on %d edges", s, r.Seen[s])
				}
			}
		})
	}
}

// onlyKeyed are the situations that an opaque operation must never be in.
var onlyKeyed = []model.Situation{model.ReRan, model.SpokeForAll, model.Repeated, model.Forgot, model.OverdueEffect}

type breach struct {
	bug       model.Bug
	class     model.Class
	invariant string
}

// broken says which bug breaks which invariant. Every bug and every invariant is among them, so each has been seen to be found, and to find.
var broken = []breach{
	{model.RerunOpaque, model.Opaque, "an opaque effect happens twice only when a person wrongly said 'not applied' and it was run again"},
	{model.ExpiredRuns, model.Opaque, "an opaque effect happens twice only when a person wrongly said 'not applied' and it was run again"},
	{model.NewPartnerKey, model.Keyed, "a keyed effect never happens twice inside the partner's window, whatever a person said"},
	{model.RerunAfterWindow, model.Keyed, "a keyed effect happens twice after it only through overdue bytes or a person who wrongly said 'not applied'"},
	{model.LaterRefusalCompletes, model.Keyed, "the record never says 'nothing happened' of an effect that happened"},
	{model.NoFence, model.Opaque, "the record never says 'nothing happened' of an effect that happened"},
	{model.LapseIsNoEffect, model.Opaque, "the record never says 'nothing happened' of an effect that happened"},
	{model.VersionNotChecked, model.Opaque, "the record never says 'nothing happened' of an effect that happened"},
	{model.BoundAfterWindow, model.Keyed, "the record never says 'nothing happened' of an effect that happened"},
	{model.BoundForLater, model.Keyed, "the record never says 'nothing happened' of an effect that happened"},
	{model.OpenIsSuccess, model.Opaque, "the record never says 'applied' of an effect that did not happen, unless a person said so"},
	{model.LaterRefusalCompletes, model.Opaque, "a record that nobody runs is what the verdict over its ends says, unless a person settled it"},
	{model.AnswerBeforeCommit, model.Opaque, "an answer that was given is the recorded one"},

	{model.LapseIsNoEffect, model.Keyed, "no caller is told 'nothing happened' of an effect that happened"},
	{model.OpenIsSuccess, model.Keyed, "no caller is told 'applied' of an effect that did not happen, unless a person said so"},
	{model.CompletedChanges, model.Keyed, "every caller is given the same answer"},

	{model.CompletedChanges, model.Opaque, "a completed record never changes until its window is over"},
	{model.ExpiredRuns, model.Keyed, "an expired key never runs"},
	{model.UnclearExpires, model.Opaque, "open records never expire"},
	{model.PurgeRunning, model.Opaque, "open records never expire"},
	{model.TokenReset, model.Opaque, "attempts are numbered one after the other and never reset"},
	{model.RenewalRevives, model.Opaque, "a lost lease is never held again"},
	{model.ResolveRunning, model.Opaque, "a person never settles a running operation"},
	{model.OpenReplaces, model.Opaque, "a certificate never gives way to 'open' or 'unknown'"},

	{model.WrongEnd, model.Keyed, "an attempt's word changes no other attempt's certificate"},
	{model.SuccessOvertaken, model.Keyed, "a success completes an open or not applied record, whichever attempt it is"},
	{model.NoAlarm, model.Opaque, "a success against 'nothing happened' raises an alarm"},
	{model.NoAlarm, model.Opaque, "a second success of an opaque effect raises an alarm"},
	{model.AlarmOnRepeat, model.Opaque, "without a wrong statement or overdue bytes nothing raises an alarm"},
}

func TestTheCheckerFindsEveryBugAndEveryInvariantCanBeBroken(t *testing.T) {
	t.Parallel()
	if underRace {
		t.Skip("one goroutine, and ten times slower under the race detector")
	}
	for _, b := range broken {
		t.Run(b.bug.String()+" "+b.class.String(), func(t *testing.T) {
			t.Parallel()
			r := model.Explore(model.Rules{Class: b.class, MaxAttempts: model.Attempts, Bug: b.bug}, b.invariant)
			if r.Violation == nil {
				t.Fatalf("not found in %d states: %s", r.States, b.invariant)
			}
			t.Logf("%d states\n%v", r.States, r.Violation)
		})
	}
	for _, bug := range model.AllBugs() {
		if !slices.ContainsFunc(broken, func(b breach) bool { return b.bug == bug }) {
			t.Errorf("no case for the bug %v", bug)
		}
	}
	for _, name := range model.Invariants() {
		if !slices.ContainsFunc(broken, func(b breach) bool { return b.invariant == name }) {
			t.Errorf("no bug breaks: %s", name)
		}
	}
}

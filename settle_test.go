package einmal_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/einmal-dev/einmal"
	"github.com/einmal-dev/einmal/contract"
)

// zombie starts an attempt that loses its lease, and returns how to let it speak and what its caller got.
func (w *world) zombie(op *einmal.Op, key string) (speak func(einmal.Ending) (einmal.Outcome, error)) {
	w.t.Helper()
	word := make(chan einmal.Ending)
	type answer struct {
		out einmal.Outcome
		err error
	}
	got := make(chan answer)
	go func() {
		out, err := w.eng.Run(context.Background(), op, request(key), func(context.Context) einmal.Ending { return <-word })
		got <- answer{out, err}
	}()
	synctest.Wait()
	time.Sleep(op.Policy().Deadline + op.Policy().Lease + w.poll)
	if o := w.state(op, key); o.State != einmal.StateUnclear {
		w.t.Fatalf("a silent attempt left the record %v", o.State)
	}
	return func(e einmal.Ending) (einmal.Outcome, error) {
		word <- e
		a := <-got
		return a.out, a.err
	}
}

func (w *world) resolve(op *einmal.Op, key string, as einmal.ResolveAs) einmal.Operation {
	w.t.Helper()
	o := w.state(op, key)
	o, err := w.eng.Resolve(context.Background(), einmal.Resolution{
		ID: o.ID, Version: o.Version, As: as, Actor: "eve", Reason: "asked the bank", AcceptLive: true,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return o
}

// alarms are the events that somebody should look at.
func (w *world) alarms() (names []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, ev := range w.events {
		if ev.Alarm {
			names = append(names, ev.Name)
		}
	}
	return names
}

func TestLateWordsOfAnAttemptWhoseLeaseIsLost(t *testing.T) {
	refused := einmal.Ending{End: einmal.EndRefused, Result: &einmal.Result{Status: 422}}
	noEffect := einmal.Ending{End: einmal.EndNoEffect}
	open := einmal.Ending{End: einmal.EndOpen}
	tests := []struct {
		name    string
		before  einmal.ResolveAs // what a person says before the word comes
		word    einmal.Ending
		state   einmal.State
		verdict einmal.Verdict
		alarm   bool
	}{
		{"success completes an unclear record", "", success("x"), einmal.StateCompleted, einmal.VerdictApplied, false},
		{"a refusal of the only attempt completes an unclear record", "", refused, einmal.StateCompleted, einmal.VerdictRefused, false},
		{"a certificate of the only attempt makes an unclear record not applied", "", noEffect, einmal.StateNotApplied, 0, false},
		{"open leaves an unclear record unclear", "", open, einmal.StateUnclear, 0, false},
		{"success completes a record against a person's not-applied, with an alarm", einmal.ResolveNotApplied, success("x"), einmal.StateCompleted, einmal.VerdictApplied, true},
		{"open does not replace a person's certificate", einmal.ResolveNotApplied, open, einmal.StateNotApplied, 0, false},
		{"a certificate agrees with a person's not-applied", einmal.ResolveNotApplied, noEffect, einmal.StateNotApplied, 0, false},
		{"a refusal after a person's not-applied is the answer", einmal.ResolveNotApplied, refused, einmal.StateCompleted, einmal.VerdictRefused, false},
		{"success after withdrawn is evidence with an alarm", einmal.ResolveWithdrawn, success("x"), einmal.StateCompleted, einmal.VerdictWithdrawn, true},
		{"success after a person's applied agrees", einmal.ResolveApplied, success("x"), einmal.StateCompleted, einmal.VerdictApplied, false},
		{"no effect after a person's applied is evidence with an alarm", einmal.ResolveApplied, noEffect, einmal.StateCompleted, einmal.VerdictApplied, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				op := w.eng.Define(policy("pay"))
				speak := w.zombie(op, "k")
				var settled einmal.Operation
				if tt.before != "" {
					settled = w.resolve(op, "k", tt.before)
				}
				_, _ = speak(tt.word)
				got := w.state(op, "k")
				if got.State != tt.state || got.Verdict != tt.verdict {
					t.Errorf("%v %v, want %v %v", got.State, got.Verdict, tt.state, tt.verdict)
				}
				if alarmed := len(w.alarms()) > 0; alarmed != tt.alarm {
					t.Errorf("alarms %v, want one: %v", w.alarms(), tt.alarm)
				}
				for _, life := range w.eng.AttemptsOver(got) {
					if !life.Over && got.State != einmal.StateCompleted {
						t.Errorf("attempt %d has spoken and is not over: %s", life.Attempt, life.Why)
					}
				}
				if settled.State == einmal.StateCompleted && got.Version != settled.Version {
					t.Error("a completed record changed")
				}
				line, err := w.eng.Timeline(t.Context(), got.ID)
				if err != nil {
					t.Fatal(err)
				}
				if last := line[len(line)-1]; last.Attempt != 1 || last.Actor != einmal.ActorAttempt {
					t.Errorf("the word is not in the timeline: %+v", line)
				}
			})
		})
	}
}

func TestALateSuccessCompletesARecordWhoseNextAttemptRuns(t *testing.T) {
	inWorldWithPoll(t, time.Minute, func(t *testing.T, w *world) {
		op := w.eng.Define(keyed("pay"))
		speak := w.zombie(op, "k")
		second := make(chan einmal.Ending)
		type answer struct {
			out einmal.Outcome
			err error
		}
		answers := make(chan answer)
		go func() {
			out, err := w.eng.Run(context.Background(), op, request("k"), func(context.Context) einmal.Ending { return <-second })
			answers <- answer{out, err}
		}()
		synctest.Wait()
		if out, err := speak(success("first")); err != nil || !out.Own {
			t.Fatalf("the late attempt's caller: %+v, %v", out, err)
		}
		second <- success("second")
		if a := <-answers; a.err != nil || a.out.Own || string(a.out.Operation.Result.Body) != "first" {
			t.Fatalf("the second attempt's caller must get the recorded answer: %+v, %v", a.out, a.err)
		}
		if evs := w.told(einmal.EventEvidence); len(evs) != 1 || evs[0].Alarm {
			t.Errorf("an equal success of a keyed operation is quiet evidence: %+v", evs)
		}
	})
}

func TestALateRefusalWhileTheNextAttemptRunsIsKeptForTheVerdict(t *testing.T) {
	inWorldWithPoll(t, time.Minute, func(t *testing.T, w *world) {
		op := w.eng.Define(keyed("pay"))
		speak := w.zombie(op, "k")
		second := make(chan einmal.Ending)
		done := make(chan error)
		go func() {
			_, err := w.eng.Run(context.Background(), op, request("k"), func(context.Context) einmal.Ending { return <-second })
			done <- err
		}()
		synctest.Wait()
		_, err := speak(einmal.Ending{End: einmal.EndRefused, Result: &einmal.Result{Status: 422, Body: []byte("no")}})
		problem(t, err, contract.InProgress, contract.NextWait)
		if got := w.state(op, "k"); got.State != einmal.StateRunning || got.Attempt != 2 {
			t.Fatalf("%v %d", got.State, got.Attempt)
		}
		second <- einmal.Ending{End: einmal.EndNoEffect}
		<-done
		got := w.state(op, "k")
		if got.Verdict != einmal.VerdictRefused || got.Result.Status != 422 || string(got.Result.Body) != "no" {
			t.Fatalf("%v %+v", got.Verdict, got.Result)
		}
	})
}

func TestTwoSuccessesOfAnOpaqueOperationAreAlarming(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		op := w.eng.Define(policy("pay"))
		speak := w.zombie(op, "k")
		w.resolve(op, "k", einmal.ResolveNotApplied) // wrongly: the known exception
		if out, err := w.eng.Run(t.Context(), op, request("k"), func(context.Context) einmal.Ending { return success("again") }); err != nil || !out.Own {
			t.Fatal(err)
		}
		if out, err := speak(success("first")); err != nil || out.Own || string(out.Operation.Result.Body) != "again" {
			t.Fatalf("%+v, %v", out, err)
		}
		if len(w.alarms()) != 1 {
			t.Errorf("alarms %v", w.alarms())
		}
	})
}

// unclear makes an unclear operation.
func (w *world) unclear(op *einmal.Op, key string) einmal.Operation {
	w.t.Helper()
	if _, err := w.eng.Run(context.Background(), op, request(key), ends(einmal.EndOpen)); err != nil {
		w.t.Fatal(err)
	}
	return w.state(op, key)
}

// good is a resolution with nothing wrong.
func good(o einmal.Operation, as einmal.ResolveAs) einmal.Resolution {
	return einmal.Resolution{ID: o.ID, Version: o.Version, As: as, Actor: "eve", Reason: "asked the bank", Link: "https://example.com/ticket"}
}

func TestResolvingAsAppliedWithTheAnswer(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		op := w.eng.Define(policy("pay"))
		r := good(w.unclear(op, "a"), einmal.ResolveApplied)
		r.Result = &einmal.Result{Status: 201, Body: []byte("paid")}
		if _, err := w.eng.Resolve(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		out, err := w.eng.Run(t.Context(), op, request("a"), never(t))
		if err != nil || string(out.Operation.Result.Body) != "paid" {
			t.Fatalf("%+v, %v", out, err)
		}
		line, _ := w.eng.Timeline(t.Context(), r.ID)
		if last := line[len(line)-1]; last.By != "eve" || last.Link != r.Link || last.Reason != "applied: asked the bank" || last.Actor != einmal.ActorPerson {
			t.Errorf("%+v", last)
		}
	})
}

func TestResolvingAsAppliedWithoutTheAnswer(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		op := w.eng.Define(policy("pay"))
		if _, err := w.eng.Resolve(t.Context(), good(w.unclear(op, "b"), einmal.ResolveApplied)); err != nil {
			t.Fatal(err)
		}
		if out, err := w.eng.Run(t.Context(), op, request("b"), never(t)); err != nil || out.Operation.Result.Kept != einmal.KeptUnknown {
			t.Fatalf("%+v, %v", out, err)
		}
	})
}

func TestResolvingAsWithdrawn(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		op := w.eng.Define(policy("pay"))
		if _, err := w.eng.Resolve(t.Context(), good(w.unclear(op, "c"), einmal.ResolveWithdrawn)); err != nil {
			t.Fatal(err)
		}
		_, err := w.eng.Run(t.Context(), op, request("c"), never(t))
		problem(t, err, contract.Withdrawn, contract.NextFix)
	})
}

func TestNotAppliedRunsWithTheNextRequestUnlessItIsWithdrawnBefore(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		op := w.eng.Define(policy("pay"))
		o, err := w.eng.Resolve(t.Context(), good(w.unclear(op, "d"), einmal.ResolveNotApplied))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.eng.Resolve(t.Context(), good(o, einmal.ResolveApplied)); !errors.As(err, new(*einmal.ResolveError)) {
			t.Errorf("applied after not applied: %v", err)
		}
		if out, err := w.eng.Run(t.Context(), op, request("d"), func(context.Context) einmal.Ending { return success("d") }); err != nil || out.Operation.Attempt != 2 {
			t.Fatalf("%+v, %v", out, err)
		}
		if o, err = w.eng.Resolve(t.Context(), good(w.unclear(op, "e"), einmal.ResolveNotApplied)); err != nil {
			t.Fatal(err)
		}
		if _, err := w.eng.Resolve(t.Context(), good(o, einmal.ResolveWithdrawn)); err != nil {
			t.Fatal(err)
		}
	})
}

func TestResolutionsThatAreRefused(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		op := w.eng.Define(policy("pay"))
		o := w.unclear(op, "f")
		for name, spoil := range map[string]func(*einmal.Resolution){
			"no reason":               func(r *einmal.Resolution) { r.Reason = " " },
			"no actor":                func(r *einmal.Resolution) { r.Actor = "" },
			"an unknown word":         func(r *einmal.Resolution) { r.As = "done" },
			"an answer, not applied":  func(r *einmal.Resolution) { r.As, r.Result = einmal.ResolveNotApplied, &einmal.Result{} },
			"an answer and withdrawn": func(r *einmal.Resolution) { r.As, r.Result = einmal.ResolveWithdrawn, &einmal.Result{} },
		} {
			r := good(o, einmal.ResolveApplied)
			spoil(&r)
			if _, err := w.eng.Resolve(t.Context(), r); !errors.As(err, new(*einmal.ResolveError)) {
				t.Errorf("%s: %v", name, err)
			}
		}
		for _, version := range []int64{0, o.Version - 1, o.Version + 1} {
			r := good(o, einmal.ResolveApplied)
			r.Version = version
			if _, err := w.eng.Resolve(t.Context(), r); !errors.Is(err, einmal.ErrStale) {
				t.Errorf("version %d: %v", version, err)
			}
		}
		for _, id := range []string{"", "op_", "op_00000000000000000000000000", o.ID + "0", "xx_" + o.ID[3:]} {
			r := good(o, einmal.ResolveApplied)
			r.ID = id
			if _, err := w.eng.Resolve(t.Context(), r); !errors.Is(err, einmal.ErrNotFound) {
				t.Errorf("id %q: %v", id, err)
			}
		}
		if got := w.state(op, "f"); got.Version != o.Version {
			t.Error("a refused resolution changed the record")
		}
	})
}

func TestNeitherARunningNorASettledOperationCanBeResolved(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		op := w.eng.Define(policy("pay"))
		release := make(chan struct{})
		go func() {
			_, _ = w.eng.Run(context.Background(), op, request("g"), func(context.Context) einmal.Ending { <-release; return success("g") })
		}()
		synctest.Wait()
		for range 2 {
			if _, err := w.eng.Resolve(t.Context(), good(w.state(op, "g"), einmal.ResolveWithdrawn)); !errors.As(err, new(*einmal.ResolveError)) {
				t.Errorf("%v", err)
			}
			if release != nil {
				close(release)
				release = nil
				synctest.Wait()
			}
		}
	})
}

func TestNotAppliedIsRefusedWhileAnAttemptIsNotProvablyOver(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		op := w.eng.Define(policy("pay"))
		speak := w.zombie(op, "k")
		o := w.state(op, "k")
		r := einmal.Resolution{ID: o.ID, Version: o.Version, As: einmal.ResolveNotApplied, Actor: "eve", Reason: "r"}
		var refused *einmal.ResolveError
		if _, err := w.eng.Resolve(t.Context(), r); !errors.As(err, &refused) {
			t.Fatalf("%v", err)
		}
		_, _ = speak(einmal.Ending{End: einmal.EndOpen}) // now it is over, though nobody knows
		o = w.state(op, "k")
		r.Version = o.Version
		if _, err := w.eng.Resolve(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	})
}

func TestKeysThatKnowTheirAge(t *testing.T) {
	inWorldWithPoll(t, time.Hour, func(t *testing.T, w *world) {
		p := policy("order")
		p.KeyAge = einmal.KeyAgeUUIDv7
		op := w.eng.Define(p)
		now := time.Now()
		key := func(at time.Time) string { return uuidv7(at) }
		old, future, fresh := key(now.Add(-25*time.Hour)), key(now.Add(6*time.Minute)), key(now.Add(-23*time.Hour))
		_, err := w.eng.Run(t.Context(), op, request(old), never(t))
		if p := problem(t, err, contract.KeyExpired, contract.NextResolve); p.Known == nil || *p.Known {
			t.Errorf("%+v", p)
		}
		_, err = w.eng.Run(t.Context(), op, request(future), never(t))
		problem(t, err, contract.KeyInvalid, contract.NextFix)
		_, err = w.eng.Run(t.Context(), op, request("no-uuid"), never(t))
		problem(t, err, contract.KeyInvalid, contract.NextFix)
		if _, err := w.eng.Run(t.Context(), op, request(fresh), func(context.Context) einmal.Ending { return success("x") }); err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Hour) // older than the window by its own time, but there is a record
		if out, err := w.eng.Run(t.Context(), op, request(fresh), never(t)); err != nil || out.Own {
			t.Fatalf("%+v, %v", out, err)
		}
	})
}

func TestAnOldKeyIsRecognisedAsATombstoneAndThenForgotten(t *testing.T) {
	inWorldWithPoll(t, time.Hour, func(t *testing.T, w *world) {
		op := w.eng.Define(policy("order"))
		run := func() (einmal.Outcome, error) {
			return w.eng.Run(t.Context(), op, request("k"), func(context.Context) einmal.Ending { return success("x") })
		}
		if out, err := run(); err != nil || !out.Own {
			t.Fatal(err)
		}
		time.Sleep(26 * time.Hour)
		_, err := run()
		if p := problem(t, err, contract.KeyExpired, contract.NextResolve); p.Known == nil || !*p.Known {
			t.Errorf("%+v", p)
		}
		other := request("k")
		other.Parts.Body = []byte("other")
		_, err = w.eng.Run(t.Context(), op, other, never(t))
		problem(t, err, contract.KeyReused, contract.NextResolve)
		other = request("k")
		other.Principal = "bob"
		_, err = w.eng.Run(t.Context(), op, other, never(t))
		problem(t, err, contract.NotYours, contract.NextResolve)
		time.Sleep(31 * 24 * time.Hour)
		if out, err := run(); err != nil || !out.Own || out.Operation.Attempt != 1 {
			t.Fatalf("after the tombstone: %+v, %v", out, err)
		}
	})
}

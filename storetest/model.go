package storetest

import (
	"slices"
	"time"

	"github.com/einmal-dev/einmal"
)

// reserved is the record that a reservation must make, given what the store alone decides: the ID and the time.
func reserved(r einmal.Reservation, got einmal.Record) einmal.Record {
	return einmal.Record{
		ID: got.ID, Identity: r.Identity, Principal: r.Principal, Fingerprint: r.Fingerprint, PartnerKey: r.PartnerKey, Terms: r.Terms,
		State: einmal.StateRunning, Attempt: 1, Version: 1, Nonce: r.Nonce, Ends: []einmal.AttemptEnd{{Attempt: 1, Holder: r.Holder}},
		Created: got.Now, Changed: got.Now, LeaseUntil: got.Now.Add(r.Terms.Lease), Due: got.Now.Add(r.Terms.Lease),
		RecognisedUntil: got.Now.Add(r.Terms.Window),
	}
}

// changed is the record that a change must leave, made at the time now.
func changed(rec einmal.Record, c einmal.Change, now time.Time) einmal.Record {
	rec.Now = now
	switch c.Kind {
	case einmal.Transition:
		if rec.State != c.State {
			rec.Escalations = 0
		}
		rec.State, rec.Attempt, rec.Verdict, rec.Reason, rec.Nonce, rec.Attention = c.State, c.Attempt, c.Verdict, c.Reason, c.Nonce, c.Attention
		rec.Ends, rec.Result = c.Ends, c.Result
		rec.Version++
		rec.Changed = now
		if c.LeaseFor != 0 {
			rec.LeaseUntil = now.Add(c.LeaseFor)
		}
		if c.DueIn != 0 {
			rec.Due = now.Add(c.DueIn)
		}
		if c.Recognise != 0 && now.Add(c.Recognise).After(rec.RecognisedUntil) {
			rec.RecognisedUntil = now.Add(c.Recognise)
		}
		if rec.State != einmal.StateRunning {
			rec.LeaseUntil = time.Time{}
		}
		if !rec.State.Open() {
			rec.Due = time.Time{}
		}
	case einmal.Renewal:
		rec.LeaseUntil, rec.Due = now.Add(c.LeaseFor), now.Add(c.LeaseFor)
	case einmal.Note:
		if c.DueIn != 0 {
			rec.Due = now.Add(c.DueIn)
			rec.Escalations++
		}
		rec.Attention = rec.Attention || c.Attention
	}
	return rec
}

// expired is the tombstone that Purge must make of a record.
func expired(rec einmal.Record, now time.Time) einmal.Record {
	rec.Now, rec.Changed = now, now
	rec.State, rec.Result = einmal.StateExpired, nil
	rec.LeaseUntil, rec.Due = time.Time{}, time.Time{}
	rec.Version++
	rec.Ends = slices.Clone(rec.Ends)
	for i := range rec.Ends {
		rec.Ends[i].Result = nil
	}
	return rec
}

// to is a transition of a record, fenced in every way, that leaves what it can.
func to(rec einmal.Record, state einmal.State) einmal.Change {
	return einmal.Change{
		ID: rec.ID, Kind: einmal.Transition, Guard: einmal.Guard{State: rec.State, Attempt: rec.Attempt, Version: rec.Version}, Nonce: nonce(),
		State: state, Attempt: rec.Attempt, Ends: rec.Ends, Verdict: rec.Verdict, Result: rec.Result, Reason: rec.Reason, Attention: rec.Attention,
	}
}

// toCompleted is an attempt's success.
func toCompleted(rec einmal.Record, r *einmal.Result) einmal.Change {
	c := to(rec, einmal.StateCompleted)
	c.Verdict, c.Result, c.Ends = einmal.VerdictApplied, r, nil
	return c
}

// toUnclear is a lost lease.
func toUnclear(rec einmal.Record) einmal.Change {
	c := to(rec, einmal.StateUnclear)
	c.Ends = withEnd(rec, einmal.AttemptEnd{Attempt: rec.Attempt, End: einmal.EndUnknown, By: einmal.ActorRecovery, Holder: holderOf(rec)})
	c.DueIn = rec.Terms.UnclearDeadline
	c.Reason = "lease lost"
	return c
}

// toNotApplied is an attempt's own certificate that nothing happened.
func toNotApplied(rec einmal.Record) einmal.Change {
	c := to(rec, einmal.StateNotApplied)
	c.Ends = nil
	return c
}

// toRunning starts one more attempt.
func toRunning(rec einmal.Record) einmal.Change {
	c := to(rec, einmal.StateRunning)
	c.Guard.Start = true
	c.Attempt++
	c.Ends = withEnd(rec, einmal.AttemptEnd{Attempt: c.Attempt, Holder: einmal.Holder{Incarnation: "next", Host: "host", Boot: "boot"}})
	c.LeaseFor, c.DueIn = rec.Terms.Lease, rec.Terms.Lease
	return c
}

func renewal(rec einmal.Record) einmal.Change {
	return einmal.Change{
		ID: rec.ID, Kind: einmal.Renewal, Guard: einmal.Guard{State: einmal.StateRunning, Attempt: rec.Attempt, LeaseHeld: true}, LeaseFor: rec.Terms.Lease,
	}
}

func evidence(rec einmal.Record) einmal.Change {
	return einmal.Change{ID: rec.ID, Kind: einmal.Note, Entry: entry(rec, einmal.EventEvidence)}
}

func entry(rec einmal.Record, event string) *einmal.Entry {
	return &einmal.Entry{Event: event, From: rec.State, To: rec.State, Attempt: rec.Attempt, Actor: einmal.ActorPerson, By: "a person", Reason: "a reason"}
}

func answer(body string) *einmal.Result {
	return &einmal.Result{Status: 201, Header: []einmal.Field{{Name: "Content-Type", Value: "text/plain"}}, Body: []byte(body)}
}

// withEnd returns the record's ends with one replaced or added.
func withEnd(rec einmal.Record, end einmal.AttemptEnd) []einmal.AttemptEnd {
	ends := slices.Clone(rec.Ends)
	i := slices.IndexFunc(ends, func(e einmal.AttemptEnd) bool { return e.Attempt == end.Attempt })
	if i < 0 {
		return append(ends, end)
	}
	ends[i] = end
	return ends
}

func holderOf(rec einmal.Record) einmal.Holder {
	for _, e := range rec.Ends {
		if e.Attempt == rec.Attempt {
			return e.Holder
		}
	}
	return einmal.Holder{}
}

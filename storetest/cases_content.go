package storetest

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/einmal-dev/einmal"
	"github.com/einmal-dev/einmal/fingerprint"
)

var contentCases = []testCase{
	{
		name: "results are kept to the byte",
		rule: "a Result comes back as it was given: status, header fields in their order with their case and their repetitions, and every byte of the body: " +
			"a replay must be the answer that was recorded",
		check: func(e *env) {
			for name, result := range awkwardResults() {
				rec := e.running()
				e.apply(rec, toCompleted(rec, result))
				e.equal("the result "+name, e.get(e.open(), rec.ID).Result, result)
			}
		},
	},
	{
		name: "no result is not an empty one",
		rule: "a nil Result stays nil and an empty one is there: a withdrawn operation has no answer, a 204 has one without a body",
		check: func(e *env) {
			rec := e.running()
			withdrawn := toCompleted(rec, nil)
			withdrawn.Verdict = einmal.VerdictWithdrawn
			rec = e.apply(rec, withdrawn)
			if rec.Result != nil {
				e.fail("nil became %+v", rec.Result)
			}
			rec = e.running()
			rec = e.apply(rec, toCompleted(rec, &einmal.Result{}))
			if rec.Result == nil {
				e.fail("an empty result became nil")
			}
		},
	},
	{
		name: "the ends of attempts are kept as given",
		rule: "Ends come back in their order with attempt, end, author, holder and answer, and a store neither adds nor drops any: " +
			"the verdict is taken over all of them, and one lost end is a wrong verdict",
		check: func(e *env) {
			rec := e.running()
			for _, ends := range awkwardEnds() {
				c := to(rec, einmal.StateUnclear)
				c.Attempt, c.Ends = rec.Attempt+1, ends
				rec = e.apply(rec, c)
				rec = e.apply(rec, evidence(rec))
			}
			done := toCompleted(rec, answer("done"))
			done.Ends = awkwardEnds()[0]
			e.apply(rec, done)
		},
	},
	{
		name: "what a reservation says is kept as given",
		rule: "principal, fingerprint, partner key, nonce and holder come back byte by byte: the first two decide who is answered, " +
			"the partner key what a partner deduplicates on",
		check: func(e *env) {
			for i, s := range []string{"", "ü 鍵 🔑", "a'b\"c\\d", "with\x00nul", strings.Repeat("long", 1000), " spaces ", "NULL"} {
				r := e.request()
				r.Principal, r.PartnerKey = s, s
				r.Holder = einmal.Holder{Incarnation: s, Host: s + "host", Boot: s + "boot"}
				for k := range r.Fingerprint.Hash {
					r.Fingerprint.Hash[k] = byte(i*32 + k)
				}
				switch i {
				case 0:
					r.Nonce, r.Fingerprint, r.Holder = einmal.Nonce{}, fingerprint.Sum{}, einmal.Holder{}
				case 1:
					r.Nonce = einmal.Nonce(bytes.Repeat([]byte{0xff}, len(r.Nonce)))
				}
				rec := e.reserve(r)
				e.same("over another handle", e.get(e.b, rec.ID), rec)
			}
		},
	},
	{
		name: "every record keeps its own terms",
		rule: "Terms come back exactly, to the nanosecond, and each record has those of its own reservation: recovery and expiry go by them alone, " +
			"and a store that keeps equal ones once must not take different ones for equal",
		check: func(e *env) {
			recs := []einmal.Record{e.running()}
			for i := range reflect.TypeFor[einmal.Terms]().NumField() {
				for _, more := range []int64{1, 1_000_001} {
					r := e.request()
					switch field := reflect.ValueOf(&r.Terms).Elem().Field(i); field.Kind() {
					case reflect.String:
						field.SetString(fmt.Sprint(field.String(), more))
					case reflect.Uint8:
						field.SetUint(field.Uint() + uint64(more%7))
					default:
						field.SetInt(field.Int() + more)
					}
					recs = append(recs, e.reserve(r))
				}
			}
			r := e.request()
			r.Terms = einmal.Terms{}
			recs = append(recs, e.reserve(r))
			r = e.request()
			r.Terms.Window, r.Terms.Tombstone, r.Terms.PartnerWindow = 100*365*24*time.Hour, 100*365*24*time.Hour, 100*365*24*time.Hour
			recs = append(recs, e.reserve(r))
			fresh := e.open()
			for _, rec := range recs {
				e.same("a record over a new handle", e.get(fresh, rec.ID), rec)
			}
		},
	},
	{
		name: "reasons are kept as given",
		rule: "Reason comes back as written, whatever a person typed, and an empty one clears it",
		check: func(e *env) {
			rec := e.running()
			for _, reason := range []string{"why", "", "ü 鍵 🔑 'quoted' \"twice\" \\ \x00", strings.Repeat("long ", 4000), ""} {
				c := to(rec, einmal.StateUnclear)
				c.Reason = reason
				rec = e.apply(rec, c)
			}
		},
	},
	{
		name: "records share no memory with their callers",
		rule: "a store keeps nothing of what it was given and returns nothing that it keeps: a caller that changes its own slice must not change a recorded answer",
		check: func(e *env) {
			rec := e.running()
			body, header := []byte("recorded"), []einmal.Field{{Name: "Location", Value: "/1"}}
			ends := []einmal.AttemptEnd{{Attempt: 1, End: einmal.EndRefused, Result: answer("refused")}}
			want := &einmal.Result{Status: 200, Header: []einmal.Field{{Name: "Location", Value: "/1"}}, Body: []byte("recorded")}
			c := toCompleted(rec, &einmal.Result{Status: 200, Header: header, Body: body})
			c.Ends, c.Entry = ends, entry(rec, einmal.EventEvidence)
			returned, err := e.a.Apply(e.ctx, c)
			e.must(err, "Apply")
			spoil := func(rec einmal.Record) {
				if rec.Result == nil || len(rec.Result.Header) == 0 || len(rec.Result.Body) == 0 || len(rec.Ends) == 0 {
					e.fail("the result or the ends are gone: %+v", rec)
				}
				rec.Result.Body[0], rec.Result.Header[0].Value, rec.Result.Status = 'X', "spoilt", 500
				rec.Ends[0].Result, rec.Ends[0].End = nil, einmal.EndOpen
			}
			body[0], header[0].Value, ends[0].End, c.Entry.Reason = 'X', "spoilt", einmal.EndOpen, "spoilt"
			spoil(returned)
			spoil(e.get(e.a, rec.ID))
			e.timeline(e.a, rec.ID)[0].Reason = "spoilt"
			for _, s := range []einmal.Store{e.a, e.b} {
				kept := e.get(s, rec.ID)
				e.equal("the kept result", kept.Result, want)
				if len(kept.Ends) != 1 || kept.Ends[0].End != einmal.EndRefused || kept.Ends[0].Result == nil {
					e.fail("the kept ends became %+v", kept.Ends)
				}
				if reason := e.timeline(s, rec.ID)[0].Reason; reason != "a reason" {
					e.fail("the kept timeline entry's reason became %q", reason)
				}
			}
		},
	},
}

func awkwardResults() map[string]*einmal.Result {
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	large := make([]byte, 1<<20)
	_, _ = rand.Read(large)
	var many []einmal.Field
	for i := range 200 {
		many = append(many, einmal.Field{Name: fmt.Sprintf("X-%d", (i*7)%13), Value: fmt.Sprint(i)})
	}
	return map[string]*einmal.Result{
		"with every byte":       {Status: 200, Body: every},
		"of zeroes":             {Status: 200, Body: make([]byte, 1000)},
		"of one mebibyte":       {Status: 201, Body: large},
		"without a body":        {Status: 204},
		"with an empty body":    {Status: 200, Body: []byte{}},
		"that is a redirect":    {Status: 303, Header: []einmal.Field{{Name: "Location", Value: "/orders/1"}}},
		"that is not modified":  {Status: 304, Header: []einmal.Field{{Name: "ETag", Value: `W/"1"`}}},
		"that is a refusal":     {Status: 422, Header: []einmal.Field{{Name: "content-type", Value: "application/problem+json"}}, Body: []byte("{}")},
		"of a made-up status":   {Status: 599, Body: []byte("no")},
		"that is too large":     {Status: 200, Header: []einmal.Field{{Name: "Content-Type", Value: "video/mp4"}}, Kept: einmal.KeptTooLarge},
		"that is not known":     {Kept: einmal.KeptUnknown},
		"with many fields":      {Status: 200, Header: many, Body: []byte("many")},
		"with repeated fields":  {Status: 200, Header: []einmal.Field{{Name: "Link", Value: "<b>"}, {Name: "ETag", Value: "1"}, {Name: "Link", Value: "<a>"}, {Name: "link", Value: ""}}},
		"with odd field values": {Status: 200, Header: []einmal.Field{{Name: "X-Latin", Value: "caf\xe9"}, {Name: "X", Value: "a, b;c=\"d\": e"}, {Name: "X", Value: " tab\t "}}},
	}
}

func awkwardEnds() [][]einmal.AttemptEnd {
	var every []einmal.AttemptEnd
	for end := einmal.EndNone; end <= einmal.EndSuccess; end++ {
		for actor := einmal.ActorAttempt; actor <= einmal.ActorAsk; actor++ {
			e := einmal.AttemptEnd{Attempt: len(every) + 1, End: end, By: actor}
			if !end.Certain() {
				e.Holder = einmal.Holder{Incarnation: fmt.Sprintf("incarnation %d", len(every)), Host: "host ü", Boot: "boot"}
			}
			if end == einmal.EndRefused {
				e.Result = answer(fmt.Sprintf("refused %d", len(every)))
			}
			every = append(every, e)
		}
	}
	return [][]einmal.AttemptEnd{
		every,
		nil,
		{{Attempt: 7, End: einmal.EndOpen}}, // earlier ones certified "no effect" themselves and are left out
		{{Attempt: 2, End: einmal.EndRefused, Result: &einmal.Result{}}, {Attempt: 1, End: einmal.EndUnknown, By: einmal.ActorRecovery}},
		{{Attempt: 1 << 30, End: einmal.EndNoEffect, By: einmal.ActorPerson, Result: &einmal.Result{Status: 400, Body: bytes.Repeat([]byte{0, 0xff}, 5000)}}},
		{},
	}
}

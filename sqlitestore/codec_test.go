package sqlitestore_test

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/einmal-dev/einmal"
	"github.com/einmal-dev/einmal/fingerprint"
	"github.com/einmal-dev/einmal/sqlitestore"
)

// anyRecord makes a record of any shape that a store can be given.
func anyRecord(r *rand.Rand) einmal.Record {
	text := func() string { return strings.Repeat(string(rune('a'+r.IntN(26))), r.IntN(40)) }
	maybe := func() bool { return r.IntN(2) == 0 }
	instant := func() time.Time { return time.Unix(1_700_000_000+r.Int64N(1e9), r.Int64N(1e9)).UTC() }
	span := func() time.Duration { return time.Duration(r.Int64N(1e18)) }
	result := func() *einmal.Result {
		res := &einmal.Result{Status: 100 + r.IntN(500), Kept: einmal.Kept(r.IntN(3))}
		for range r.IntN(4) {
			res.Header = append(res.Header, einmal.Field{Name: text(), Value: text()})
		}
		if maybe() {
			res.Body = []byte(text())
		}
		return res
	}
	rec := einmal.Record{
		ID: einmal.ID(1 + r.Int64N(1<<40)), Identity: einmal.Identity{Tenant: text(), Operation: text(), Key: text()}, Principal: text(),
		Fingerprint: fingerprint.Sum{Version: uint8(r.IntN(3))},
		Terms:       einmal.Terms{Owner: text(), Class: einmal.ClassKeyed, Lease: span(), Window: span(), Tombstone: span(), MaxAttempts: r.IntN(9)},
		State:       einmal.States[r.IntN(len(einmal.States))], Verdict: einmal.Verdict(r.IntN(4)), Attempt: r.IntN(1000), Version: r.Int64N(1e6),
		Created: instant(), Changed: instant(), RecognisedUntil: instant(), Escalations: r.IntN(300), Attention: maybe(), Seq: 1 + r.Int64N(1<<40),
	}
	for i := range rec.Nonce {
		rec.Nonce[i], rec.Fingerprint.Hash[i] = byte(r.Uint32()), byte(r.Uint32())
	}
	if maybe() {
		rec.PartnerKey = text()
	}
	if maybe() {
		rec.Reason = text()
	}
	if rec.State == einmal.StateRunning {
		rec.LeaseUntil = instant()
	}
	if rec.State.Open() {
		rec.Due = instant()
		if maybe() && !rec.LeaseUntil.IsZero() {
			rec.Due = rec.LeaseUntil
		}
	}
	if maybe() {
		rec.RecognisedUntil = rec.Created.Add(rec.Terms.Window)
	}
	for i := range r.IntN(4) {
		e := einmal.AttemptEnd{Attempt: i + 1, End: einmal.End(r.IntN(6)), By: einmal.Actor(r.IntN(4))}
		if maybe() {
			e.Holder = einmal.Holder{Incarnation: text() + "x", Host: text(), Boot: text()}
		}
		if maybe() {
			e.Result = result()
		}
		rec.Ends = append(rec.Ends, e)
	}
	if maybe() {
		rec.Result = result()
	}
	return rec
}

func TestEveryRecordComesBackAsItWas(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		want := anyRecord(r)
		var words sqlitestore.Words
		data, head, body := sqlitestore.EncodeRow(&want, &words)
		got, err := sqlitestore.DecodeRow(&want, &words, data, head, body)
		if err != nil {
			t.Fatalf("%+v: %v", want, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("changed on the way (-written +read):\n%s", diff)
		}
	}
}

func TestEveryChangedByteAndEveryCutIsFound(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 4))
	for range 60 {
		want := anyRecord(r)
		var words sqlitestore.Words
		data, head, body := sqlitestore.EncodeRow(&want, &words)
		body = append([]byte{}, body...)
		for name, column := range map[string]*[]byte{"data": &data, "head": &head, "body": &body} {
			whole := *column
			for i := range whole {
				bit := byte(1) << r.IntN(8)
				whole[i] ^= bit
				if got, err := sqlitestore.DecodeRow(&want, &words, data, head, body); err == nil {
					t.Fatalf("byte %d of %s is another, and it was read as %+v", i, name, got)
				}
				whole[i] ^= bit
				*column = whole[:i]
				if got, err := sqlitestore.DecodeRow(&want, &words, data, head, body); err == nil {
					t.Fatalf("%s was cut to %d bytes, and it was read as %+v", name, i, got)
				}
				*column = whole
			}
		}
	}
}

func FuzzDecoders(f *testing.F) {
	r := rand.New(rand.NewPCG(5, 6))
	var words sqlitestore.Words
	for range 20 {
		rec := anyRecord(r)
		data, head, _ := sqlitestore.EncodeRow(&rec, &words)
		f.Add(data[4:])
		if head != nil {
			f.Add(head[4:])
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		sqlitestore.DecodeOthers(data) // must not panic
		rec, err := sqlitestore.DecodeFields(data, &words)
		if err != nil {
			return
		}
		rec.ID = 1
		again, head, body := sqlitestore.EncodeRow(&rec, &words)
		back, err := sqlitestore.DecodeRow(&rec, &words, again, head, body)
		if err != nil {
			t.Fatalf("read %+v and cannot read it again: %v", rec, err)
		}
		if diff := cmp.Diff(rec, back); diff != "" {
			t.Fatalf("changed on the way (-first +second):\n%s", diff)
		}
	})
}

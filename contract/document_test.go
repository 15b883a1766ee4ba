package contract_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/einmal-dev/einmal/contract"
)

func seconds(d time.Duration) contract.Seconds { return contract.Seconds(d) }

func opaqueOperation() contract.Operation {
	return contract.Operation{
		Name: "create-order", Effect: contract.EffectOpaque, Key: contract.KeyRequired, KeyAge: contract.KeyAgeNone,
		Window: seconds(24 * time.Hour), KeepResult: seconds(time.Hour), Tombstone: seconds(720 * time.Hour),
		Deadline: seconds(30 * time.Second), Lease: seconds(10 * time.Second), InFlight: seconds(40 * time.Second),
		MaxBody: 1 << 20, MaxResult: 1 << 20, Statuses: contract.DefaultStatuses(contract.EffectOpaque),
	}
}

func keyedOperation() contract.Operation {
	o := opaqueOperation()
	o.Name, o.Effect, o.Key, o.KeyAge = "payments/create.v2", contract.EffectKeyed, contract.KeyOptional, contract.KeyAgeUUIDv7
	o.PartnerWindow, o.MaxAttempts = seconds(12*time.Hour), 5
	o.Lease, o.InFlight = seconds(1500*time.Millisecond), seconds(31500*time.Millisecond)
	o.Parameters = []string{"X-Account"}
	o.Statuses = contract.StatusesOf(o.Effect, func(status int) contract.End {
		switch status {
		case 409:
			return contract.EndRefused
		case 500:
			return contract.EndNoEffect
		}
		return contract.DefaultEnd(contract.EffectKeyed, status)
	}, []int{401, 403, 503}, []int{402})
	return o
}

func document() contract.Document {
	d := contract.NewDocument("/.idempotency/contract#", opaqueOperation(), keyedOperation())
	d.MaxWait = seconds(10 * time.Second)
	return d
}

func TestDocumentIsReadAsItWasWritten(t *testing.T) {
	t.Parallel()
	for name, d := range map[string]contract.Document{"two operations": document(), "no operation": contract.NewDocument("#")} {
		text, err := d.JSON()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		read, err := contract.DecodeDocument(text)
		if err != nil {
			t.Fatalf("%s: %v\n%s", name, err, text)
		}
		again, err := read.JSON()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if diff := cmp.Diff(string(text), string(again)); diff != "" {
			t.Errorf("%s (-written +read and written):\n%s", name, diff)
		}
		if strings.Contains(string(text), "null") {
			t.Errorf("%s: null in\n%s", name, text)
		}
	}
}

// A client of this version depends on these names and units.
func TestDocumentGolden(t *testing.T) {
	t.Parallel()
	d := contract.NewDocument("/.idempotency/contract#", keyedOperation())
	d.MaxWait = seconds(10 * time.Second)
	d.Situations = d.Situations[:1]
	text, err := d.JSON()
	if err != nil {
		t.Fatal(err)
	}
	want := `{"version":1,"type_base":"/.idempotency/contract#",
		"draft":{"name":"draft-ietf-httpapi-idempotency-key-header-07","status":"expired Internet-Draft, not a standard",
			"url":"https://datatracker.ietf.org/doc/html/draft-ietf-httpapi-idempotency-key-header-07"},
		"key":{"max_length_bytes":255,"quoted":"structured-field string (RFC 9651, section 3.3.3) without parameters",
			"bare":"printable ASCII without space; names the same key as the same text in quotes","bare_forbidden":"\",;\\"},
		"headers":{"key":"Idempotency-Key","replayed":"Idempotent-Replayed","recorded":"Idempotency-Recorded","ignored":"Idempotency-Ignored"},
		"max_wait_seconds":10,
		"operations":[{"name":"payments/create.v2","effect":"keyed","key":"optional","key_age":"uuidv7","window_seconds":86400,
			"keep_result_seconds":3600,"tombstone_seconds":2592000,"deadline_seconds":30,"lease_seconds":1.5,"in_flight_seconds":31.5,
			"partner_window_seconds":43200,"max_attempts":5,"max_body_bytes":1048576,"max_result_bytes":1048576,"parameters":["X-Account"],
			"statuses":{"success":["200-399"],"refused":["400","402","404-406","409-417","422","428","451"],
				"no_effect":["401","403","421","425","429","431","500"],
				"open":["407-408","418-420","423-424","426-427","430","432-450","452-499","501-599"],
				"refuses_before_effect":[401,403],"bound_to_key":[402],"overrides":{"409":"refused","500":"no_effect"}}}],
		"situations":[{"kind":"key-missing","status":400,"title":"This operation needs an Idempotency-Key","next":"fix",
			"means":"The request carried no key, and this operation requires one. Nothing was executed.",
			"do":"Send the request with an Idempotency-Key of your own making, and keep the key for retries."}]}`
	if diff := cmp.Diff(decode(t, want), decode(t, string(text))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func decode(t *testing.T, text string) any {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestDecodeDocumentIsStrict(t *testing.T) {
	t.Parallel()
	b, err := document().JSON()
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	tests := []struct{ name, old, new string }{
		{"another version", `"version": 1`, `"version": 2`},
		{"no version", `"version": 1,`, ``},
		{"an unknown member", `"version": 1,`, `"version": 1, "more": true,`},
		{"an unknown member deep inside", `"name": "create-order",`, `"name": "create-order", "owner": "x",`},
		{"a member twice", `"effect": "opaque",`, `"effect": "opaque", "effect": "opaque",`},
		{"a member twice, in two spellings", `"effect": "opaque",`, `"effect": "opaque", "Effect": "opaque",`},
		{"a member in another case", `"effect": "opaque",`, `"Effect": "opaque",`},
		{"a missing member", `"effect": "opaque",`, ``},
		{"a missing member whose zero value would do", `"max_attempts": 0,`, ``},
		{"a missing list", `"parameters": [],`, ``},
		{"null instead of a list", `"parameters": [],`, `"parameters": null,`},
		{"a second text", "", `{}`},
		{"an unfinished text", text[len(text)-2:], ""},
		{"a name given twice", `"name": "payments/create.v2"`, `"name": "create-order"`},
		{"an operation without a name", `"name": "create-order"`, `"name": ""`},
		{"an unknown effect", `"effect": "opaque"`, `"effect": "magic"`},
		{"an unknown kind of key", `"key": "required"`, `"key": "maybe"`},
		{"an unknown key age", `"key_age": "none"`, `"key_age": "ulid"`},
		{"a duration in text", `"window_seconds": 86400`, `"window_seconds": "24h"`},
		{"a duration with an exponent", `"window_seconds": 86400`, `"window_seconds": 8.64e4`},
		{"a negative duration", `"window_seconds": 86400`, `"window_seconds": -86400`},
		{"no window", `"window_seconds": 86400`, `"window_seconds": 0`},
		{"in flight is not deadline and lease", `"in_flight_seconds": 40`, `"in_flight_seconds": 41`},
		{"a partner window for opaque", `"partner_window_seconds": 0`, `"partner_window_seconds": 60`},
		{"attempts for opaque", `"max_attempts": 0`, `"max_attempts": 5`},
		{"keyed without attempts", `"max_attempts": 5`, `"max_attempts": 0`},
		{"a partner window no longer than in flight", `"partner_window_seconds": 43200`, `"partner_window_seconds": 31.5`},
		{"no body allowed", `"max_body_bytes": 1048576`, `"max_body_bytes": 0`},
		{"a status with two meanings", `"200-399"`, `"200-400"`},
		{"a status without a meaning", `"200-399"`, `"200-398"`},
		{"a range that is none", `"200-399"`, `"399-200"`},
		{"a range with one end twice", `"428"`, `"428-428"`},
		{"a range with a sign", `"428"`, `"+428"`},
		{"a range beyond the final statuses", `"200-399"`, `"100-399"`},
		{"an override that is not so", `"409": "refused"`, `"409": "open"`},
		{"an override that is the default", `"409": "refused"`, `"409": "refused", "410": "refused"`},
		{"an override left out", `"409": "refused",`, ``},
		{"an override of no status", `"409": "refused"`, `"409": "refused", "9": "refused"`},
		{"an override with a leading zero", `"409": "refused"`, `"0409": "refused"`},
		{"refuses before effect, but is success", "401,\n          403\n", "200,\n          403\n"},
		{"bound to key, but no status", "402\n", "99\n"},
		{"an unknown next", `"next": "wait"`, `"next": "hope"`},
		{"a situation twice", `"kind": "key-invalid"`, `"kind": "key-missing"`},
		{"a situation without a status", `"status": 413`, `"status": 0`},
		{"a situation without a text", `"do": "Send a smaller body."`, `"do": ""`},
		{"no type base", `"type_base": "/.idempotency/contract#"`, `"type_base": ""`},
		{"no draft", `"status": "expired Internet-Draft, not a standard"`, `"status": ""`},
		{"no header name", `"replayed": "Idempotent-Replayed"`, `"replayed": ""`},
		{"a negative wait", `"max_wait_seconds": 10`, `"max_wait_seconds": -1`},
		{"no key length", `"max_length_bytes": 255`, `"max_length_bytes": 0`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			broken := text + tt.new
			if tt.old != "" {
				i := strings.LastIndex(text, tt.old)
				if i < 0 {
					t.Fatalf("the document has no %s:\n%s", tt.old, text)
				}
				broken = text[:i] + tt.new + text[i+len(tt.old):]
			}
			if _, err := contract.DecodeDocument([]byte(broken)); !errors.Is(err, contract.ErrDocument) {
				t.Errorf("error %v, want ErrDocument", err)
			} else {
				t.Log(err)
			}
		})
	}
}

func TestDocumentThatContradictsItselfIsNotPublished(t *testing.T) {
	t.Parallel()
	d := document()
	d.Operations[0].InFlight++
	if text, err := d.JSON(); !errors.Is(err, contract.ErrDocument) {
		t.Errorf("JSON: %v\n%s", err, text)
	}
	if page, err := d.Page(""); !errors.Is(err, contract.ErrDocument) {
		t.Errorf("Page: %v\n%s", err, page)
	}
}

func FuzzDecodeDocument(f *testing.F) {
	text, err := document().JSON()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte(`{"version":1}`))
	f.Add([]byte(strings.Repeat("[", 1000)))
	f.Fuzz(func(t *testing.T, text []byte) {
		d, err := contract.DecodeDocument(text)
		if err != nil {
			if !errors.Is(err, contract.ErrDocument) {
				t.Fatalf("%v is not ErrDocument", err)
			}
			return
		}
		written, err := d.JSON()
		if err != nil {
			t.Fatalf("accepted, but cannot be written: %v", err)
		}
		if _, err := contract.DecodeDocument(written); err != nil {
			t.Fatalf("accepted, but not as it is written again: %v", err)
		}
	})
}

func TestDefaultEnds(t *testing.T) {
	t.Parallel()
	// Design section 4, status by status.
	want := map[int]contract.End{}
	for status := 200; status <= 599; status++ {
		want[status] = contract.EndOpen
		if status < 400 {
			want[status] = contract.EndSuccess
		}
	}
	for _, status := range []int{400, 402, 404, 405, 406, 409, 410, 411, 412, 413, 414, 415, 416, 417, 422, 428, 451} {
		want[status] = contract.EndRefused
	}
	for _, status := range []int{401, 403, 421, 425, 429, 431} {
		want[status] = contract.EndNoEffect
	}
	for _, effect := range []string{contract.EffectOpaque, contract.EffectKeyed} {
		if effect == contract.EffectKeyed {
			want[409] = contract.EndOpen
		}
		statuses := contract.DefaultStatuses(effect)
		got := map[int]contract.End{}
		for status := 0; status <= 1000; status++ {
			if end, ok := statuses.End(status); ok {
				got[status] = end
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", effect, diff)
		}
		if len(statuses.Overrides) != 0 {
			t.Errorf("%s: overrides %v", effect, statuses.Overrides)
		}
	}
}

func TestSeconds(t *testing.T) {
	t.Parallel()
	for d, text := range map[time.Duration]string{
		0: "0", 1: "0.000000001", 10 * time.Millisecond: "0.01", time.Second: "1", 1500 * time.Millisecond: "1.5", 24 * time.Hour: "86400",
		10*time.Second + 1: "10.000000001", 292 * 365 * 24 * time.Hour: "9208512000",
	} {
		got, err := json.Marshal(contract.Seconds(d))
		if err != nil || string(got) != text {
			t.Errorf("%v is written as %s, want %s (%v)", d, got, text, err)
		}
		var back contract.Seconds
		if err := json.Unmarshal([]byte(text), &back); err != nil || time.Duration(back) != d {
			t.Errorf("%s is read as %v, want %v (%v)", text, back, d, err)
		}
	}
	for _, text := range []string{"-1", "1e3", `"1"`, "1.0000000001", "9223372036", "99999999999999999999", "true"} {
		var s contract.Seconds
		if err := json.Unmarshal([]byte(text), &s); err == nil {
			t.Errorf("%s is read as %v", text, s)
		}
	}
	if _, err := json.Marshal(contract.Seconds(-1)); err == nil {
		t.Error("a negative duration is written")
	}
}

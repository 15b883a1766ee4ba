package fingerprint_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/einmal-dev/einmal/fingerprint"
)

func TestCanonicalJSON(t *testing.T) {
	t.Parallel()
	nested := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	tests := []struct {
		name, text, want string
		err              error
	}{
		{"an object in another order", `{"b":1,"a":2}`, `{"a":2,"b":1}`, nil},
		{"order inside too", `[{"b":{"d":1,"c":2},"a":[]}]`, `[{"a":[],"b":{"c":2,"d":1}}]`, nil},
		{"the order of an array counts", `[2,1]`, `[2,1]`, nil},
		{"white space does not count", " \t\r\n{ \"a\" :\n[ 1 , 2 ] , \"b\" : { } } \n", `{"a":[1,2],"b":{}}`, nil},
		{"white space in strings counts", `" a  b "`, `" a  b "`, nil},
		{"a name that begins another one", `{"ab":1,"a":2}`, `{"a":2,"ab":1}`, nil},
		{"an empty name", `{"a":1,"":2}`, `{"":2,"a":1}`, nil},
		{"names in upper case are others", `{"a":1,"A":2}`, `{"A":2,"a":1}`, nil},
		{"literals", `[true,false,null]`, `[true,false,null]`, nil},
		{"scalars alone", `null`, `null`, nil},
		{"a number alone with space behind it", "7 \n", `7`, nil},
		{
			"numbers stay as they are written", `[9007199254740993,9007199254740992,1,1.0,1e0,1E0,1e+0,-0,0,0.10]`,
			`[9007199254740993,9007199254740992,1,1.0,1e0,1E0,1e+0,-0,0,0.10]`, nil,
		},
		{"a number of a thousand digits", strings.Repeat("9", 1000), strings.Repeat("9", 1000), nil},
		{"escapes that need not be", `"\u0061\/\u00e4\u20ac"`, `"a/ä€"`, nil},
		{"escapes that must be", `"\"\\\u0022\u005c"`, `"\"\\\"\\"`, nil},
		{
			"control characters have one form", `"\b\f\n\r\t\u0008\u000C\u000a\u000D\u0009\u0000\u001f\u007F"`,
			`"\u0008\u000c\u000a\u000d\u0009\u0008\u000c\u000a\u000d\u0009\u0000\u001f` + "\x7f\"", nil,
		},
		{"what HTML or JavaScript would escape stays", `"<&>\u003c\u2028"`, "\"<&><\u2028\"", nil},
		{"a surrogate pair is its character", `"\ud83d\ude00\uD83D\uDE00😀"`, `"😀😀😀"`, nil},
		{"the replacement character itself is a character", `"\ufffd` + "\ufffd" + `"`, "\"\ufffd\ufffd\"", nil},
		{"a backslash before a u", `"\\u0061"`, `"\\u0061"`, nil},
		{"composed and decomposed letters are different", "[\"\u00e4\",\"a\u0308\"]", "[\"\u00e4\",\"a\u0308\"]", nil},
		{"names are compared after their escapes", `{"\u0062":1,"a":2}`, `{"a":2,"b":1}`, nil},
		{"as deep as is allowed", nested(fingerprint.MaxDepth), nested(fingerprint.MaxDepth), nil},

		{"one level deeper", nested(fingerprint.MaxDepth + 1), "", fingerprint.ErrTooDeep},
		{"a million levels", nested(1_000_000), "", fingerprint.ErrJSON},
		{"objects too deep", strings.Repeat(`{"a":`, 1001) + "1" + strings.Repeat("}", 1001), "", fingerprint.ErrTooDeep},
		{"a member twice", `{"a":1,"b":2,"a":1}`, "", fingerprint.ErrDuplicateMember},
		{"a member twice, inside", `[{"x":{"a":1,"a":2}}]`, "", fingerprint.ErrDuplicateMember},
		{"a member twice, once with an escape", `{"a":1,"\u0061":2}`, "", fingerprint.ErrDuplicateMember},
		{"an empty name twice", `{"":1,"":2}`, "", fingerprint.ErrDuplicateMember},
		{"invalid UTF-8 in a string", "\"\xff\"", "", fingerprint.ErrNotUnicode},
		{"invalid UTF-8 in a name", "{\"\xc3\":1}", "", fingerprint.ErrNotUnicode},
		{"an encoded surrogate", "\"\xed\xa0\x80\"", "", fingerprint.ErrNotUnicode},
		{"an overlong form", "\"\xc0\x80\"", "", fingerprint.ErrNotUnicode},
		{"a first half alone", `"\ud83d"`, "", fingerprint.ErrNotUnicode},
		{"a second half alone", `"\ude00"`, "", fingerprint.ErrNotUnicode},
		{"halves the wrong way round", `"\ude00\ud83d"`, "", fingerprint.ErrNotUnicode},
		{"two first halves", `"\ud83d\ud83d"`, "", fingerprint.ErrNotUnicode},
		{"a half and a letter", `"\ud83dx"`, "", fingerprint.ErrNotUnicode},
		{"a half and another escape", `"\ud83d\n"`, "", fingerprint.ErrNotUnicode},
		{"a half and an escaped quote", `"\ud83d\""`, "", fingerprint.ErrNotUnicode},
		{"a half in a name", `{"\ud83d":1}`, "", fingerprint.ErrNotUnicode},
		{"nothing", ``, "", fingerprint.ErrJSON},
		{"white space only", " ", "", fingerprint.ErrJSON},
		{"two texts", `{} {}`, "", fingerprint.ErrJSON},
		{"text after it", `{}x`, "", fingerprint.ErrJSON},
		{"a trailing comma", `[1,]`, "", fingerprint.ErrJSON},
		{"no comma", `[1 2]`, "", fingerprint.ErrJSON},
		{"no end", `{"a":1`, "", fingerprint.ErrJSON},
		{"a leading zero", `01`, "", fingerprint.ErrJSON},
		{"a number with a plus", `+1`, "", fingerprint.ErrJSON},
		{"not a number", `NaN`, "", fingerprint.ErrJSON},
		{"a comment", `{}//`, "", fingerprint.ErrJSON},
		{"a control character in a string", "\"\n\"", "", fingerprint.ErrJSON},
		{"an unknown escape", `"\x41"`, "", fingerprint.ErrJSON},
		{"a byte order mark", "\ufeff{}", "", fingerprint.ErrJSON},
		{"a name without quotes", `{a:1}`, "", fingerprint.ErrJSON},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := fingerprint.CanonicalJSON([]byte(tt.text))
			if string(got) != tt.want || !errors.Is(err, tt.err) {
				t.Errorf("CanonicalJSON(%.100q) = %.200q, %v\nwant %.200q, %v", tt.text, got, err, tt.want, tt.err)
			}
		})
	}
}

// Not parallel: it reads what the process has allocated.
func TestCanonicalJSONCopiesOnce(t *testing.T) {
	// A large value under many levels, each of which has to be sorted: it must not be copied once for each level.
	const levels = fingerprint.MaxDepth - 1
	text := []byte(strings.Repeat(`{"b":`, levels) + `"` + strings.Repeat("x", 1<<20) + `"` + strings.Repeat(`,"a":0}`, levels))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err := fingerprint.CanonicalJSON(text); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if allocated := after.TotalAlloc - before.TotalAlloc; allocated > uint64(4*len(text)) {
		t.Errorf("%d bytes allocated for a text of %d", allocated, len(text))
	}
}

func TestCanonicalJSONLeavesItsInput(t *testing.T) {
	t.Parallel()
	text := []byte(`{"b":1,"a":"x"}`)
	got, err := fingerprint.CanonicalJSON(text)
	if err != nil || string(text) != `{"b":1,"a":"x"}` {
		t.Fatalf("the input is now %s, %v", text, err)
	}
	clear(text)
	if string(got) != `{"a":"x","b":1}` {
		t.Errorf("the output shares memory with the input: %s", got)
	}
}

func FuzzCanonicalJSON(f *testing.F) {
	for _, seed := range []string{
		`{"b":[1,1.0,-0,1e5],"a":{"y":null,"x":"\u00e4\ud83d\ude00\n"}}`, `"\ud800"`, `{"a":1,"\u0061":2}`, `9007199254740993`, "\"\xff\"", `[[[]]]`, ` 1 `, `"\"\\\/"`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := fingerprint.CanonicalJSON(text)
		if err != nil {
			if got != nil {
				t.Fatalf("an error and %q", got)
			}
			return
		}
		if !json.Valid(got) {
			t.Fatalf("%q is not JSON", got)
		}
		if again, err := fingerprint.CanonicalJSON(got); err != nil || !bytes.Equal(got, again) {
			t.Fatalf("not idempotent: %q, then %q, %v", got, again, err)
		}
		// The same data to a reader that keeps numbers as text, so nothing was lost, and different numbers stay different.
		want := decode(t, text)
		if diff := cmp.Diff(want, decode(t, got)); diff != "" {
			t.Fatalf("another value (-text +canonical):\n%s", diff)
		}
		// Written again by somebody else, with other escapes and order, it is the same.
		other, err := json.MarshalIndent(want, " ", "\t")
		if err != nil {
			t.Fatal(err)
		}
		if same, err := fingerprint.CanonicalJSON(other); err != nil || !bytes.Equal(got, same) {
			t.Fatalf("%q written again as %q: %q, want %q, %v", text, other, same, got, err)
		}
	})
}

func decode(t *testing.T, text []byte) any {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

func FuzzDifferentNumbersStayDifferent(f *testing.F) {
	f.Add(int64(9007199254740993), int64(9007199254740992))
	f.Add(int64(0), int64(1))
	f.Fuzz(func(t *testing.T, a, b int64) {
		for _, form := range []string{"%v", "%v.5", "1%v00000000000000000000", "0.00000000000000000000%v", "%ve-7", `{"n":[%v]}`} {
			x, y := number(form, a), number(form, b)
			ca, errA := fingerprint.CanonicalJSON([]byte(x))
			cb, errB := fingerprint.CanonicalJSON([]byte(y))
			if errA != nil || errB != nil {
				t.Fatalf("%s: %v; %s: %v", x, errA, y, errB)
			}
			if bytes.Equal(ca, cb) != (x == y) {
				t.Fatalf("%s is %s, and %s is %s", x, ca, y, cb)
			}
		}
	})
}

func number(form string, n int64) string {
	return fmt.Sprintf(form, new(big.Int).Abs(big.NewInt(n)))
}

func ExampleCanonicalJSON() {
	a, _ := fingerprint.CanonicalJSON([]byte(`{"currency": "EUR", "amount": 9007199254740993}`))
	b, _ := fingerprint.CanonicalJSON([]byte(`{"amount":9007199254740993,"currency":"\u0045UR"}`))
	fmt.Println(string(a), bytes.Equal(a, b))
	_, err := fingerprint.CanonicalJSON([]byte(`{"amount":1,"amount":2}`))
	fmt.Println(err)
	// Output:
	// {"amount":9007199254740993,"currency":"EUR"} true
	// fingerprint: duplicate member in JSON object: "amount"
}

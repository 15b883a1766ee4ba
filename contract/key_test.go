package contract_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/einmal-dev/einmal/contract"
)

func TestParseKey(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("k", contract.MaxKeyLength)
	one := func(line string) []string { return []string{line} }
	tests := []struct {
		name  string
		lines []string
		want  string // "" where the key is refused
		err   error
	}{
		{"a bare value is the key", one(`k-1`), `k-1`, nil},
		{"a quoted string names the same key", one(`"k-1"`), `k-1`, nil},
		{"a bare UUID is a key", one(`8e03978e-40d5-43e8-bc93-6894a57f9324`), `8e03978e-40d5-43e8-bc93-6894a57f9324`, nil},
		{"one byte is enough", one(`0`), `0`, nil},
		{"letter case counts", one(`K-1`), `K-1`, nil},
		{"a bare token with what tokens may have", one(`*a:b/c!#$%&'+-.^_|~`), `*a:b/c!#$%&'+-.^_|~`, nil},
		{"a bare value may start like a byte sequence", one(`:YWJj:`), `:YWJj:`, nil},
		{"a bare value may start like a boolean", one(`?1`), `?1`, nil},
		{"a bare value may start like a date", one(`@1659578233`), `@1659578233`, nil},
		{"a bare value may be a decimal, as text", one(`1.50`), `1.50`, nil},
		{"a bare value may have brackets and an equals sign", one(`a=(b)[c]{d}<e>`), `a=(b)[c]{d}<e>`, nil},
		{"spaces around a bare value do not count", one("  k-1 "), `k-1`, nil},
		{"tabs around a bare value do not count", one("\t k-1\t"), `k-1`, nil},
		{"spaces around a quoted string do not count", one("  \"k-1\"\t "), `k-1`, nil},
		{"spaces inside quotes are the key's", one(`" k 1 "`), ` k 1 `, nil},
		{"a key may be one quoted space", one(`" "`), ` `, nil},
		{"comma and semicolon inside quotes are the key's", one(`"a,b;c"`), `a,b;c`, nil},
		{"an escaped quote is a quote", one(`"a\"b"`), `a"b`, nil},
		{"an escaped backslash is a backslash", one(`"a\\b"`), `a\b`, nil},
		{"two escapes in a row", one(`"\\\""`), `\"`, nil},
		{"255 bare bytes", one(long), long, nil},
		{"255 quoted bytes", one(`"` + long + `"`), long, nil},
		{"255 bytes that need 510 when quoted", one(`"` + strings.Repeat(`\\`, 255) + `"`), strings.Repeat(`\`, 255), nil},

		{"no line at all", nil, "", contract.ErrKeyMissing},
		{"no line, but a list", []string{}, "", contract.ErrKeyMissing},
		{"an empty line", one(""), "", contract.ErrKeyInvalid},
		{"only white space", one(" \t "), "", contract.ErrKeyInvalid},
		{"an empty quoted string", one(`""`), "", contract.ErrKeyInvalid},
		{"two lines", []string{"k-1", "k-2"}, "", contract.ErrKeyInvalid},
		{"two equal lines", []string{"k-1", "k-1"}, "", contract.ErrKeyInvalid},
		{"an empty second line", []string{"k-1", ""}, "", contract.ErrKeyInvalid},
		{"a bare list", one("k-1, k-2"), "", contract.ErrKeyInvalid},
		{"a bare list without space", one("k-1,k-2"), "", contract.ErrKeyInvalid},
		{"a quoted list", one(`"k-1", "k-2"`), "", contract.ErrKeyInvalid},
		{"an inner list", one(`("k-1" "k-2")`), "", contract.ErrKeyInvalid},
		{"a trailing comma", one(`"k-1",`), "", contract.ErrKeyInvalid},
		{"a parameter on a quoted string", one(`"k-1";a=1`), "", contract.ErrKeyInvalid},
		{"a parameter without value", one(`"k-1";a`), "", contract.ErrKeyInvalid},
		{"a parameter after a space", one(`"k-1" ;a=1`), "", contract.ErrKeyInvalid},
		{"a semicolon and nothing after it", one(`"k-1";`), "", contract.ErrKeyInvalid},
		{"a parameter on a bare value", one(`k-1;a=1`), "", contract.ErrKeyInvalid},
		{"a quote that does not end", one(`"k-1`), "", contract.ErrKeyInvalid},
		{"a single quote character", one(`"`), "", contract.ErrKeyInvalid},
		{"a quote inside a bare value", one(`k"1`), "", contract.ErrKeyInvalid},
		{"a quote at the end of a bare value", one(`k-1"`), "", contract.ErrKeyInvalid},
		{"a display string", one(`%"k-1"`), "", contract.ErrKeyInvalid},
		{"text after a quoted string", one(`"k-1"x`), "", contract.ErrKeyInvalid},
		{"two quoted strings", one(`"k-1""k-2"`), "", contract.ErrKeyInvalid},
		{"two quoted strings with a space", one(`"k-1" "k-2"`), "", contract.ErrKeyInvalid},
		{"a space inside a bare value", one("k 1"), "", contract.ErrKeyInvalid},
		{"a tab inside a bare value", one("k\t1"), "", contract.ErrKeyInvalid},
		{"a tab inside quotes", one("\"k\t1\""), "", contract.ErrKeyInvalid},
		{"a backslash in a bare value", one(`k\1`), "", contract.ErrKeyInvalid},
		{"an escaped letter", one(`"k\1"`), "", contract.ErrKeyInvalid},
		{"an escape of nothing", one(`"k\`), "", contract.ErrKeyInvalid},
		{"an escaped closing quote", one(`"k\"`), "", contract.ErrKeyInvalid},
		{"256 bare bytes", one(long + "k"), "", contract.ErrKeyInvalid},
		{"256 quoted bytes", one(`"` + long + `k"`), "", contract.ErrKeyInvalid},
		{"a megabyte", one(strings.Repeat("k", 1<<20)), "", contract.ErrKeyInvalid},
		{"bare letters beyond ASCII", one("schlüssel"), "", contract.ErrKeyInvalid},
		{"quoted letters beyond ASCII", one(`"schlüssel"`), "", contract.ErrKeyInvalid},
		{"a full-width letter", one("\uff4b"), "", contract.ErrKeyInvalid},
		{"a zero-width space", one("k\u200b1"), "", contract.ErrKeyInvalid},
		{"a no-break space at the end", one("k-1\u00a0"), "", contract.ErrKeyInvalid},
		{"bytes that are no UTF-8", one("k\xff1"), "", contract.ErrKeyInvalid},
		{"a line break at the end", one("k-1\n"), "", contract.ErrKeyInvalid},
		{"a line break inside quotes", one("\"k\r\n1\""), "", contract.ErrKeyInvalid},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := contract.ParseKey(tt.lines)
			if got != tt.want || !errors.Is(err, tt.err) {
				t.Errorf("ParseKey(%.80q) = %.80q, %v; want %.80q, %v", tt.lines, got, err, tt.want, tt.err)
			}
		})
	}
}

func TestEveryByteOfAKey(t *testing.T) {
	t.Parallel()
	for c := range 256 {
		text := "a" + string([]byte{byte(c)}) + "b"
		printable := c >= 0x20 && c <= 0x7e
		bare := printable && !strings.ContainsAny(text, " \",;\\")
		quotedAsItIs := printable && c != '"' && c != '\\'

		check := func(how, line string, accepted bool) {
			key, err := contract.ParseKey([]string{line})
			if accepted && (err != nil || key != text) {
				t.Errorf("byte %#02x %s: got %q, %v", c, how, key, err)
			}
			if !accepted && !errors.Is(err, contract.ErrKeyInvalid) {
				t.Errorf("byte %#02x %s: got %q, %v; want it refused", c, how, key, err)
			}
		}
		check("bare", text, bare)
		check("quoted", `"`+text+`"`, quotedAsItIs)
		check("formatted", contract.FormatKey(text), printable)
		if err := contract.CheckKey(text); (err == nil) != printable {
			t.Errorf("byte %#02x: CheckKey says %v", c, err)
		}
	}
}

func TestBareAndQuotedNeverDisagree(t *testing.T) {
	t.Parallel()
	// Every line of up to four of the characters that matter: whatever is accepted means one key only, and only the formatted key and the bare key
	// are read as that key.
	alphabet := []byte{'a', '"', '\\', ',', ';', ' ', '='}
	accepted := 0
	var visit func(line string)
	visit = func(line string) {
		key, err := contract.ParseKey([]string{line})
		if err == nil {
			accepted++
			if trimmed := strings.Trim(line, " \t"); trimmed != key && trimmed != contract.FormatKey(key) {
				t.Errorf("%q is read as %q, which is neither the line itself nor its quoted form", line, key)
			}
		}
		if len(line) == 4 {
			return
		}
		for _, c := range alphabet {
			visit(line + string([]byte{c}))
		}
	}
	visit("")
	if accepted < 30 {
		t.Errorf("only %d lines were accepted: the test shows nothing", accepted)
	}
}

func FuzzParseKey(f *testing.F) {
	for _, seed := range []string{
		"", "k-1", `"k-1"`, `"a\"b\\c"`, `"k";a=1`, `"a", "b"`, "k\x001", "ü", `"ü"`, " \tk ", `"`, `"\`, `%"a"`, ":YQ==:", `" 00"`, `"\"0\""`, strings.Repeat("k", 256),
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, line string) {
		key, err := contract.ParseKey([]string{line})
		if err != nil {
			if key != "" || !errors.Is(err, contract.ErrKeyInvalid) {
				t.Fatalf("ParseKey(%q) = %q, %v", line, key, err)
			}
			if _, err := contract.ParseKey([]string{`"` + line + `"`}); err == nil && !strings.ContainsAny(line, " \t\",;\\") {
				t.Fatalf("%q is refused bare and accepted in quotes", line)
			}
			return
		}
		if err := contract.CheckKey(key); err != nil {
			t.Fatalf("ParseKey(%q) accepts %q, CheckKey does not: %v", line, key, err)
		}
		again, err := contract.ParseKey([]string{contract.FormatKey(key)})
		if err != nil || again != key {
			t.Fatalf("%q, formatted as %s, is read as %q, %v", key, contract.FormatKey(key), again, err)
		}
		// A raw form belongs to one key: either it is that key, bare, or it is that key's quoted form.
		if trimmed := strings.Trim(line, " \t"); trimmed != key && trimmed != contract.FormatKey(key) {
			t.Fatalf("%q is read as %q, which is neither the line itself nor its quoted form", line, key)
		}
	})
}

func ExampleParseKey() {
	bare, _ := contract.ParseKey([]string{`k-1`})
	quoted, _ := contract.ParseKey([]string{`"k-1"`})
	_, err := contract.ParseKey([]string{`"k-1"`, `"k-2"`})
	fmt.Println(bare == quoted, err)
	// Output: true invalid idempotency key: sent 2 times
}

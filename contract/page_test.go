package contract_test

import (
	"crypto/sha256"
	"encoding/base64"
	"regexp"
	"strings"
	"testing"

	"github.com/einmal-dev/einmal/contract"
)

func page(t *testing.T, d contract.Document, jsonURL string) string {
	t.Helper()
	b, err := d.Page(jsonURL)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestTypeURLsResolveToTheirSituation(t *testing.T) {
	t.Parallel()
	html := page(t, document(), "contract.json")
	for _, s := range contract.Situations {
		if n := strings.Count(html, ` id="`+string(s.Kind)+`"`); n != 1 {
			t.Errorf("%d elements have the id %s", n, s.Kind)
		}
	}
	ids := map[string]bool{}
	for _, m := range regexp.MustCompile(` id="([^"]*)"`).FindAllStringSubmatch(html, -1) {
		if ids[m[1]] {
			t.Errorf("the id %s is there twice", m[1])
		}
		ids[m[1]] = true
	}
	for _, m := range regexp.MustCompile(` href="#([^"]*)"| aria-labelledby="([^"]*)"`).FindAllStringSubmatch(html, -1) {
		if id := m[1] + m[2]; !ids[id] {
			t.Errorf("a reference to #%s, which is nowhere", id)
		}
	}
}

func TestPageWorksUnderItsPolicy(t *testing.T) {
	t.Parallel()
	html := page(t, document(), "contract.json")
	styles := regexp.MustCompile(`(?s)<style>(.*?)</style>`).FindAllStringSubmatch(html, -1)
	if len(styles) != 1 {
		t.Fatalf("%d style elements", len(styles))
	}
	sum := sha256.Sum256([]byte(styles[0][1]))
	want := "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
	if contract.PageCSP != want {
		t.Errorf("policy %q\nwant   %q: the browser would drop the style", contract.PageCSP, want)
	}
	if m := regexp.MustCompile(`<script|<img|<form|\bsrc=|\bstyle=|\bon[a-z]+=|@import|url\(`).FindString(html); m != "" {
		t.Errorf("the page has %q, which the policy forbids", m)
	}
}

func TestPageShowsEveryPromise(t *testing.T) {
	t.Parallel()
	html := strings.ReplaceAll(page(t, document(), "contract.json"), "\u00a0", " ")
	for _, text := range []string{
		"draft-ietf-httpapi-idempotency-key-header-07", "expired Internet-Draft, not a standard",
		`<code>create-order</code>`, `<code>payments/create.v2</code>`,
		"24 h from the first request", "30 days after the window", "at most 40 s: deadline 30 s and lease 10 s",
		"at most 31.5s: deadline 30 s and lease 1.5s", "12 h: how long an unclear operation may run again", "at most 5 attempts",
		"at most 1 MiB", "<code>X-Account</code>", "200 to 399", "401, 403, 421, 425, 429, 431, 500", "409 is refused", "500 is no effect",
		"a UUID version 7", "1 to 255 bytes", "at most 10 s, for an attempt that is running", `href="contract.json"`,
	} {
		if !strings.Contains(html, text) {
			t.Errorf("the page does not say %q", text)
		}
	}
	if strings.Contains(page(t, contract.NewDocument("#"), ""), "contract.json") {
		t.Error("a link to the JSON that was not given")
	}
}

func TestPageEscapesWhatPoliciesSay(t *testing.T) {
	t.Parallel()
	d := document()
	d.Operations[0].Name = `"><script>alert(1)</script>`
	d.Operations[1].Parameters = []string{"<b>X</b>"}
	html := page(t, d, `javascript:alert(1)`)
	for _, bad := range []string{"<script", "<b>", `href="javascript`} {
		if strings.Contains(html, bad) {
			t.Errorf("the page has %s", bad)
		}
	}
}

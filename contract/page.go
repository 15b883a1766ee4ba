package contract

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"strconv"
	"strings"
	"time"
)

var (
	//go:embed page.html
	pageHTML string
	//go:embed page.css
	pageCSS string

	pageTemplate = template.Must(template.New("contract").Funcs(template.FuncMap{
		"human": humanDuration, "size": humanSize, "statuses": joinRanges, "list": joinNumbers, "ending": humanEnd,
	}).Parse(pageHTML))
)

// PageCSP is the Content-Security-Policy that the contract page works with: nothing but its own style, which is named by its hash. No scripts.
var PageCSP = func() string {
	sum := sha256.Sum256([]byte(pageCSS))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
		"'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}()

// Page renders the document as a page for people. Serve it as text/html with PageCSP. Each situation is the element with its kind as id, so that
// TypeBase may be the page's URL and "#". jsonURL is where the document itself is served, or "". The error wraps ErrDocument.
func (d Document) Page(jsonURL string) ([]byte, error) {
	if err := d.Validate(); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err := pageTemplate.Execute(&b, struct {
		Document
		JSONURL   string
		Style     template.CSS
		Forbidden []string
	}{d, jsonURL, template.CSS(pageCSS), strings.Split(d.Key.BareForbidden, "")})
	if err != nil {
		return nil, fmt.Errorf("%w: page: %w", ErrDocument, err)
	}
	return b.Bytes(), nil
}

func humanDuration(s Seconds) string {
	const day = 24 * time.Hour
	d := time.Duration(s)
	for _, u := range []struct {
		size, from time.Duration
		name       string
	}{{day, 3 * day, "days"}, {time.Hour, time.Hour, "h"}, {time.Minute, time.Minute, "min"}, {time.Second, time.Second, "s"}} {
		if d >= u.from && d%u.size == 0 {
			return fmt.Sprintf("%d\u00a0%s", d/u.size, u.name)
		}
	}
	return d.String()
}

func humanSize(n int64) string {
	for _, u := range []struct {
		size int64
		name string
	}{{1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}} {
		if n >= u.size && n%u.size == 0 {
			return fmt.Sprintf("%d\u00a0%s", n/u.size, u.name)
		}
	}
	return fmt.Sprintf("%d\u00a0bytes", n)
}

func humanEnd(e End) string { return strings.ReplaceAll(string(e), "_", " ") }

func joinRanges(ranges []StatusRange) string {
	texts := make([]string, len(ranges))
	for i, r := range ranges {
		texts[i] = strings.ReplaceAll(r.String(), "-", " to ")
	}
	return orNone(texts)
}

func joinNumbers(numbers []int) string {
	texts := make([]string, len(numbers))
	for i, n := range numbers {
		texts[i] = strconv.Itoa(n)
	}
	return orNone(texts)
}

func orNone(texts []string) string {
	if len(texts) == 0 {
		return "none"
	}
	return strings.Join(texts, ", ")
}

package einmalhttp

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/einmal-dev/einmal/contract"
	"github.com/einmal-dev/einmal/fingerprint"
)

// firstRead is the most that is allocated on a client's word about its body's length.
const firstRead = 64 << 10

var (
	errBodyConsumed = errors.New("something between the server and Wrap has read the body: it must come after Wrap, or put the body back with its ContentLength")
	errBodyEmpty    = errors.New("a body of unknown length is empty: if its client sent one, something between the server and Wrap has read it")
)

// readBody reads a request's body whole. What it returns instead is a *contract.Problem: body-too-large or body-incomplete.
func readBody(r *http.Request, limit int64) ([]byte, error) {
	if r.ContentLength > limit {
		return nil, contract.NewProblem(contract.BodyTooLarge, tooLarge(limit))
	}
	if r.Body == nil || r.Body == http.NoBody {
		return nil, checkWhole(r, nil)
	}
	room := int64(511)
	if r.ContentLength >= 0 {
		room = min(r.ContentLength, firstRead)
	}
	body := make([]byte, 0, room+1) // one more, to meet the end without growing
	for {
		n, err := r.Body.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		switch {
		case int64(len(body)) > limit:
			return nil, contract.NewProblem(contract.BodyTooLarge, tooLarge(limit))
		case err == io.EOF:
			if err := checkWhole(r, body); err != nil {
				return nil, err
			}
			return body, nil
		case err != nil:
			if tooMany := (*http.MaxBytesError)(nil); errors.As(err, &tooMany) {
				return nil, contract.NewProblem(contract.BodyTooLarge, tooLarge(tooMany.Limit))
			}
			return nil, incomplete(err)
		}
		if len(body) == cap(body) {
			body = slices.Grow(body, len(body))
		}
	}
}

// checkWhole looks for signs that what was read is not all that the client sent. A part of a body of unknown length that was taken before without a
// trace is not found: bodies belong to Wrap.
func checkWhole(r *http.Request, body []byte) error {
	switch {
	case int64(len(body)) < r.ContentLength, r.ContentLength < 0 && formRead(r):
		return incomplete(errBodyConsumed)
	case len(body) > 0:
		return nil
	case len(r.PostForm) > 0:
		return incomplete(errBodyConsumed)
	}
	switch declared := r.Header["Content-Length"]; {
	case len(declared) > 0 && strings.Trim(declared[0], "0") != "":
		return incomplete(errBodyConsumed)
	case len(declared) == 0 && (r.ContentLength < 0 || len(r.TransferEncoding) > 0):
		// Some client may send this, but an empty fingerprint for a body that is gone would make all bodies the same.
		p := incomplete(errBodyEmpty)
		p.Next, p.Detail = contract.NextFix, "The body is of unknown length, and empty here. Send no body, or Content-Length: 0, if that is what is meant."
		return p
	}
	return nil
}

// formRead reports whether net/http has made a form of the body, which it does not put back.
func formRead(r *http.Request) bool {
	if r.MultipartForm != nil {
		return true
	}
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return r.PostForm != nil && err == nil && kind == "application/x-www-form-urlencoded"
}

func tooLarge(limit int64) string { return fmt.Sprintf("At most %d bytes.", limit) }

func incomplete(cause error) *contract.Problem {
	p := contract.NewProblem(contract.BodyIncomplete, "")
	p.Cause = cause
	return p
}

// heldBody gives a handler the body that was read.
type heldBody struct {
	bytes.Reader
	closed bool
}

func (b *heldBody) Read(p []byte) (int, error) {
	if b.closed {
		return 0, http.ErrBodyReadAfterClose
	}
	return b.Reader.Read(p)
}

func (b *heldBody) Close() error {
	b.closed = true
	return nil
}

// parts is what the operation is made of. The path is the whole one that the client sent, before anything stripped or rewrote it: the values in it alone
// would be the same for two routes of one operation, and routers that are nested or strip a prefix lose some of them.
func parts(r *http.Request, op *operation, body []byte) fingerprint.Parts {
	return fingerprint.Parts{
		Method: r.Method,
		Path:   []fingerprint.Field{{Name: "path", Value: targetPath(r)}},
		Query:  r.URL.RawQuery,
		Fields: parameterFields(r, op),
		Body:   body,
	}
}

// targetPath is the path in the request target as the client sent it, in origin and absolute form (RFC 9112, section 3.2). A target without a path, such
// as an asterisk, counts whole. A request that no server read, and whose maker gave it no RequestURI, counts by its URL.
func targetPath(r *http.Request) string {
	target, _, _ := strings.Cut(r.RequestURI, "?")
	if target == "" {
		return r.URL.EscapedPath()
	}
	if target[0] == '/' {
		return target
	}
	_, rest, _ := strings.Cut(target, ":")
	afterScheme, absolute := strings.CutPrefix(rest, "//")
	if !absolute {
		return target
	}
	if i := strings.IndexByte(afterScheme, '/'); i >= 0 {
		return afterScheme[i:]
	}
	return "/"
}

func parameterFields(r *http.Request, op *operation) []fingerprint.Field {
	fields := make([]fingerprint.Field, 0, 4)
	add := func(name string, values []string) {
		for _, v := range values {
			fields = append(fields, fingerprint.Field{Name: name, Value: v})
		}
	}
	add("Content-Type", r.Header["Content-Type"])
	add("Content-Encoding", r.Header["Content-Encoding"])
	from := len(fields)
	for name, values := range r.Header {
		if strings.HasPrefix(name, "If-") || name == "If" {
			add(name, values)
		}
	}
	if len(fields)-from > 1 {
		slices.SortStableFunc(fields[from:], func(a, b fingerprint.Field) int { return strings.Compare(a.Name, b.Name) })
	}
	for _, name := range op.headers {
		if name == "Host" {
			add(name, []string{r.Host})
			continue
		}
		add(name, r.Header[name])
	}
	return fields
}

// preferredWait reads "Prefer: wait=N" (RFC 7240, section 4.3). Of several the first counts; what cannot be read is ignored, as preferences are.
func preferredWait(lines []string, most time.Duration) time.Duration {
	for _, line := range lines {
		for preference := range strings.SplitSeq(line, ",") {
			preference, _, _ = strings.Cut(preference, ";")
			name, value, _ := strings.Cut(preference, "=")
			if !strings.EqualFold(strings.TrimSpace(name), "wait") {
				continue
			}
			value = strings.Trim(strings.TrimSpace(value), `"`)
			seconds, err := strconv.ParseUint(value, 10, 31)
			if err != nil {
				return 0
			}
			return min(time.Duration(seconds)*time.Second, most)
		}
	}
	return 0
}

func safeMethod(method string) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return true
	}
	return false
}

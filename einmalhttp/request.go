package einmalhttp

import (
	"bytes"
	"errors"
	"fmt"
	"io"
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

var errBodyConsumed = errors.New("something between the server and Wrap has read the body: it must come after Wrap, or put the body back")

// readBody reads a request's body whole. What it returns instead is a *contract.Problem: body-too-large or body-incomplete.
func readBody(r *http.Request, limit int64) ([]byte, error) {
	if r.ContentLength > limit {
		return nil, contract.NewProblem(contract.BodyTooLarge, tooLarge(limit))
	}
	if r.Body == nil {
		return nil, nil
	}
	consumed := r.PostForm != nil || r.MultipartForm != nil
	if r.Body == http.NoBody && !consumed {
		return nil, nil
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
			if int64(len(body)) < r.ContentLength || consumed && len(body) == 0 {
				return nil, incomplete(errBodyConsumed)
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

func targetPath(r *http.Request) string {
	if path, _, _ := strings.Cut(r.RequestURI, "?"); strings.HasPrefix(path, "/") {
		return path
	}
	return r.URL.EscapedPath()
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

package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
)

var errSentOnce = errors.New("demo: a write is sent once")

// newWrite makes a POST that Go's transport cannot send a second time on its own: it does that for an Idempotency-Key under its canonical name, and for a
// body that it can get again.
func newWrite(ctx context.Context, url, key string, body any) (*http.Request, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	req.GetBody = func() (io.ReadCloser, error) { return nil, errSentOnce }
	req.Header.Set("Content-Type", "application/json")
	if key != "" {
		req.Header["idempotency-key"] = []string{key}
	}
	return req, nil
}

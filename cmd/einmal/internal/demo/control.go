package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/einmal-dev/einmal/fault"
)

// partnerControl is the demo's hold on the partner's levers.
type partnerControl struct {
	base string
	http *http.Client
}

func (c *partnerControl) do(ctx context.Context, method, path string, args url.Values) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.base+path+"?"+args.Encode(), nil)
	if err != nil {
		return nil, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("partner: %s %s: %s", method, path, strings.TrimSpace(string(body)))
	}
	return body, err
}

// next says what the next payment for a ref meets.
func (c *partnerControl) next(ctx context.Context, ref, do string) error {
	_, err := c.do(ctx, http.MethodPost, "/next", url.Values{"ref": {ref}, "do": {do}})
	return err
}

func (c *partnerControl) release(ctx context.Context, ref string) error {
	_, err := c.do(ctx, http.MethodPost, "/release", url.Values{"ref": {ref}})
	return err
}

// await returns when something has happened n times for a ref.
func (c *partnerControl) await(ctx context.Context, what fault.What, ref string, n int) error {
	_, err := c.do(ctx, http.MethodGet, "/await", url.Values{"what": {string(what)}, "ref": {ref}, "n": {strconv.Itoa(n)}})
	return err
}

// payments returns every payment that was done, in order.
func (c *partnerControl) payments(ctx context.Context) ([]payment, error) {
	text, err := c.do(ctx, http.MethodGet, paymentsPath, nil)
	if err != nil {
		return nil, err
	}
	var all []payment
	for dec := json.NewDecoder(strings.NewReader(string(text))); ; {
		var p payment
		switch err := dec.Decode(&p); {
		case errors.Is(err, io.EOF):
			return all, nil
		case err != nil:
			return nil, fmt.Errorf("partner: payments: %w", err)
		}
		all = append(all, p)
	}
}

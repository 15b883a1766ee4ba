package einmalhttp

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/einmal-dev/einmal"
)

// Config is what a Server needs. Only Identify is required.
type Config struct {
	// Identify says who sends a request, from the authentication that the application already has. It must not read the body. It is asked again
	// after a long upload and after a wait, and must then name the same caller. Its error, and a caller without a principal, is answered with 401, or
	// as an AuthError or *contract.Problem says.
	Identify func(*http.Request) (einmal.Caller, error)

	// Authorize, if set, is asked right before a stored answer is written, before a status is read, and before a refusal that tells of an operation,
	// which costs one read of the store. Not asked is the caller whose own attempt it was. Its error is answered with 403, or as an AuthError or
	// *contract.Problem says, and with not one stored byte.
	Authorize func(*http.Request, einmal.Operation) error

	// Key reads the key; nil is the Idempotency-Key field through contract.ParseKey. It must not read the body. An error that is
	// contract.ErrKeyMissing says that there is none; any other is answered as key-invalid.
	Key func(*http.Request) (string, error)

	Prefix    string        // "/.idempotency/": the path where the Server is mounted, as clients see it
	PublicURL string        // "": URLs are relative; otherwise scheme, host and perhaps a path, that stand before Prefix
	MaxWait   time.Duration // 30s: the longest "Prefer: wait" that is honoured; below the server's WriteTimeout; negative: none
	TempDir   string        // "": the system's; for answers that are larger than Rules.MaxResult
	MaxSpool  int64         // 1 GiB: of one answer in the temporary file, in bytes
	Log       *slog.Logger  // nil: slog.Default()
}

// Defaults of a Config.
const (
	DefaultPrefix   = "/.idempotency/"
	DefaultMaxWait  = 30 * time.Second
	DefaultMaxSpool = 1 << 30
)

// AuthError is an error of Identify or Authorize with the answer that it shall get.
type AuthError struct {
	Status     int           // 401, 403, or 5xx where nobody could say
	Challenge  string        // WWW-Authenticate of a 401
	Detail     string        // for the client
	RetryAfter time.Duration // of a 5xx
	Cause      error         // for logs; never sent
}

func (e *AuthError) Error() string {
	s := fmt.Sprintf("einmalhttp: %d %s", e.Status, http.StatusText(e.Status))
	if e.Detail != "" {
		s += ": " + e.Detail
	}
	if e.Cause != nil {
		s += ": " + e.Cause.Error()
	}
	return s
}

// Unwrap returns the cause.
func (e *AuthError) Unwrap() error { return e.Cause }

// Server is the middleware and the handler of its resources. Mount it at Config.Prefix, with or without the prefix stripped.
type Server struct {
	engine   *einmal.Engine
	cfg      Config
	log      *slog.Logger
	base     string // what stands before "status/", "result/" and "contract"
	typeBase string
	linkHead string // of a link to a status resource, up to the operation's ID

	operations sync.Map // *einmal.Op: *operation

	pageMu   sync.Mutex
	pageOps  int // how many operations were defined when page and document were made
	page     []byte
	document []byte
}

// New makes a Server. It panics on a mistake in the Config: that is a bug to be found at start.
func New(engine *einmal.Engine, cfg Config) *Server {
	if engine == nil {
		panic("einmalhttp: New: engine is nil")
	}
	cfg, err := cfg.withDefaults()
	if err != nil {
		panic("einmalhttp: New: " + err.Error())
	}
	base := strings.TrimSuffix(cfg.PublicURL, "/") + cfg.Prefix
	return &Server{engine: engine, cfg: cfg, log: cfg.Log, base: base, typeBase: base + "contract#", linkHead: "<" + base + "status/", pageOps: -1}
}

func (c Config) withDefaults() (Config, error) {
	if c.Prefix == "" {
		c.Prefix = DefaultPrefix
	}
	if c.MaxWait == 0 {
		c.MaxWait = DefaultMaxWait
	}
	c.MaxWait = max(c.MaxWait, 0)
	if c.MaxSpool == 0 {
		c.MaxSpool = DefaultMaxSpool
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	switch {
	case c.Identify == nil:
		return c, errors.New("Config.Identify is nil: it must say who sends a request")
	case !strings.HasPrefix(c.Prefix, "/") || !strings.HasSuffix(c.Prefix, "/") || strings.ContainsAny(c.Prefix, "?#<>\" {}"):
		return c, fmt.Errorf("Config.Prefix %q: want a path that begins and ends with a slash", c.Prefix)
	case c.MaxSpool < 0:
		return c, errors.New("Config.MaxSpool is negative")
	}
	if c.PublicURL != "" {
		u, err := url.Parse(c.PublicURL)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
			return c, fmt.Errorf("Config.PublicURL %q: want scheme, host and perhaps a path", c.PublicURL)
		}
	}
	return c, nil
}

// operation is an Op with what every request needs of its policy.
type operation struct {
	*einmal.Op
	name        string
	keyOptional bool
	maxBody     int64
	maxResult   int64
	headers     []string // the policy's further parameters, in canonical form
}

func (s *Server) operation(op *einmal.Op) *operation {
	if op == nil {
		panic("einmalhttp: the operation is nil")
	}
	if o, ok := s.operations.Load(op); ok {
		return o.(*operation)
	}
	p := op.Policy()
	if !slices.Contains(s.engine.Ops(), op) {
		panic(fmt.Sprintf("einmalhttp: operation %q belongs to another engine", p.Name))
	}
	o := &operation{Op: op, name: p.Name, keyOptional: p.KeyOptional, maxBody: p.Rules.MaxBody, maxResult: p.Rules.MaxResult}
	for _, name := range p.Rules.Headers {
		o.headers = append(o.headers, http.CanonicalHeaderKey(name))
	}
	s.operations.Store(op, o)
	return o
}

func (s *Server) statusURL(id string) string { return s.base + "status/" + id }
func (s *Server) resultURL(id string) string { return s.base + "result/" + id }

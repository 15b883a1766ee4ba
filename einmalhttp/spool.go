package einmalhttp

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/einmal-dev/einmal"
	"github.com/einmal-dev/einmal/contract"
)

// spool is the ResponseWriter that a handler gets: it keeps the whole answer until the attempt's end is recorded. It behaves like net/http's own
// otherwise, except that nothing can leave early: Flush does nothing, 1xx answers and trailers are dropped, and the connection cannot be taken over.
//
// A handler may leave goroutines behind. After finish their writes fail and touch nothing.
type spool struct {
	limit    int64 // of the part in memory, which is what can be stored
	maxFile  int64 // of the part in the file
	tempDir  string
	headerUp http.Header // what was set on the way to the handler, which it may read, change and delete

	mu       sync.Mutex
	under    http.ResponseWriter // for deadlines of the connection
	header   http.Header
	finished bool

	status   int // 0: nothing said yet
	bodyless bool
	fields   []einmal.Field // every header field line as of WriteHeader
	noSniff  bool           // a Content-Type, be it nil, or a Content-Encoding: net/http sniffs none then either
	declared int64          // the handler's Content-Length, -1: none
	body     []byte
	file     *os.File // what is over the limit; already unlinked where the system allows it
	size     int64
	lost     error // why the answer could not be kept whole; its status is still known

	few [8]einmal.Field // the first of fields, without an allocation
}

func newSpool(under http.ResponseWriter, limit, maxFile int64, tempDir string) *spool {
	s := &spool{under: under, limit: limit, maxFile: maxFile, tempDir: tempDir, headerUp: under.Header()}
	s.fields = s.few[:0]
	return s
}

// errFinished is what goroutines get that outlive their handler.
var errFinished = fmt.Errorf("einmalhttp: the handler has returned: %w", http.ErrBodyNotAllowed)

// Header returns the handler's own map, which begins with what was set on the way to it.
func (s *spool) Header() http.Header {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ownHeader()
}

func (s *spool) ownHeader() http.Header {
	if s.header == nil {
		if len(s.headerUp) > 0 {
			s.header = s.headerUp.Clone()
		} else {
			s.header = make(http.Header, 2)
		}
	}
	return s.header
}

func (s *spool) WriteHeader(status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writeHeader(status)
}

func (s *spool) writeHeader(status int) {
	if status < 100 || status > 999 {
		panic(fmt.Sprintf("invalid WriteHeader code %v", status)) // as net/http does; recorded as any panic is
	}
	if s.finished || s.status != 0 || status < 200 && status != http.StatusSwitchingProtocols {
		return
	}
	s.status = status
	s.bodyless = status < 200 || status == http.StatusNoContent || status == http.StatusNotModified
	s.declared = -1
	for name, values := range s.ownHeader() {
		switch canonical := http.CanonicalHeaderKey(name); {
		case canonical == "Content-Length":
			if n, err := strconv.ParseInt(strings.TrimSpace(strings.Join(values, ",")), 10, 64); err == nil && n >= 0 {
				s.declared = n
			}
			continue // the client gets the length of what there is
		case canonical == "Transfer-Encoding", canonical == "Trailer", strings.HasPrefix(name, http.TrailerPrefix),
			slices.Contains(contract.OwnHeaders, canonical):
			continue
		case canonical == "Content-Type", canonical == "Content-Encoding" && len(values) > 0 && values[0] != "":
			s.noSniff = true
		}
		for _, v := range values {
			s.fields = append(s.fields, einmal.Field{Name: name, Value: v})
		}
	}
}

func (s *spool) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return write(s, p)
}

func (s *spool) WriteString(text string) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return write(s, text)
}

func write[T string | []byte](s *spool, p T) (int, error) {
	if s.finished {
		return 0, errFinished
	}
	if s.status == 0 {
		s.writeHeader(http.StatusOK)
	}
	switch {
	case len(p) == 0:
		return 0, nil
	case s.bodyless:
		return 0, http.ErrBodyNotAllowed
	case s.declared >= 0 && s.size+int64(len(p)) > s.declared:
		return 0, http.ErrContentLength
	case s.lost != nil:
		return 0, s.lost
	}
	room := min(int64(len(p)), s.limit-int64(len(s.body)))
	s.body = append(s.body, p[:room]...)
	s.size += room
	if rest := p[room:]; len(rest) > 0 {
		n, err := s.spill([]byte(rest))
		s.size += int64(n)
		if err != nil {
			s.lost = fmt.Errorf("einmalhttp: spooling the answer: %w", err)
			return int(room) + n, s.lost
		}
	}
	return len(p), nil
}

func (s *spool) spill(p []byte) (int, error) {
	if s.file == nil {
		f, err := os.CreateTemp(s.tempDir, "einmal-answer-*")
		if err != nil {
			return 0, err
		}
		_ = os.Remove(f.Name()) // where this is refused, closeFile does it
		s.file = f
	}
	if s.size-s.limit+int64(len(p)) > s.maxFile {
		return 0, fmt.Errorf("larger than %d bytes", s.limit+s.maxFile)
	}
	return s.file.Write(p)
}

// ReadFrom makes io.Copy copy without a second buffer.
func (s *spool) ReadFrom(r io.Reader) (n int64, err error) {
	buf := copyBuffers.Get().(*[]byte)
	defer copyBuffers.Put(buf)
	for {
		got, readErr := r.Read(*buf)
		if got > 0 {
			wrote, err := s.Write((*buf)[:got])
			n += int64(wrote)
			if err != nil {
				return n, err
			}
		}
		if readErr == io.EOF {
			return n, nil
		}
		if readErr != nil {
			return n, readErr
		}
	}
}

var copyBuffers = sync.Pool{New: func() any { b := make([]byte, 32<<10); return &b }}

// Flush does no more than net/http's would for the status line: nothing leaves before the record.
func (s *spool) Flush() { _ = s.FlushError() }

func (s *spool) FlushError() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.finished {
		return errFinished
	}
	if s.status == 0 {
		s.writeHeader(http.StatusOK)
	}
	return nil
}

// SetReadDeadline and SetWriteDeadline reach the connection through an http.ResponseController. There is no Unwrap: Hijack and EnableFullDuplex are
// http.ErrNotSupported.
func (s *spool) SetReadDeadline(t time.Time) error {
	return s.control((*http.ResponseController).SetReadDeadline, t)
}

func (s *spool) SetWriteDeadline(t time.Time) error {
	return s.control((*http.ResponseController).SetWriteDeadline, t)
}

func (s *spool) control(set func(*http.ResponseController, time.Time) error, t time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.finished {
		return errFinished
	}
	return set(http.NewResponseController(s.under), t)
}

// finish ends the handler's part. Nothing that the handler left behind can change the spool after it.
func (s *spool) finish() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.finished {
		return
	}
	if s.size > 0 && !s.noSniff {
		s.fields = append(s.fields, einmal.Field{Name: "Content-Type", Value: http.DetectContentType(s.body)})
	}
	if s.header == nil {
		s.header = make(http.Header)
	}
	s.finished, s.under, s.headerUp = true, nil, nil
}

// complete reports whether the handler said all that it began to say. A status with less body than declared is an incomplete answer, and 101 is none.
func (s *spool) complete() bool {
	return s.status >= 200 && (s.declared < 0 || s.bodyless || s.lost != nil || s.size == s.declared)
}

// result is what is stored of the answer.
func (s *spool) result() *einmal.Result {
	r := &einmal.Result{Status: s.status, Header: storedFields(s.fields), Body: s.body}
	if s.file != nil || s.lost != nil {
		r.Kept, r.Body = einmal.KeptTooLarge, nil
		if s.lost == nil {
			r.Header = append(r.Header, einmal.Field{Name: "Content-Length", Value: strconv.FormatInt(s.size, 10)})
		}
	}
	return r
}

// fill sets all header fields of the answer.
func (s *spool) fill(h http.Header) {
	clear(h) // what was there went through the handler's hands
	if s.noSniff {
		h["Content-Type"] = nil // unless it is among the fields
	}
	lines := make([]string, len(s.fields)+1)
	for i, f := range s.fields {
		lines[i] = f.Value
		if before := h[f.Name]; len(before) > 0 {
			h[f.Name] = append(before, f.Value)
		} else {
			h[f.Name] = lines[i : i+1 : i+1]
		}
	}
	if !s.bodyless {
		last := len(s.fields)
		lines[last] = strconv.FormatInt(s.size, 10)
		h["Content-Length"] = lines[last:]
	}
}

// errSpoolRead says that the client got less than all because of us.
var errSpoolRead = errors.New("einmalhttp: the spooled answer cannot be read")

// send writes the answer. The only error is errSpoolRead: a client that is gone needs none.
func (s *spool) send(w http.ResponseWriter) error {
	w.WriteHeader(s.status)
	if len(s.body) > 0 {
		if _, err := w.Write(s.body); err != nil {
			return nil
		}
	}
	if s.file == nil {
		return nil
	}
	rest := s.size - int64(len(s.body))
	n, err := io.Copy(w, io.NewSectionReader(s.file, 0, rest))
	if read := (*fs.PathError)(nil); errors.As(err, &read) || err == nil && n < rest {
		return fmt.Errorf("%w: %d of %d bytes: %w", errSpoolRead, n, rest, err)
	}
	return nil
}

// close frees the file.
func (s *spool) close() {
	if s.file != nil {
		_ = s.file.Close()
		_ = os.Remove(s.file.Name())
	}
}

package fault

import (
	"net/http"
	"time"
)

// Move is what the partner does with one call. The zero Move is Normal. The steps come in the order of the fields.
type Move struct {
	Delay      time.Duration   // wait so long
	Hold       <-chan struct{} // and until this is closed; the client may be gone by then, the call goes on all the same
	NoEffect   bool            // do nothing, and do not look at the key either (unless Bound)
	Twice      bool            // the call is delivered twice by the partner's own queue: two effects, unless it deduplicates and there is a key
	HoldAnswer <-chan struct{} // wait until this is closed, with the effect done
	Status     int             // answer this, whatever was done; 0: the true answer
	Body       string          // with it; "": {"error": "…"}
	Header     http.Header     // and these
	Bound      bool            // the answer is stored under the key as it was sent, a refusal or lie too, and repeated
	Cut        CutAt           // cut the connection instead of answering
}

// CutAt is where a connection is cut.
type CutAt uint8

const (
	CutNever        CutAt = iota
	CutBeforeAnswer       // not a byte of the answer is written
	CutInAnswer           // a Partner writes the header and half of the body; a Proxy see Rule.After
	CutInUpload           // Proxy only: the server gets a part of the body, see Rule.After
	CutAfterUpload        // Proxy only: as soon as the request was passed on; the server is left to finish
)

// Normal does the effect and answers.
func Normal() Move { return Move{} }

// LieFailed does the effect and answers with an error status such as 500.
func LieFailed(status int) Move { return Move{Status: status} }

// LieDone answers 200 and does nothing.
func LieDone() Move { return Move{NoEffect: true, Status: http.StatusOK, Body: `{"id":"effect-0"}`} }

// LoseAnswer does the effect and cuts the connection before the first byte of the answer.
func LoseAnswer() Move { return Move{Cut: CutBeforeAnswer} }

// TearAnswer does the effect and cuts the connection in the middle of the answer's body.
func TearAnswer() Move { return Move{Cut: CutInAnswer} }

// Hang holds the call back, before the effect, until the channel is closed.
func Hang(until <-chan struct{}) Move { return Move{Hold: until} }

// HangAfter does the effect and holds the answer back until the channel is closed.
func HangAfter(until <-chan struct{}) Move { return Move{HoldAnswer: until} }

// Late waits before the effect.
func Late(by time.Duration) Move { return Move{Delay: by} }

// Refuse answers with the status and does nothing.
func Refuse(status int) Move { return Move{NoEffect: true, Status: status} }

// Twice is delivered twice.
func Twice() Move { return Move{Twice: true} }

type answer struct {
	status      int
	contentType string
	body        []byte
}

func (m *Move) answer() *answer {
	if m.Body == "" {
		return problem(m.Status, http.StatusText(m.Status))
	}
	return &answer{m.Status, "application/json", []byte(m.Body)}
}

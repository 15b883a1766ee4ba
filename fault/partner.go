package fault

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// Partner is a payment partner as an http.Handler. It does one effect a call, counts them, and answers 201 with a JSON object that names the effect.
// Like many real ones it deduplicates on the key it is sent: a call with a key that it remembers gets the first answer again, 409 while the first is
// in progress, and 422 with another body. The zero Partner is ready to use; set the fields before the first call. It tells time by package time only,
// so it follows the clock of a testing/synctest bubble.
type Partner struct {
	KeyHeader string                                        // "Idempotency-Key"
	Window    time.Duration                                 // how long a key is remembered from the first call with it; 0: for ever
	Opaque    bool                                          // it does not deduplicate
	Ref       func(r *http.Request, body []byte) string     // what effects are counted by; nil: the body's JSON member "ref", else the key, else the body
	Reply     func(e Effect) (contentType string, b []byte) // nil: {"id": "effect-1", "ref": "…"}

	journal journal
	moves   queue[Move]
	once    sync.Once
	closing sync.Once
	closed  chan struct{}

	mu      sync.Mutex
	effects []Effect
	keys    map[string]*remembered
}

// Effect is something that happened in the world and cannot be undone.
type Effect struct {
	N    int // 1, 2, 3, … over the partner's life
	At   time.Time
	Ref  string
	Key  string // the partner key, "" if none was sent
	Body []byte // of the call
}

type remembered struct {
	first  time.Time
	body   []byte
	answer *answer // nil: in progress
}

// Then scripts the next calls, one move each, after what was scripted before. Calls after that are as Always says.
func (p *Partner) Then(moves ...Move) { p.moves.add("", moves) }

// ThenFor scripts the next calls with this ref; they take nothing from Then's queue.
func (p *Partner) ThenFor(ref string, moves ...Move) { p.moves.add(ref, moves) }

// Always says what happens with calls that are not scripted.
func (p *Partner) Always(move Move) { p.moves.setAlways(move) }

// ForgetKeys makes the partner forget every key now, as it does on its own after Window. Effects stay.
func (p *Partner) ForgetKeys() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for key, r := range p.keys {
		if r.answer != nil {
			delete(p.keys, key)
		}
	}
}

// Effects returns how many effects there were for ref.
func (p *Partner) Effects(ref string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for i := range p.effects {
		if p.effects[i].Ref == ref {
			n++
		}
	}
	return n
}

// List returns all effects in order.
func (p *Partner) List() []Effect {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]Effect(nil), p.effects...)
}

// Total returns how many effects there were.
func (p *Partner) Total() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.effects)
}

// Count returns how often something happened for ref, "" for all.
func (p *Partner) Count(what What, ref string) int {
	n, _ := p.journal.count(what, ref)
	return n
}

// Await returns when something has happened n times for ref, "" for all, counted from the partner's start; or with an error when the context ends.
func (p *Partner) Await(ctx context.Context, what What, ref string, n int) error {
	return p.journal.await(ctx, what, ref, n)
}

// Events returns everything that happened so far, in order.
func (p *Partner) Events() []Event { return p.journal.list() }

// Close ends what is held or waits: those calls do nothing more and their connections are cut. It is for the end of a test; calls that come later are
// served as ever, except that nothing is held.
func (p *Partner) Close() {
	done := p.done()
	p.closing.Do(func() { close(done) })
}

func (p *Partner) done() chan struct{} {
	p.once.Do(func() { p.closed = make(chan struct{}) })
	return p.closed
}

// ServeHTTP takes one call. It cuts the connection by a panic with http.ErrAbortHandler, as net/http wants it.
func (p *Partner) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		// A call that did not arrive whole is none.
		panic(http.ErrAbortHandler)
	}
	key := r.Header.Get(p.keyHeader())
	ref := p.ref(r, body, key)
	move := p.moves.take(ref)
	p.journal.add(Arrived, ref, key)

	ans, fresh := p.enter(move, key, body)
	if !wait(move.Delay, move.Hold, p.done()) {
		p.leave(key, fresh)
		p.cut(ref, key)
	}
	if fresh {
		ans = p.execute(move, ref, key, body)
	}
	if !wait(0, move.HoldAnswer, p.done()) || move.Cut == CutBeforeAnswer {
		p.cut(ref, key)
	}
	if move.Status != 0 {
		ans = move.answer()
	}
	p.write(w, move, ans, ref, key)
}

// enter looks the key up. Where the call is to be executed, fresh is true and the key is in progress; else ans is the answer.
func (p *Partner) enter(move Move, key string, body []byte) (ans *answer, fresh bool) {
	if key == "" || p.Opaque || move.NoEffect && !move.Bound {
		return nil, true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	known := p.keys[key]
	if known != nil && known.answer != nil && p.Window > 0 && time.Since(known.first) >= p.Window {
		known = nil
	}
	switch {
	case known == nil:
		if p.keys == nil {
			p.keys = map[string]*remembered{}
		}
		p.keys[key] = &remembered{first: time.Now(), body: body}
		return nil, true
	case !bytes.Equal(known.body, body):
		return problem(http.StatusUnprocessableEntity, "key was used with another body"), false
	case known.answer == nil:
		return problem(http.StatusConflict, "in progress"), false
	}
	return known.answer, false
}

func (p *Partner) leave(key string, fresh bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if known := p.keys[key]; fresh && known != nil && known.answer == nil {
		delete(p.keys, key)
	}
}

// execute does what the move says and remembers the answer.
func (p *Partner) execute(move Move, ref, key string, body []byte) *answer {
	var ans *answer
	times := 1
	if move.NoEffect {
		times = 0
	} else if move.Twice && (key == "" || p.Opaque) {
		times = 2
	}
	for range times {
		effect := p.do(ref, key, body)
		if ans == nil {
			ans = p.reply(effect)
		}
		p.journal.add(Effected, ref, key)
	}
	if ans == nil {
		ans = problem(http.StatusServiceUnavailable, "nothing was done")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if known := p.keys[key]; known != nil && known.answer == nil {
		known.answer = ans
		if move.Bound && move.Status != 0 {
			known.answer = move.answer()
		}
	}
	return ans
}

func (p *Partner) do(ref, key string, body []byte) Effect {
	p.mu.Lock()
	defer p.mu.Unlock()
	effect := Effect{N: len(p.effects) + 1, At: time.Now(), Ref: ref, Key: key, Body: body}
	p.effects = append(p.effects, effect)
	return effect
}

func (p *Partner) reply(effect Effect) *answer {
	if p.Reply != nil {
		contentType, body := p.Reply(effect)
		return &answer{http.StatusCreated, contentType, body}
	}
	body, _ := json.Marshal(map[string]string{"id": fmt.Sprintf("effect-%d", effect.N), "ref": effect.Ref})
	return &answer{http.StatusCreated, "application/json", body}
}

// cut ends the handler so that net/http cuts the connection.
func (p *Partner) cut(ref, key string) {
	p.journal.add(Cut, ref, key)
	panic(http.ErrAbortHandler)
}

func (p *Partner) write(w http.ResponseWriter, move Move, ans *answer, ref, key string) {
	header := w.Header()
	for name, values := range move.Header {
		header[name] = values
	}
	header.Set("Content-Type", ans.contentType)
	header.Set("Content-Length", strconv.Itoa(len(ans.body)))
	w.WriteHeader(ans.status)
	if move.Cut == CutInAnswer {
		_, _ = w.Write(ans.body[:len(ans.body)/2])
		_ = http.NewResponseController(w).Flush()
		p.cut(ref, key)
	}
	_, _ = w.Write(ans.body)
	p.journal.add(Answered, ref, key)
}

func problem(status int, text string) *answer {
	body, _ := json.Marshal(map[string]string{"error": text})
	return &answer{status, "application/json", body}
}

func (p *Partner) keyHeader() string {
	if p.KeyHeader == "" {
		return "Idempotency-Key"
	}
	return p.KeyHeader
}

func (p *Partner) ref(r *http.Request, body []byte, key string) string {
	if p.Ref != nil {
		return p.Ref(r, body)
	}
	var named struct {
		Ref string `json:"ref"`
	}
	if json.Unmarshal(body, &named) == nil && named.Ref != "" {
		return named.Ref
	}
	if key != "" {
		return key
	}
	return string(body)
}

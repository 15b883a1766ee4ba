package demo

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/einmal-dev/einmal"
	"github.com/einmal-dev/einmal/fault"
)

// script is one scene: what happens, and what must be counted after it.
type script struct {
	title      string
	short      string // in the table
	play       func(*scene) error
	operations int // new records in the store
	payments   int // new payments at the partner
}

var scripts = []script{
	{"A normal order", "a normal order", normal, 1, 1},
	{"The answer is lost on the way, and the request is sent again", "answer lost, sent again", lostAnswer, 1, 1},
	{"Two at once", "two at once", twoAtOnce, 1, 1},
	{"The same key with other parameters", "other parameters", otherParameters, 0, 0},
	{"The same key from another tenant, and from another principal", "other tenant, other principal", otherCallers, 1, 1},
	{"kill -9 after the payment, before the record", "kill -9: unclear, resolved", crashOpaque, 1, 1},
	{"The same crash, but the partner deduplicates on a key of ours", "kill -9, keyed: ran again", crashKeyed, 1, 1},
}

// scene is a script that is being played.
type scene struct {
	*demo
	script
	ctx      context.Context
	requests int
	counted  counts // new ones
	wrong    int    // checks that did not hold
}

type counts struct{ operations, payments int }

// sceneTimeout bounds a scene; it takes a second or two, and on a machine that is busy with other things much longer.
const sceneTimeout = time.Minute

// play plays a scene and counts. With a scene and an error, the scene could not be played to its end.
func (d *demo) play(outer context.Context, number int, sc script) (*scene, error) {
	ctx, cancel := context.WithTimeoutCause(outer, sceneTimeout, fmt.Errorf("gave up after %v", sceneTimeout))
	defer cancel()
	before, err := d.count(ctx)
	if err != nil {
		return nil, err
	}
	s := &scene{demo: d, script: sc, ctx: ctx}
	d.say.heading(number, sc.title)
	playing := sc.play(s)
	if playing != nil && outer.Err() == nil {
		s.check(false, playing.Error())
	}
	after, err := d.count(outer)
	if err != nil {
		return nil, errors.Join(playing, err)
	}
	s.counted = counts{after.operations - before.operations, after.payments - before.payments}
	s.check(s.right(), fmt.Sprintf("%s, %s (expected %d and %d)", plural(s.counted.operations, "new operation"),
		plural(s.counted.payments, "new payment"), sc.operations, sc.payments))
	d.seen.clear()
	return s, playing
}

func (s *scene) right() bool { return s.counted == counts{s.script.operations, s.script.payments} }

// count counts at the two ends: records in the store, and payments at the partner.
func (d *demo) count(ctx context.Context) (counts, error) {
	var c counts
	for after := ""; ; {
		page, next, err := d.operator.List(ctx, einmal.Filter{Limit: 1000, After: after})
		if err != nil {
			return c, err
		}
		c.operations += len(page)
		if after = next; next == "" {
			break
		}
	}
	payments, err := d.partner.payments(ctx)
	c.payments = len(payments)
	return c, err
}

func (s *scene) check(ok bool, text string) {
	if !ok {
		s.wrong++
	}
	s.say.check(ok, text)
}

// expect checks the answer that a client got.
func (s *scene) expect(a *answer, want string) {
	if got := a.String(); got != want {
		s.check(false, fmt.Sprintf("the client expected %q and got %q", want, got))
	}
}

// line writes one line over the lanes.
func (s *scene) line(client string, a arrow, server string, b arrow, partner string) {
	s.say.line(client, a, server, b, partner)
}

// server waits until the server has said an event about a key.
func (s *scene) server(name, key string) error { return s.refusal(name, key, "") }

// recorded waits until the server has recorded an answer: on a machine that is so slow that the lease ran out meanwhile, as late truth.
func (s *scene) recorded(key string) error {
	_, err := s.seen.take(s.ctx, key, func(e event) bool { return e.Name == einmal.EventCompleted || e.Name == einmal.EventLateTruth })
	return silent(err, key, einmal.EventCompleted)
}

// silent says what the server did not say.
func silent(err error, key string, words ...string) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("the server did not say %q for key %s: %w", strings.TrimSpace(strings.Join(words, " ")), key, err)
}

// refusal waits until the server has refused a request with a problem.
func (s *scene) refusal(name, key, reason string) error {
	_, err := s.seen.take(s.ctx, key, func(e event) bool { return e.Name == name && strings.HasPrefix(e.Reason, reason) })
	return silent(err, key, name, reason)
}

// paid waits until the partner has a payment for a ref, and returns the first.
func (s *scene) paid(ref string) (payment, error) {
	if err := s.partner.await(s.ctx, fault.Effected, ref, 1); err != nil {
		return payment{}, err
	}
	payments, err := s.partner.payments(s.ctx)
	if err != nil {
		return payment{}, err
	}
	for _, p := range payments {
		if p.Ref == ref {
			return p, nil
		}
	}
	return payment{}, fmt.Errorf("the partner knows no payment for %s", ref)
}

// String is the payment as the diagram shows it.
func (p payment) String() string { return fmt.Sprintf("payment %d: %s", p.Payment, euro(p.Cents)) }

// created is the answer to whoever caused the payment, as answer.String has it.
func (p payment) created() string { return fmt.Sprintf("201, payment %d", p.Payment) }

func euro(cents int64) string { return fmt.Sprintf("€%d.%02d", cents/100, cents%100) }

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// ordinary plays an order that goes well up to its record, which everything else builds on.
func (s *scene) ordinary(r request, said string) (<-chan answer, payment, error) {
	got := s.send(r)
	if err := s.server(einmal.EventReserved, r.key); err != nil {
		return got, payment{}, err
	}
	s.line(said, right, "reserved, durable", nothing, "")
	paid, err := s.paid(r.ref())
	if err != nil {
		return got, paid, err
	}
	s.line("", nothing, "charges the partner", right, paid.String())
	if err := s.recorded(r.key); err != nil {
		return got, paid, err
	}
	s.line("", nothing, "recorded, durable", left, "201")
	return got, paid, nil
}

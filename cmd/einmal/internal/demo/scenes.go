package demo

import (
	"bytes"
	"fmt"

	"github.com/einmal-dev/einmal"
	"github.com/einmal-dev/einmal/contract"
	"github.com/einmal-dev/einmal/fault"
)

const price = 1250

func orderOf(who, key string) request {
	return request{who: who, path: ordersPath, key: key, cents: price}
}

func normal(s *scene) error {
	got, paid, err := s.ordinary(orderOf("alice", "order-1"), "POST order-1")
	if err != nil {
		return err
	}
	first := <-got
	s.line(first.String(), left, "answers", nothing, "")
	s.expect(&first, paid.created())
	return nil
}

func lostAnswer(s *scene) error {
	r := orderOf("alice", "order-2")
	s.proxy.ThenFor(r.key, fault.DropAnswer())
	got, paid, err := s.ordinary(r, "POST order-2")
	if err != nil {
		return err
	}
	if err := s.proxy.Await(s.ctx, fault.Cut, r.key, 1); err != nil {
		return err
	}
	first := <-got
	s.line(first.String(), lost, "answers 201", nothing, "")
	s.expect(&first, "no answer")

	again := <-s.send(r)
	if err := s.server(einmal.EventReplayed, r.key); err != nil {
		return err
	}
	s.line("POST order-2 again", right, "knows it: completed", nothing, "")
	s.line(again.String(), left, "the recorded answer", nothing, "")
	s.expect(&again, "201, replayed")
	s.check(again.replayed() && bytes.Contains(again.body, fmt.Appendf(nil, `"payment":%d}`, paid.Payment)),
		fmt.Sprintf("the retry got payment %d as well, with Idempotent-Replayed: true", paid.Payment))
	return nil
}

func twoAtOnce(s *scene) error {
	r := orderOf("alice", "order-3")
	if err := s.partner.next(s.ctx, r.ref(), holdPayment); err != nil {
		return err
	}
	first := s.send(r)
	if err := s.server(einmal.EventReserved, r.key); err != nil {
		return err
	}
	s.line("POST order-3", right, "reserved, durable", nothing, "")
	if err := s.partner.await(s.ctx, fault.Arrived, r.ref(), 1); err != nil {
		return err
	}
	s.line("", nothing, "charges the partner", right, "works on it …")

	second := <-s.send(r)
	s.line("POST order-3, second", right, "running: not again", nothing, "")
	s.line(second.String(), left, "Retry-After: "+second.header.Get("Retry-After"), nothing, "")
	s.expect(&second, "409 in-progress")

	r.wait = 10
	third := s.send(r)
	if err := s.proxy.Await(s.ctx, fault.PassedOn, r.key, 3); err != nil {
		return err
	}
	s.line("POST order-3, third", right, "Prefer: wait: it waits", nothing, "")
	if err := s.partner.release(s.ctx, r.ref()); err != nil {
		return err
	}
	paid, err := s.paid(r.ref())
	if err != nil {
		return err
	}
	s.line("", nothing, "", nothing, paid.String())
	if err := s.recorded(r.key); err != nil {
		return err
	}
	s.line("", nothing, "recorded, durable", left, "201")
	one, three := <-first, <-third
	s.line(one.String(), left, "answers the first", nothing, "")
	s.line(three.String(), left, "and who waited", nothing, "")
	s.expect(&one, paid.created())
	s.expect(&three, "201, replayed")
	return nil
}

func otherParameters(s *scene) error {
	r := orderOf("alice", "order-1")
	r.cents = 9900
	got := <-s.send(r)
	if err := s.refusal(einmal.EventRefused, r.key, string(contract.KeyReused)); err != nil {
		return err
	}
	s.line("POST order-1, "+euro(r.cents), right, "that key was "+euro(price), nothing, "")
	s.line(got.String(), left, "runs nothing", nothing, "")
	s.expect(&got, "422 key-reused")
	return nil
}

func otherCallers(s *scene) error {
	carol := orderOf("carol", "order-1")
	got, paid, err := s.ordinary(carol, "carol of globex: POST")
	if err != nil {
		return err
	}
	first := <-got
	s.line(first.String(), left, "an order of its own", nothing, "")
	s.expect(&first, paid.created())

	bob := <-s.send(orderOf("bob", "order-1"))
	if err := s.refusal(einmal.EventRefused, "order-1", string(contract.NotYours)); err != nil {
		return err
	}
	s.line("bob of acme: POST", right, "that key is alice's", nothing, "")
	s.line(bob.String(), left, "runs and tells nothing", nothing, "")
	s.expect(&bob, "403 not-yours")
	s.check(!bytes.Contains(bob.body, []byte("op_")) && bob.header.Get("Link") == "",
		fmt.Sprintf("%d not-yours names no operation and links to none", bob.status))
	return nil
}

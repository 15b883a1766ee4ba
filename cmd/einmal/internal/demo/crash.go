package demo

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"time"

	"github.com/einmal-dev/einmal"
	"github.com/einmal-dev/einmal/cmd/einmal/internal/term"
	"github.com/einmal-dev/einmal/contract"
	"github.com/einmal-dev/einmal/fault"
)

// crash plays an order up to the payment, kills the server before it has heard of it, and starts another on the same store.
func (s *scene) crash(r request, charges string) (paid payment, err error) {
	if err := s.partner.next(s.ctx, r.ref(), holdAnswer); err != nil {
		return paid, err
	}
	got := s.send(r)
	if err := s.server(einmal.EventReserved, r.key); err != nil {
		return paid, err
	}
	s.line("POST "+r.key, right, "reserved, durable", nothing, "")
	if paid, err = s.paid(r.ref()); err != nil {
		return paid, err
	}
	s.line("", nothing, charges, right, paid.String())
	s.shop.kill()
	first := <-got
	s.line(first.String(), lost, "killed with kill -9", nothing, "")
	s.expect(&first, "no answer")
	if err := s.partner.release(s.ctx, r.ref()); err != nil {
		return paid, err
	}
	if err := s.startShop(s.ctx); err != nil {
		return paid, err
	}
	s.line("", nothing, "started again, same store", nothing, "")
	return paid, nil
}

func crashOpaque(s *scene) error {
	r := orderOf("alice", "order-6")
	paid, err := s.crash(r, "charges the partner")
	if err != nil {
		return err
	}
	r.wait = 10 // until the dead server's lease is over
	got := <-s.send(r)
	s.line("POST order-6 again", right, "its server is gone", nothing, "")
	s.line(got.String(), left, "runs nothing", nothing, "")
	s.expect(&got, "409 outcome-unclear")
	r.wait = 0 // now it could run, if anything let it
	got = <-s.send(r)
	s.line("POST order-6 again", right, "still unclear", nothing, "")
	s.line(got.String(), left, "runs nothing", nothing, "")
	s.expect(&got, "409 outcome-unclear")
	s.say.sentence("Charging again could pay twice, and \"failed\" could be a lie: so neither. It is unclear, and it has an owner. What the owner sees and does:")

	s.einmal("operations", "list")
	op, err := s.operator.Find(s.ctx, einmal.Identity{Tenant: "acme", Operation: createOrder, Key: r.key})
	if err != nil {
		return err
	}
	s.einmal("operations", "show", op.ID)
	s.say.sentence(fmt.Sprintf("The partner, asked, has payment %d for %s. So:", paid.Payment, paid.Ref))
	if err := s.resolve(&op, r, paid); err != nil {
		return err
	}
	again := <-s.send(r)
	s.line("POST order-6 again", right, "knows it: completed", nothing, "")
	s.line(again.String(), left, "the resolved answer", nothing, "")
	s.expect(&again, "201, replayed")
	return nil
}

// resolve does what a person does who looked at the partner: the order happened, and this is the answer that its client would have got.
func (s *scene) resolve(op *einmal.Operation, r request, paid payment) error {
	body, err := json.Marshal(order{Order: r.key, Cents: r.cents, Payment: paid.Payment})
	if err != nil {
		return err
	}
	if err := os.WriteFile(s.path("answer.json"), append(body, '\n'), 0o600); err != nil {
		return err
	}
	s.einmal("operations", "resolve", op.ID, "--version", strconv.FormatInt(op.Version, 10), "--as", "applied", "--result", "answer.json", "--status", "201",
		"--header", "Content-Type: application/json", "--reason", fmt.Sprintf("payment %d is at the partner", paid.Payment), "--actor", shopOwner)
	return nil
}

// einmal runs this program as an operator would, and shows it.
func (s *scene) einmal(args ...string) {
	cmd := exec.CommandContext(s.ctx, s.exe, args...)
	cmd.Args[0] = "einmal"
	cmd.Dir = s.dir
	cmd.Env = append(os.Environ(), "EINMAL_STORE=sqlite:"+storeFile, fmt.Sprintf("COLUMNS=%d", narrowWidth-2))
	out, err := cmd.CombinedOutput()
	s.say.quote(term.CommandLine(narrowWidth-4, "einmal", args...), string(out))
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		s.check(false, fmt.Sprintf("einmal ended with %d", exit.ExitCode()))
	case err != nil:
		s.check(false, err.Error())
	}
}

func crashKeyed(s *scene) error {
	r := request{who: "alice", path: subscriptionsPath, key: "sub-7", cents: price}
	paid, err := s.crash(r, "charges with a key")
	if err != nil {
		return err
	}
	r.wait = 10
	var last answer
	for range 10 {
		last = <-s.send(r)
		if last.problem() == "" || last.next() != contract.NextWait {
			break
		}
		s.line("POST sub-7 again", right, "its server is gone", nothing, "")
		s.line(last.String(), left, "next: wait "+last.retryAfter().String(), nothing, "")
		select {
		case <-time.After(last.retryAfter()): // as the answer says
		case <-s.ctx.Done():
		}
	}
	if err := s.server(einmal.EventStarted, r.key); err != nil {
		return err
	}
	s.line("POST sub-7 again", right, "may run: attempt 2", nothing, "")
	if err := s.partner.await(s.ctx, fault.Arrived, r.ref(), 2); err != nil {
		return err
	}
	s.line("", nothing, "charges, same key", right, "knows the key")
	if err := s.recorded(r.key); err != nil {
		return err
	}
	s.line("", nothing, "recorded, durable", left, "201, the first answer")
	s.line(last.String(), left, "answers", nothing, "")
	s.expect(&last, paid.created())
	payments, err := s.partner.payments(s.ctx)
	if err != nil {
		return err
	}
	keys := map[string]bool{}
	for _, p := range payments {
		if p.Ref == r.ref() {
			keys[p.Key] = true
		}
	}
	op, err := s.operator.Find(s.ctx, einmal.Identity{Tenant: "acme", Operation: createSubscription, Key: r.key})
	if err != nil {
		return err
	}
	s.check(len(keys) == 1 && keys[op.PartnerKey] && !bytes.Contains([]byte(op.PartnerKey), []byte(r.key)),
		"both attempts sent the partner "+op.PartnerKey)
	return nil
}

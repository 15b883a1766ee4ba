package demo

import (
	"context"
	"strings"

	"github.com/einmal-dev/einmal"
)

func (d *demo) whatNext(command string) {
	d.say.Printf("\n%s\n", d.say.Bold("What next"))
	d.say.Printf("%s%s demo --stay\n%s  leaves it running, with curl lines to try\n", margin, command, margin)
	d.say.Printf("%sREADME.md\n%s  has the twenty lines that put this in front of your own handlers\n", margin, margin)
}

// stay leaves everything running until ctx ends, and shows what the server says meanwhile. A server that dies is started again.
func (d *demo) stay(ctx context.Context, command string) error {
	d.say.Printf("\n%s\n", d.say.Bold("It is still running. In another terminal, in the same folder:"))
	send := func(key, end string) []string {
		return []string{
			"curl -i " + d.proxy.URL() + ordersPath + " -H 'Authorization: Bearer alice' \\",
			"  -H 'Idempotency-Key: " + key + `' -d '{"order":"` + key + `","cents":1250}'` + end,
		}
	}
	d.try("the same order, as often as you like (bob is of acme too, carol of globex)", send("mine-1", "")...)
	d.try("what was really paid", "curl "+d.partner.base+paymentsPath)
	d.try("one that becomes unclear: the partner holds its answer, the server dies",
		append(append([]string{"curl -X POST '" + d.partner.base + "/next?do=" + holdAnswer + "&ref=acme/mine-2'"}, send("mine-2", " &")...),
			"sleep 1; kill -9 $(cat "+d.path("shop.pid")+"); sleep 3")...)
	d.try("and what its owner sees", "export EINMAL_STORE=sqlite:"+d.path(storeFile), command+" operations list")
	d.try("the contract that clients can read", d.proxy.URL()+"/.idempotency/contract")
	d.say.Printf("\n%s\n", d.say.Dim("What the server says, until Ctrl-C:"))
	d.seen.show(func(e event) {
		what := e.Name
		if e.Name == einmal.EventRefused {
			what = e.Reason
		}
		d.say.Printf("%s%s\n", margin, strings.TrimRight(strings.Join([]string{what, e.Operation, e.Tenant, e.Key}, "  "), " "))
	})
	for {
		select {
		case <-ctx.Done():
			d.say.Printf("\n")
			return nil
		case <-d.shop.exited:
		}
		if err := d.startShop(ctx); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		d.say.Printf("%sthe server was killed, and started again on the same store\n", margin)
	}
}

// try is a few lines that a person can copy.
func (d *demo) try(what string, lines ...string) {
	d.say.Printf("\n%s%s\n", margin, d.say.Dim("# "+what))
	for _, line := range lines {
		d.say.Printf("%s%s\n", margin, line)
	}
}

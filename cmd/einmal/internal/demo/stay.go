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
	base, auth := d.proxy.URL(), `-H 'Authorization: Bearer alice'`
	lines := func(text ...string) {
		for _, line := range text {
			d.say.Printf("%s%s\n", margin, line)
		}
		d.say.Printf("\n")
	}
	d.say.Printf("\n%s\n\n", d.say.Bold("It is still running. In another terminal:"))
	lines("# the same order, as often as you like; alice and bob are of acme, carol of globex",
		"curl -i "+base+ordersPath+" "+auth+" \\",
		`  -H 'Idempotency-Key: mine-1' --json '{"order":"mine-1","cents":1250}'`)
	lines("# what was really paid",
		"curl "+d.partner.base+paymentsPath)
	lines("# the contract, for clients; also in a browser",
		"curl "+base+"/.idempotency/contract")
	lines("# make one unclear: hold the partner's answer back, order, and kill the server",
		"curl -X POST '"+d.partner.base+"/next?do="+holdAnswer+"&ref=acme/mine-2'",
		"curl -i "+base+ordersPath+" "+auth+" \\",
		`  -H 'Idempotency-Key: mine-2' --json '{"order":"mine-2","cents":1250}' &`,
		"sleep 1; kill -9 $(cat "+d.path("shop.pid")+")",
		command+" operations list --store sqlite:"+d.path(storeFile))
	d.say.Printf("%s\n", d.say.Dim("What the server says, until Ctrl-C:"))
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

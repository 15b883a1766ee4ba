package storetest

import (
	"github.com/einmal-dev/einmal"
)

// makerCases come first: they find a Maker that cannot serve the others.
var makerCases = []testCase{
	{
		name: "two handles are on one storage",
		rule: "Maker.Open returns handles on the same storage: what one acknowledged the other reads, or two processes would each run the operation",
		check: func(e *env) {
			rec := e.running()
			e.same("the other handle", e.get(e.b, rec.ID), rec)
			if e.get(e.a, rec.ID).At.Store != e.get(e.b, rec.ID).At.Store {
				e.fail("the handles name different stores in Record.At")
			}
		},
	},
	{
		name: "advance moves the clock of every handle",
		rule: "Maker.Advance moves the store's clock, which is the only one that records are dated by, for all handles: leases are judged by it",
		check: func(e *env) {
			rec := e.running()
			e.maker.Advance(lease / 2)
			for i, s := range []einmal.Store{e.a, e.b} {
				if passed := e.get(s, rec.ID).Now.Sub(rec.Now); (passed - lease/2).Abs() > slack {
					e.see("handle %d: Advance(%v) moved Record.Now by %v", i+1, lease/2, passed)
				}
			}
		},
	},
}

package main

import (
	"fmt"

	"github.com/einmal-dev/einmal/sqlitestore"
)

func init() {
	for _, c := range []struct {
		callers int
		atLeast float64
	}{{1, 0.85}, {16, 0.85}, {64, 0.45}} {
		add(row{
			name: fmt.Sprintf("sqlite-commit-%d", c.callers), against: "rawlog", unit: "pairs/s", atLeast: c.atLeast,
			subject: sqlitePairs(c.callers, sqlitestore.Options{}), rival: rawlogPairs(c.callers),
		})
	}
}

package sqlitestore

import (
	"errors"

	"github.com/einmal-dev/einmal"
)

// openCount is how many open records a tenant has.
type openCount struct{ open, unclear int } // open: running and accepted

func (n *openCount) of(state einmal.State) *int {
	switch {
	case state == einmal.StateUnclear:
		return &n.unclear
	case state.Open():
		return &n.open
	}
	return new(int)
}

// withinLimits checks a tenant's limits against a count that is made once and then kept with every write.
func (t *tx) withinLimits(tenant string, limits einmal.Limits) error {
	if limits == (einmal.Limits{}) {
		return nil
	}
	if t.w.open == nil {
		if err := t.countOpen(); err != nil {
			return err
		}
	}
	n := t.w.open[tenant]
	if n != nil && (limits.Open != 0 && n.open >= limits.Open || limits.Unclear != 0 && n.unclear >= limits.Unclear) {
		return einmal.ErrTooManyOpen
	}
	return nil
}

// counted keeps the count when a record goes from one state to another; 0 is none.
func (t *tx) counted(tenant string, from, to einmal.State) {
	if t.w.open == nil || from == to {
		return
	}
	n := t.w.open[tenant]
	if n == nil {
		n = &openCount{}
		t.w.open[tenant] = n
	}
	*n.of(from)--
	*n.of(to)++
	if *n == (openCount{}) {
		delete(t.w.open, tenant)
	}
}

// countOpen reads every open record. One that cannot be read counts for nobody.
func (t *tx) countOpen() error {
	open := map[string]*openCount{}
	var failed error
	count := func(r *row) bool {
		rec, err := r.decode(t.wordByID, noResult)
		if failed = notDamage(err); failed != nil {
			return false
		}
		if err != nil {
			return true
		}
		n := open[rec.Tenant]
		if n == nil {
			n = &openCount{}
			open[rec.Tenant] = n
		}
		*n.of(rec.State)++
		return true
	}
	for q, from := range map[query]int64{allIndexed: 0, young: t.meta.indexed} {
		if err := t.c.each(q, from, count); err != nil || failed != nil {
			return errors.Join(err, failed)
		}
	}
	t.w.open = open
	return nil
}

package sqlitestore

import (
	"errors"
	"slices"
	"time"

	"github.com/einmal-dev/einmal"
)

// Most records are completed long before anybody has to look at them. So a new record is not put into the index of due times; it is young. Whoever looks
// for open records looks at the index and at the young ones: those with an ID above meta.indexed and neither due nor expires. Claim indexes the young that
// are still open when there have been many new ones, and moves meta.indexed up in the same transaction.

const (
	// youngWrites is after how many writes Claim indexes, so that few rows have to be looked at.
	youngWrites = 4000
	// youngOpen bounds how many young open records one Claim indexes.
	youngOpen = 500
)

// due is what a look for due records finds.
type due struct {
	records []found // those that may be claimed, the longest due first
	young   []found // the first of the open ones that are not in the index, in the order of their IDs
	damaged []int64 // those among them that cannot be read
	upTo    int64   // the last ID among them, when there are more
}

// overgrown reports whether the young ones should be indexed.
func (d *due) overgrown(m *meta) bool { return d.upTo != 0 || m.seq-m.indexed > youngWrites }

// dueOf looks for up to limit records that a claim may have. Unreadable ones are passed over.
//
// The young come first: one that is indexed meanwhile by another handle is then found twice, and not missed.
func (c *conn) dueOf(now time.Time, indexed int64, word func(int64) (word, error), claim *einmal.Claim, limit int) (d due, err error) {
	want := func(rec *einmal.Record) bool {
		return rec.State.Open() && !rec.Due.After(now) && (claim.Operations == nil || slices.Contains(claim.Operations, rec.Operation))
	}
	var failed error
	err = c.each(young, indexed, func(r *row) bool {
		rec, err := r.decode(word, noResult)
		if failed = notDamage(err); failed != nil {
			return false
		}
		if err == nil && want(&rec) {
			d.records = append(d.records, found{rec, placeOf(r)})
		}
		switch full := len(d.young)+len(d.damaged) == youngOpen; {
		case full && d.upTo == 0:
			d.upTo = r.id - 1
		case full:
		case err != nil:
			d.damaged = append(d.damaged, r.id)
		default:
			d.young = append(d.young, found{rec, placeOf(r)})
		}
		return true
	})
	if err = errors.Join(err, failed); err != nil {
		return d, err
	}
	indexedOnes, err := c.scan(dueRecords, word, limit, want, integer(max(now.Unix(), 1)))
	if err != nil {
		return d, err
	}
	d.records = append(d.records, indexedOnes...)
	slices.SortStableFunc(d.records, func(a, b found) int { return a.rec.Due.Compare(b.rec.Due) })
	d.records = d.records[:min(len(d.records), limit)]
	return d, nil
}

// index puts the young records that were found into the index, but for those that were claimed, which are there. Nothing else of them changes.
func (t *tx) index(d *due) error {
	claimed := map[einmal.ID]bool{}
	for i := range d.records {
		claimed[d.records[i].rec.ID] = true
	}
	for i := range d.young {
		f := &d.young[i]
		if claimed[f.rec.ID] {
			continue
		}
		if err := t.store(&f.rec, f.at, f.at.result); err != nil {
			return err
		}
	}
	for _, id := range d.damaged {
		if err := t.exec(setDue, integer(id), integer(max(t.now.Unix(), 1))); err != nil {
			return err
		}
	}
	t.dirty = true
	t.meta.indexed = d.upTo
	if d.upTo == 0 {
		t.meta.indexed = t.meta.seq
	}
	return nil
}

package sqlitestore

import (
	"context"
	"slices"
	"time"

	"github.com/einmal-dev/einmal"
	"github.com/einmal-dev/einmal/internal/mutant"
)

// Claim implements einmal.Store. An idle store is only read.
func (s *Store) Claim(ctx context.Context, c einmal.Claim) ([]einmal.Record, error) {
	if c.Limit <= 0 {
		return nil, nil
	}
	var needed bool
	err := s.read(ctx, func(r *reader) (err error) {
		if err := r.look(); err != nil {
			return err
		}
		due, err := r.c.dueOf(r.now, r.meta.indexed, r.wordByID, &c, 1)
		needed = len(due.records) > 0 || due.overgrown(&r.meta)
		return err
	})
	if err != nil || !needed {
		return nil, err
	}
	var claimed []einmal.Record
	err = s.write(ctx, func(t *tx) (err error) {
		claimed, err = t.claim(&c)
		return err
	})
	if err != nil {
		return nil, err
	}
	return claimed, nil
}

func (t *tx) claim(c *einmal.Claim) ([]einmal.Record, error) {
	due, err := t.c.dueOf(t.now, t.meta.indexed, t.wordByID, c, c.Limit)
	if err != nil {
		return nil, err
	}
	claimed := make([]einmal.Record, 0, len(due.records))
	for _, d := range due.records {
		d.rec.Seq, d.rec.Due = t.nextSeq(), t.now.Add(c.Lease)
		if err := t.store(&d.rec, d.at, d.at.result); err != nil {
			return nil, err
		}
		t.stamp(&d.rec)
		claimed = append(claimed, d.rec)
	}
	if due.overgrown(&t.meta) {
		return claimed, t.index(&due)
	}
	return claimed, nil
}

// found is a record with its place.
type found struct {
	rec einmal.Record
	at  place
}

// scan returns up to limit records of a query over an index of whole seconds, those that are wanted.
func (c *conn) scan(q query, now time.Time, word func(int64) (word, error), limit int, want func(*einmal.Record) bool) ([]found, error) {
	stmt, err := c.query(q, max(now.Unix(), 1))
	if err != nil {
		return nil, err
	}
	defer stmt.Reset()
	var all []found
	for len(all) < limit && stmt.Step() {
		r, has := scanRow(stmt, noResult)
		if !has {
			break
		}
		rec, err := r.decode(word, noResult)
		if err := notDamage(err); err != nil {
			return nil, err
		}
		if err == nil && want(&rec) {
			all = append(all, found{rec, placeOf(&r)})
		}
	}
	return all, stmt.Err()
}

const (
	// purgeChunk bounds how long purging holds up other writes.
	purgeChunk = 100
	// markEvery is how far the mark in the file may lag while nothing is written but Purge is called.
	markEvery = time.Minute
)

// Purge implements einmal.Store. An idle store is only read, but for the clock's mark now and then.
func (s *Store) Purge(ctx context.Context, limit int) (int, error) {
	p := purge{limit: limit, touched: map[einmal.ID]bool{}}
	for {
		any, err := s.purgeable(ctx, &p)
		if err != nil || !any {
			return len(p.touched), err
		}
		var chunk []found
		err = s.write(ctx, func(t *tx) (err error) {
			chunk, err = t.purge(&p)
			return err
		})
		if err != nil || len(chunk) == 0 {
			return len(p.touched), err
		}
		for i := range chunk {
			p.count(&chunk[i])
		}
	}
}

// purge is one call of Purge. Every record is touched once.
type purge struct {
	limit            int
	expired, deleted int
	touched          map[einmal.ID]bool
}

func (p *purge) count(f *found) {
	p.touched[f.rec.ID] = true
	if f.rec.State == einmal.StateExpired {
		p.deleted++
	} else {
		p.expired++
	}
}

func (p *purge) wants(rec *einmal.Record, now time.Time) bool {
	switch {
	case p.touched[rec.ID]:
		return false
	case rec.State == einmal.StateExpired:
		return p.deleted < p.limit && !rec.RecognisedUntil.Add(rec.Terms.Tombstone).After(now)
	}
	return mayExpire(rec.State) && p.expired < p.limit && !rec.RecognisedUntil.After(now)
}

func mayExpire(s einmal.State) bool {
	return s == einmal.StateCompleted || s == einmal.StateNotApplied ||
		s == einmal.StateRunning && mutant.On("purge-running") || s == einmal.StateUnclear && mutant.On("unclear-expires")
}

// purgeable looks for something to purge, or to write about the clock, on a reading connection.
func (s *Store) purgeable(ctx context.Context, p *purge) (any bool, err error) {
	var jumped, tell bool
	err = s.read(ctx, func(r *reader) error {
		if err := r.look(); err != nil {
			return err
		}
		if jumped = r.jumped; jumped {
			tell = !r.meta.jumped
			return nil
		}
		found, err := r.c.scan(expiringQuery(), r.now, r.wordByID, 1, func(rec *einmal.Record) bool { return p.wants(rec, r.now) })
		any = len(found) > 0
		tell = !any && len(p.touched) == 0 && r.now.Sub(r.meta.highWater()) >= markEvery
		return err
	})
	if err == nil && tell {
		err = s.write(ctx, func(t *tx) error { t.dirty = true; return nil })
	}
	if err == nil && jumped {
		err = einmal.ErrClockJumped
	}
	return any, err
}

// expiringQuery is the query that purging scans.
func expiringQuery() query {
	if mutant.On("purge-running") || mutant.On("unclear-expires") {
		return everything
	}
	return expiring
}

// purge expires and deletes one chunk and returns it. It leaves p alone, for this transaction may be rolled back and run again.
func (t *tx) purge(p *purge) ([]found, error) {
	if t.jumped {
		return nil, einmal.ErrClockJumped
	}
	next := purge{limit: p.limit, expired: p.expired, deleted: p.deleted, touched: p.touched}
	chunk, err := t.c.scan(expiringQuery(), t.now, t.wordByID, purgeChunk, func(rec *einmal.Record) bool {
		if !next.wants(rec, t.now) {
			return false
		}
		if rec.State == einmal.StateExpired {
			next.deleted++
		} else {
			next.expired++
		}
		return true
	})
	if err != nil {
		return nil, err
	}
	done := chunk[:0]
	for _, f := range chunk {
		did, err := t.expire(f)
		if err != nil {
			return nil, err
		}
		if did {
			done = append(done, f)
		}
	}
	return done, nil
}

// expire makes a tombstone of a record, or deletes the one that it is. It leaves a tombstone that stands between another record and its hash (see
// tx.insert).
func (t *tx) expire(f found) (did bool, err error) {
	rec := &f.rec
	if rec.State == einmal.StateExpired {
		needed, err := t.c.exists(hashTaken, f.at.hash+1)
		if needed || err != nil {
			return false, err
		}
		t.nextSeq()
		if err := t.exec(deleteTimeline, integer(int64(rec.ID))); err != nil {
			return false, err
		}
		return true, t.exec(deleteRecord, integer(int64(rec.ID)))
	}
	if f.at.result != 0 {
		if err := t.exec(deleteResult, integer(f.at.result)); err != nil {
			return false, err
		}
	}
	was := rec.State
	rec.State, rec.Result = einmal.StateExpired, nil
	rec.LeaseUntil, rec.Due = time.Time{}, time.Time{}
	rec.Changed = t.now
	rec.Version++
	rec.Ends = slices.Clone(rec.Ends)
	for i := range rec.Ends {
		rec.Ends[i].Result = nil
	}
	rec.Seq = t.nextSeq()
	t.counted(rec.Tenant, was, rec.State)
	return true, t.store(rec, f.at, 0)
}

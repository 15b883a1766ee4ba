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

// scan returns up to limit records of a query, those that are wanted.
func (c *conn) scan(q query, word func(int64) (word, error), limit int, want func(*einmal.Record) bool, args ...arg) ([]found, error) {
	stmt, err := c.bound(q, args...)
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
		if err == nil && want(&rec) {
			all = append(all, found{rec, placeOf(&r)})
		}
	}
	return all, stmt.Err()
}

const (
	// purgeChunk is how many records purging touches in one transaction, and purgeShare how many when others wait for the same commit.
	purgeChunk = 50
	purgeShare = 8
	// markEvery is how far the mark in the file may lag while nothing is written but Purge is called.
	markEvery = time.Minute
)

// Purge implements einmal.Store. It deletes first, so that no record goes two steps in one call. An idle store is only read, but for the clock's mark
// now and then.
func (s *Store) Purge(ctx context.Context, limit int) (touched int, err error) {
	for _, deleting := range []bool{true, false} {
		for n := 0; n < limit; {
			any, err := s.purgeable(ctx, deleting, touched == 0)
			if err != nil || !any {
				if err != nil {
					return touched, err
				}
				break
			}
			did := 0
			err = s.write(ctx, func(t *tx) (err error) {
				did, err = t.purge(deleting, min(purgeChunk, limit-n))
				return err
			})
			if err != nil {
				return touched, err
			}
			if did == 0 {
				break
			}
			n += did
			touched += did
		}
	}
	return touched, nil
}

// over looks for up to limit records that purging deletes or expires now.
func (c *conn) over(deleting bool, now time.Time, word func(int64) (word, error), limit int) ([]found, error) {
	if deleting {
		return c.scan(expiring, word, limit, func(rec *einmal.Record) bool {
			return rec.State == einmal.StateExpired && !rec.RecognisedUntil.Add(rec.Terms.Tombstone).After(now)
		}, integer(tombstones), integer(tombstones+now.Unix()))
	}
	q := expiring
	if mutant.On("purge-running") || mutant.On("unclear-expires") {
		q = everything
	}
	return c.scan(q, word, limit, func(rec *einmal.Record) bool {
		return mayExpire(rec.State) && !rec.RecognisedUntil.After(now)
	}, integer(0), integer(max(now.Unix(), 1)))
}

func mayExpire(s einmal.State) bool {
	return s == einmal.StateCompleted || s == einmal.StateNotApplied ||
		s == einmal.StateRunning && mutant.On("purge-running") || s == einmal.StateUnclear && mutant.On("unclear-expires")
}

// purgeable looks for something to purge, or to write about the clock, on a reading connection.
func (s *Store) purgeable(ctx context.Context, deleting, first bool) (any bool, err error) {
	var jumped, tell bool
	err = s.read(ctx, func(r *reader) error {
		if err := r.look(); err != nil {
			return err
		}
		if jumped = r.jumped; jumped {
			tell = !r.meta.jumped
			return nil
		}
		found, err := r.c.over(deleting, r.now, r.wordByID, 1)
		any = len(found) > 0
		tell = !any && first && r.now.Sub(r.meta.highWater()) >= markEvery
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

// purge deletes or expires up to limit records and returns how many.
func (t *tx) purge(deleting bool, limit int) (did int, err error) {
	if t.jumped {
		return 0, einmal.ErrClockJumped
	}
	if !t.alone {
		limit = min(limit, purgeShare)
	}
	chunk, err := t.c.over(deleting, t.now, t.wordByID, limit)
	if err != nil {
		return 0, err
	}
	for _, f := range chunk {
		done, err := t.expire(f)
		if err != nil {
			return 0, err
		}
		if done {
			did++
		}
	}
	return did, nil
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

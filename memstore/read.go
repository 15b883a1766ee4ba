package memstore

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/einmal-dev/einmal"
)

func (s *store) Get(ctx context.Context, ref einmal.Ref) (rec einmal.Record, err error) {
	err = s.atomically(ctx, func(now time.Time) error {
		r := s.byID[ref.ID]
		if ref.ID == 0 {
			r = s.byName[identity(ref.Identity)]
		}
		if r == nil {
			return einmal.ErrNotFound
		}
		rec = s.read(r, now)
		return nil
	})
	return rec, err
}

func (s *store) Timeline(ctx context.Context, id einmal.ID) (entries []einmal.Entry, err error) {
	err = s.atomically(ctx, func(time.Time) error {
		r := s.byID[id]
		if r == nil {
			return einmal.ErrNotFound
		}
		entries = slices.Clone(r.timeline)
		return nil
	})
	return entries, err
}

// List has the ID of a page's last record as its cursor.
func (s *store) List(ctx context.Context, f einmal.Filter) (page []einmal.Record, next string, err error) {
	err = s.atomically(ctx, func(now time.Time) error {
		var after int64
		if f.After != "" {
			if after, err = strconv.ParseInt(f.After, 10, 64); err != nil {
				return fmt.Errorf("memstore: cursor %q: %w", f.After, err)
			}
		}
		limit := 100
		if f.Limit > 0 {
			limit = min(f.Limit, 1000)
		}
		for _, r := range s.rows {
			if r.ID <= einmal.ID(after) || !selects(f, r, now) {
				continue
			}
			if len(page) == limit {
				next = strconv.FormatInt(int64(page[limit-1].ID), 10)
				break
			}
			page = append(page, withoutBodies(s.read(r, now)))
		}
		return nil
	})
	return page, next, err
}

func selects(f einmal.Filter, r *row, now time.Time) bool {
	return (len(f.States) == 0 || slices.Contains(f.States, r.State)) &&
		(f.Tenant == nil || *f.Tenant == r.Tenant) &&
		(f.Operation == "" || f.Operation == r.Operation) &&
		(f.Owner == "" || f.Owner == r.Terms.Owner) &&
		(!f.Attention || r.Attention) &&
		now.Sub(r.Changed) >= f.OlderThan
}

// read returns a record as it stands now, sharing no memory with the store.
func (s *store) read(r *row, now time.Time) einmal.Record {
	rec := r.Record
	rec.Ends, rec.Result = copyEnds(r.Ends), copyResult(r.Result)
	rec.Now, rec.At = now, s.position
	return rec
}

func copyResult(r *einmal.Result) *einmal.Result {
	if r == nil {
		return nil
	}
	return &einmal.Result{Status: r.Status, Header: slices.Clone(r.Header), Body: bytes.Clone(r.Body), Kept: r.Kept}
}

func copyEnds(ends []einmal.AttemptEnd) []einmal.AttemptEnd {
	ends = slices.Clone(ends)
	for i := range ends {
		ends[i].Result = copyResult(ends[i].Result)
	}
	return ends
}

// withoutBodies strips a copy for a list.
func withoutBodies(rec einmal.Record) einmal.Record {
	if rec.Result != nil {
		rec.Result.Body = nil
	}
	for _, e := range rec.Ends {
		if e.Result != nil {
			e.Result.Body = nil
		}
	}
	return rec
}

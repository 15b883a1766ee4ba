package sqlitestore

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/einmal-dev/einmal"
)

// readers is how many connections a handle reads with at most; they are opened when they are needed.
const readers = 4

// reader is a reading connection while one call has it.
type reader struct {
	*Store
	c      *conn
	meta   meta
	now    time.Time
	jumped bool
}

// read calls step with a connection of its own.
func (s *Store) read(ctx context.Context, step func(*reader) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	var c *conn
	select {
	case c = <-s.pool:
	default:
		select {
		case c = <-s.pool:
		case <-ctx.Done():
			return ctx.Err()
		case <-s.closed:
			return einmal.ErrStoreClosed
		}
	}
	select {
	case <-s.closed:
		s.pool <- c
		return einmal.ErrStoreClosed
	default:
	}
	if c == nil {
		var err error
		if c, err = s.openReader(ctx); err != nil {
			s.pool <- nil
			return fmt.Errorf("sqlitestore: opening a connection: %w", err)
		}
	}
	err := step(&reader{Store: s, c: c})
	if err != nil && brokenFile(err) {
		_ = c.close() // the error is reported already
		c = nil
	}
	s.pool <- c
	return err
}

// at takes the snapshot's state.
func (r *reader) at(m meta) {
	r.meta = m
	r.now, r.jumped = r.clock.read(&m)
}

// look reads the store's state.
func (r *reader) look() error {
	m, err := r.c.meta()
	if err != nil {
		return unreadableMeta(err)
	}
	r.at(m)
	return nil
}

func (r *reader) stamp(rec *einmal.Record) { rec.Now, rec.At = r.now, r.position(&r.meta) }

func (r *reader) wordByID(id int64) (word, error) {
	if w, ok := r.vocabulary.word(id); ok {
		return w, nil
	}
	w, err := r.c.word(id)
	if err == nil {
		r.vocabulary.add(id, w)
	}
	return w, err
}

// Get implements einmal.Store.
func (s *Store) Get(ctx context.Context, ref einmal.Ref) (einmal.Record, error) {
	var rec einmal.Record
	err := s.read(ctx, func(r *reader) (err error) {
		var m meta
		if ref.ID != 0 {
			rec, _, m, err = r.c.load(ref.ID, r.wordByID)
		} else {
			rec, m, err = r.c.find(s.hash(&ref.Identity), &ref.Identity, r.wordByID)
		}
		if err == nil {
			r.at(m)
			r.stamp(&rec)
		}
		return err
	})
	if err != nil {
		return einmal.Record{}, err
	}
	return rec, nil
}

// Timeline implements einmal.Store.
func (s *Store) Timeline(ctx context.Context, id einmal.ID) (entries []einmal.Entry, err error) {
	err = s.read(ctx, func(r *reader) error {
		if _, _, _, err := r.c.load(id, r.wordByID); err != nil {
			return err
		}
		stmt, err := r.c.query(timelineOf, int64(id))
		if err != nil {
			return err
		}
		defer stmt.Reset()
		for stmt.Step() {
			e, err := decodeEntry(stmt.ColumnRawBlob(1), int64(id))
			if err != nil {
				return unreadable(err, id)
			}
			entries = append(entries, e)
		}
		return unreadable(stmt.Err(), id)
	})
	return entries, err
}

// encodeEntry writes a timeline entry of a record.
func encodeEntry(e *einmal.Entry, at time.Time, record int64) []byte {
	b := make([]byte, sumSize, 128)
	b = binary.LittleEndian.AppendUint64(b, uint64(at.UnixNano()))
	b = append(b, byte(e.From), byte(e.To), byte(e.Actor))
	b = binary.AppendUvarint(b, uint64(e.Attempt))
	for _, s := range [...]string{e.Event, e.By, e.Reason, e.Link} {
		b = appendString(b, s)
	}
	seal(b, record)
	return b
}

func decodeEntry(data []byte, record int64) (e einmal.Entry, err error) {
	rest, err := unseal(data, record)
	if err != nil {
		return e, err
	}
	d := decoder{b: rest}
	e = einmal.Entry{
		At: instant(d.int64()), From: einmal.State(d.byte()), To: einmal.State(d.byte()), Actor: einmal.Actor(d.byte()), Attempt: d.int(),
		Event: d.string(), By: d.string(), Reason: d.string(), Link: d.string(),
	}
	if d.bad || len(d.b) > 0 {
		return einmal.Entry{}, errDamaged
	}
	return e, nil
}

const (
	defaultPage = 100
	largestPage = 1000
)

// reasonUnreadable is what a list says of a damaged record.
const reasonUnreadable = "record unreadable"

// List implements einmal.Store. The cursor is the last record's ID.
func (s *Store) List(ctx context.Context, f einmal.Filter) (page []einmal.Record, next string, err error) {
	after := int64(0)
	if f.After != "" {
		if after, err = strconv.ParseInt(f.After, 10, 64); err != nil {
			return nil, "", fmt.Errorf("sqlitestore: cursor %q is not one that List returned", f.After)
		}
	}
	limit := defaultPage
	if f.Limit > 0 {
		limit = min(f.Limit, largestPage)
	}
	err = s.read(ctx, func(r *reader) error {
		page, err = r.list(&f, after, limit+1)
		return err
	})
	if err != nil {
		return nil, "", err
	}
	if len(page) > limit {
		page = page[:limit]
		next = strconv.FormatInt(int64(page[limit-1].ID), 10)
	}
	return page, next, nil
}

func (r *reader) list(f *einmal.Filter, after int64, limit int) (page []einmal.Record, err error) {
	if err := r.look(); err != nil {
		return nil, err
	}
	if len(f.States) == 0 || slices.ContainsFunc(f.States, func(s einmal.State) bool { return !s.Open() }) {
		return r.listFrom(nil, listAll, f, limit, integer(after))
	}
	if page, err = r.listFrom(nil, listIndexed, f, limit, integer(after), integer(r.meta.indexed)); err != nil {
		return nil, err
	}
	return r.listFrom(page, listYoung, f, limit, integer(max(after, r.meta.indexed)))
}

// listFrom appends what the filter selects of a query's rows to a page, until it has limit records.
func (r *reader) listFrom(page []einmal.Record, q query, f *einmal.Filter, limit int, args ...arg) ([]einmal.Record, error) {
	stmt, err := r.c.bound(q, args...)
	if err != nil {
		return nil, err
	}
	defer stmt.Reset()
	for len(page) < limit && stmt.Step() {
		rec, listed, err := r.listed(stmt, f)
		if err != nil {
			return nil, err
		}
		if listed {
			page = append(page, rec)
		}
	}
	return page, unreadable(stmt.Err(), 0)
}

// listed returns the record at the statement's row and whether the filter selects it. A damaged one is selected unless it is, as far as can be read,
// of another tenant.
func (r *reader) listed(stmt *sqlite3.Stmt, f *einmal.Filter) (rec einmal.Record, listed bool, err error) {
	row, _ := scanRow(stmt, onlyHead)
	rec, err = row.decode(r.wordByID, onlyHead)
	switch {
	case errors.Is(err, errDamaged):
		rec.Reason, rec.Result = reasonUnreadable, nil
		listed = f.Tenant == nil || *f.Tenant == rec.Tenant
	case err != nil:
		return rec, false, err
	default:
		listed = selects(f, &rec, r.now)
	}
	for i := range rec.Ends {
		if rec.Ends[i].Result != nil {
			rec.Ends[i].Result.Body = nil
		}
	}
	r.stamp(&rec)
	return rec, listed, nil
}

func selects(f *einmal.Filter, rec *einmal.Record, now time.Time) bool {
	return (len(f.States) == 0 || slices.Contains(f.States, rec.State)) &&
		(f.Tenant == nil || *f.Tenant == rec.Tenant) &&
		(f.Operation == "" || f.Operation == rec.Operation) &&
		(f.Owner == "" || f.Owner == rec.Terms.Owner) &&
		(!f.Attention || rec.Attention) &&
		now.Sub(rec.Changed) >= f.OlderThan
}

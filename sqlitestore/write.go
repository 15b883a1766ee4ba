package sqlitestore

import (
	"context"
	"errors"

	"github.com/einmal-dev/einmal"
	"github.com/einmal-dev/einmal/internal/mutant"
)

// Reserve implements einmal.Store.
func (s *Store) Reserve(ctx context.Context, r einmal.Reservation) (einmal.Record, bool, error) {
	hash := s.hash(&r.Identity)
	if s.known.has(hash) {
		rec, err := s.Get(ctx, einmal.Ref{Identity: r.Identity})
		if !errors.Is(err, einmal.ErrNotFound) {
			return rec, false, err
		}
	}
	var (
		rec     einmal.Record
		created bool
	)
	err := s.write(ctx, func(t *tx) (err error) {
		rec, created, err = t.reserve(&r, hash)
		return err
	})
	if err != nil {
		return einmal.Record{}, false, err
	}
	s.known.add(hash)
	return rec, created, nil
}

// reserve inserts or finds. Inserting is tried first, since most keys are new and SQLite looks for the hash anyway.
func (t *tx) reserve(r *einmal.Reservation, hash int64) (einmal.Record, bool, error) {
	refusal := t.mayReserve(r)
	if refusal == nil {
		return t.insert(t.reserved(r), hash)
	}
	rec, err := t.find(hash, &r.Identity)
	if errors.Is(err, einmal.ErrNotFound) {
		err = refusal
	}
	return rec, false, err
}

// mayReserve checks what forbids a new record.
func (t *tx) mayReserve(r *einmal.Reservation) error {
	if err := t.mayStart(&r.Identity, r.Seen); err != nil {
		return err
	}
	if err := t.withinLimits(r.Tenant, r.Limits); err != nil {
		return err
	}
	switch {
	case r.KeyTime.IsZero():
	case t.now.Sub(r.KeyTime) > r.Terms.Window:
		return einmal.ErrKeyTooOld
	case r.KeyTime.Sub(t.now) > einmal.MaxKeySkew:
		return einmal.ErrKeyFromFuture
	}
	return nil
}

// reserved is the record that a reservation asks for, still without ID and sequence.
func (t *tx) reserved(r *einmal.Reservation) einmal.Record {
	lease := t.now.Add(r.Terms.Lease)
	return einmal.Record{
		Identity: r.Identity, Principal: r.Principal, Fingerprint: r.Fingerprint, PartnerKey: r.PartnerKey, Terms: r.Terms,
		State: einmal.StateRunning, Attempt: 1, Version: 1, Nonce: r.Nonce,
		Ends:    []einmal.AttemptEnd{{Attempt: 1, Holder: r.Holder}},
		Created: t.now, Changed: t.now, LeaseUntil: lease, Due: lease, RecognisedUntil: t.now.Add(r.Terms.Window),
	}
}

// insert gives a new record its ID and its row, or finds the one that the identity has. When another identity has the hash, the next number is
// taken; find goes the same way, and purge leaves no gap in it.
func (t *tx) insert(rec einmal.Record, hash int64) (_ einmal.Record, created bool, err error) {
	terms, holders, err := t.wordsOf(&rec) // which may take a sequence of their own
	if err != nil {
		return rec, false, err
	}
	rec.Seq = t.meta.seq + 1
	rec.ID = einmal.ID(rec.Seq)
	r := row{id: rec.Seq, hash: hash} // without its due time: see young.go
	t.encode(&r, &rec, terms, holders)
	r.data = append(r.data, make([]byte, slack)...)
	for {
		r.seal()
		created, err := t.change(insertRecord, integer(r.id), integer(r.hash), blob(r.data))
		if err != nil {
			return rec, false, err
		}
		if created {
			break
		}
		there, _, err := t.c.atHash(r.hash, t.wordByID)
		if err != nil {
			return rec, false, err
		}
		if sameIdentity(&there.Identity, &rec.Identity) {
			t.stamp(&there)
			return there, false, nil
		}
		r.hash++
	}
	t.nextSeq()
	t.counted(rec.Tenant, 0, rec.State)
	t.w.remember(&rec, placeOf(&r))
	t.stamp(&rec)
	return rec, true, nil
}

// Apply implements einmal.Store.
func (s *Store) Apply(ctx context.Context, c einmal.Change) (einmal.Record, error) {
	var rec einmal.Record
	err := s.write(ctx, func(t *tx) (err error) {
		rec, err = t.apply(&c)
		return err
	})
	if err != nil {
		return einmal.Record{}, err
	}
	return rec, nil
}

func (t *tx) apply(c *einmal.Change) (einmal.Record, error) {
	rec, at, err := t.load(c.ID)
	if err != nil {
		return rec, err
	}
	if !planted(c.Guard).Holds(&rec) {
		return rec, &einmal.StaleError{Record: rec, Tried: c.Guard}
	}
	if c.Guard.Start {
		if err := t.mayStart(&rec.Identity, c.Seen); err != nil {
			return rec, err
		}
		if err := t.withinLimits(rec.Tenant, c.Limits); err != nil {
			return rec, err
		}
		if c.Guard.MaxAge != 0 && t.jumped {
			return rec, einmal.ErrClockJumped
		}
	}
	was := rec.State
	if err := c.Write(&rec, t.now); err != nil {
		return rec, err
	}
	rec.Seq = t.nextSeq()
	result := at.result
	if c.Kind == einmal.Transition {
		if result, err = t.replaceResult(&rec, at.result); err != nil {
			return rec, err
		}
	}
	if err := t.store(&rec, at, result); err != nil {
		return rec, err
	}
	if c.Entry != nil {
		if err := t.exec(insertEntry, integer(t.nextSeq()), integer(int64(rec.ID)), blob(encodeEntry(c.Entry, t.now, int64(rec.ID)))); err != nil {
			return rec, err
		}
	}
	t.counted(rec.Tenant, was, rec.State)
	t.stamp(&rec)
	return rec, nil
}

// planted is the guard less what a mutant forgets.
func planted(g einmal.Guard) einmal.Guard {
	switch {
	case mutant.On("renewal-revives"):
		g.LeaseHeld = false
	case mutant.On("version-not-checked"):
		g.Version = 0
	case mutant.On("no-fence"):
		g.Attempt = 0
	}
	return g
}

// replaceResult writes the record's result in place of the one that it had and returns the new row's ID.
func (t *tx) replaceResult(rec *einmal.Record, old int64) (id int64, err error) {
	if old != 0 {
		if err := t.exec(deleteResult, integer(old)); err != nil {
			return 0, err
		}
	}
	if rec.Result == nil {
		return 0, nil
	}
	id = rec.Seq
	body := arg{}
	if len(rec.Result.Body) > 0 {
		body = blob(rec.Result.Body)
	}
	t.w.head = sealedHead(t.w.head, rec.Result, int64(rec.ID), id)
	return id, t.exec(insertResult, integer(id), blob(t.w.head), body)
}

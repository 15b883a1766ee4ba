package sqlitestore

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/einmal-dev/einmal"
)

// Names of settings that have a meaning to the store.
const (
	settingPause = "pause"
	settingClock = "clock"
	settingEpoch = "epoch"
	settingID    = "id"
	settingSeq   = "seq"

	valueAccept = "accept"
	everyone    = "*"
)

// acceptedGap is how much the sequence grows when a gap is accepted. IDs are taken from it, and those that were given after the state that was
// restored must not be given again.
const acceptedGap = 1 << 32

// Settings implements einmal.Store.
func (s *Store) Settings(ctx context.Context, set ...einmal.Setting) ([]einmal.Setting, error) {
	for i := range set {
		if err := checkSetting(&set[i]); err != nil {
			return nil, err
		}
	}
	var all []einmal.Setting
	if len(set) == 0 {
		err := s.read(ctx, func(r *reader) (err error) {
			if err := r.look(); err != nil {
				return err
			}
			all, err = r.c.settings(r.now)
			all = append(s.ownSettings(&r.meta, r.jumped), all...)
			return err
		})
		if err != nil {
			return nil, err
		}
		return all, nil
	}
	err := s.write(ctx, func(t *tx) (err error) {
		all, err = t.writeSettings(set)
		return err
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

// checkSetting refuses what is the store's own, except for the two acceptances.
func checkSetting(s *einmal.Setting) error {
	switch s.Name {
	case "", settingID, settingSeq:
		return fmt.Errorf("sqlitestore: setting %q cannot be written", s.Name)
	case settingClock, settingEpoch:
		if s.Value != valueAccept || s.Delete {
			return fmt.Errorf("sqlitestore: setting %q can be given the value %s only", s.Name, valueAccept)
		}
	}
	return nil
}

func (t *tx) writeSettings(set []einmal.Setting) ([]einmal.Setting, error) {
	there, err := t.settings()
	if err != nil {
		return nil, err
	}
	t.nextSeq()
	t.dirty = true // the sequence that is returned must be there
	t.w.settings = nil
	for i := range set {
		if err := t.set(&set[i], there); err != nil {
			return nil, err
		}
		if there, err = t.c.settings(t.now); err != nil {
			return nil, err
		}
	}
	return append(t.ownSettings(&t.meta, t.jumped), there...), nil
}

func (t *tx) set(one *einmal.Setting, there []einmal.Setting) error {
	same := func(s einmal.Setting) bool {
		return s.Name == one.Name && s.Tenant == one.Tenant && s.Operation == one.Operation
	}
	switch {
	case one.Name == settingClock:
		t.now, t.jumped = t.clock.wall(), false
		t.meta.mark, t.meta.jumped = t.now.UnixNano(), false
		t.meta.accepts++
		t.dirty = true
	case one.Name == settingEpoch:
		t.meta.epoch++
		t.meta.seq += acceptedGap
		t.dirty = true
	case one.Delete:
		return t.exec(deleteSetting, text(one.Name), text(one.Tenant), text(one.Operation))
	case !one.IfAbsent || !slices.ContainsFunc(there, same):
		until := int64(0)
		if one.For != 0 {
			until = t.now.Add(one.For).UnixNano()
		}
		return t.exec(writeSetting, text(one.Name), text(one.Tenant), text(one.Operation), text(one.Value), integer(until))
	}
	return nil
}

// settings returns what is there at the transaction's time, remembered as long as nobody writes one.
func (t *tx) settings() ([]einmal.Setting, error) {
	if t.w.settings == nil {
		all, err := t.c.settings(time.Time{})
		if err != nil {
			return nil, err
		}
		t.w.settings = append([]einmal.Setting{}, all...)
	}
	return slices.DeleteFunc(slices.Clone(t.w.settings), func(s einmal.Setting) bool { return gone(&s, t.now) }), nil
}

func gone(s *einmal.Setting, now time.Time) bool { return !s.Until.IsZero() && !s.Until.After(now) }

// settings reads those that are not over at now, in order.
func (c *conn) settings(now time.Time) ([]einmal.Setting, error) {
	stmt, err := c.stmt(readSettings)
	if err != nil {
		return nil, err
	}
	defer stmt.Reset()
	var all []einmal.Setting
	for stmt.Step() {
		if stmt.ColumnType(1) == sqlite3.NULL {
			break // none at all
		}
		s := einmal.Setting{Name: stmt.ColumnText(1), Tenant: stmt.ColumnText(2), Operation: stmt.ColumnText(3), Value: stmt.ColumnText(4)}
		if until := stmt.ColumnInt64(5); until != 0 {
			s.Until = instant(until)
		}
		if !gone(&s, now) {
			all = append(all, s)
		}
	}
	return all, stmt.Err()
}

// ownSettings are the store's facts about itself.
func (s *Store) ownSettings(m *meta, jumped bool) []einmal.Setting {
	clock := "ok"
	if jumped {
		clock = "jumped"
	}
	return []einmal.Setting{
		{Name: settingID, Value: s.fixed.id},
		{Name: settingEpoch, Value: strconv.FormatInt(m.epoch, 10)},
		{Name: settingSeq, Value: strconv.FormatInt(m.seq, 10)},
		{Name: settingClock, Value: clock},
	}
}

// paused reports whether a pause covers the operation.
func (t *tx) paused(id *einmal.Identity) (bool, error) {
	all := t.w.settings
	if all == nil {
		if _, err := t.settings(); err != nil {
			return false, err
		}
		all = t.w.settings
	}
	covers := func(scope, name string) bool { return scope == everyone || scope == name }
	for i := range all {
		p := &all[i]
		if p.Name == settingPause && !gone(p, t.now) && covers(p.Tenant, id.Tenant) && covers(p.Operation, id.Operation) {
			return true, nil
		}
	}
	return false, nil
}

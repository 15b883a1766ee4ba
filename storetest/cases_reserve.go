package storetest

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/einmal-dev/einmal"
)

var reserveCases = []testCase{
	{
		name: "a reservation makes a running record",
		rule: "Reserve inserts a running record with attempt 1, version 1, its holder, and times that count from the store's clock: recovery knows nothing else",
		check: func(e *env) {
			r := e.request()
			rec := e.reserve(r)
			if rec.ID <= 0 {
				e.see("the ID is %d, and 0 means none", rec.ID)
			}
			e.same("Get by ID", e.get(e.b, rec.ID), rec)
			byName, err := e.b.Get(e.ctx, einmal.Ref{Identity: r.Identity})
			e.must(err, "Get by identity")
			e.same("Get by identity", byName, rec)
			if entries := e.timeline(e.b, rec.ID); len(entries) != 0 {
				e.see("a reservation is an ordinary transition, but has %d stored timeline entries", len(entries))
			}
		},
	},
	{
		name: "a found record is returned and not touched",
		rule: "a second Reserve of an identity returns the record as it stands, with the nonce of its own last transition, and changes nothing: it is a duplicate",
		check: func(e *env) {
			r := e.request()
			rec := e.reserve(r)
			again := e.request()
			again.Identity, again.Principal, again.PartnerKey, again.Holder.Incarnation = r.Identity, "somebody else", "another", "another"
			again.Terms.Window, again.Terms.Lease = 2*window, 2*lease
			for i, s := range []einmal.Store{e.a, e.b} {
				found, created, err := s.Reserve(e.ctx, again)
				e.must(err, "Reserve on handle %d", i+1)
				if created || found.Nonce == again.Nonce {
					e.fail("handle %d: the duplicate was told that it created the record: created %t", i+1, created)
				}
				e.same("the found record", found, rec)
			}
			e.unchanged("after the duplicates", rec)
		},
	},
	{
		name: "a record is found in every state",
		rule: "as long as a record is there, in whatever state, its identity is found: a tombstone too says that the key was used",
		check: func(e *env) {
			r := e.request()
			find := func(want einmal.Record) {
				found, created, err := e.b.Reserve(e.ctx, r)
				e.must(err, "Reserve")
				if created {
					e.fail("created anew while the record is %v", want.State)
				}
				e.same(fmt.Sprintf("found while %v", want.State), found, want)
			}
			rec := e.reserve(r)
			find(rec)
			rec = e.apply(rec, toUnclear(rec))
			find(rec)
			rec = e.apply(rec, toNotApplied(rec))
			find(rec)
			rec = e.apply(rec, to(rec, einmal.StateAccepted))
			find(rec)
			rec = e.apply(rec, toCompleted(rec, answer("done")))
			find(rec)
			e.maker.Advance(window + slack)
			e.purge()
			find(expired(rec, e.get(e.a, rec.ID).Now))
		},
	},
	{
		name: "a found record is returned whatever the reservation carries",
		rule: "refusals are for new operations only: a retry gets its recorded outcome while starts are paused, limits are reached or the store was restored",
		check: func(e *env) {
			r := e.request()
			rec := e.reserve(r)
			e.settings(e.a, einmal.Setting{Name: "pause", Tenant: e.tenant, Operation: e.op})
			defer e.settings(e.a, einmal.Setting{Name: "pause", Tenant: e.tenant, Operation: e.op, Delete: true})
			for _, refusal := range refusals {
				again := r
				refusal.carry(e, rec, &again)
				found, created, err := e.b.Reserve(e.ctx, again)
				if err != nil || created {
					e.fail("%s, with the record there: created %t, error %v", refusal.name, created, err)
				}
				e.same(refusal.name, found, rec)
			}
		},
	},
	{
		name: "a refusal has its error and leaves no row",
		rule: "ErrRestored, ErrStorePaused, ErrTooManyOpen, ErrKeyTooOld and ErrKeyFromFuture come before anything is inserted: " +
			"a refused key is as new as before, and may be sent again",
		check: func(e *env) {
			seed := e.running()
			for _, refusal := range refusals {
				r := e.request()
				if refusal.prepare != nil {
					refusal.prepare(e)
				}
				refused := r
				refusal.carry(e, e.get(e.a, seed.ID), &refused)
				rec, created, err := e.a.Reserve(e.ctx, refused)
				if created || !errors.Is(err, refusal.err) {
					e.fail("%s: want %q, got error %v and %s (created %t)", refusal.name, refusal.err, err, describe(rec), created)
				}
				e.noRow(refusal.name, r.Identity)
				if refusal.undo != nil {
					refusal.undo(e)
				}
				e.reserve(r)
			}
		},
	},
	{
		name: "limits count open and unclear records of the tenant",
		rule: "Limits.Open counts running and accepted records of the tenant, Limits.Unclear its unclear ones, and nobody else's: " +
			"a tenant is never locked out by what is settled, nor by others",
		check: func(e *env) {
			notApplied := e.running()
			e.apply(notApplied, toNotApplied(notApplied))
			completed := e.running()
			e.apply(completed, toCompleted(completed, nil))
			other := e.request()
			other.Tenant += "-other"
			e.reserve(other)
			try := func(limits einmal.Limits, want error) {
				r := e.request()
				r.Operation, r.Limits = e.op+"-another", limits
				rec, created, err := e.b.Reserve(e.ctx, r)
				if !errors.Is(err, want) || created != (want == nil) {
					e.fail("with %+v: want error %v, got %v (created %t)", limits, want, err, created)
				}
				if created {
					_, err := e.a.Apply(e.ctx, toCompleted(rec, nil))
					e.must(err, "Apply")
				}
			}
			try(einmal.Limits{Open: 1, Unclear: 1}, nil)
			running := e.running()
			try(einmal.Limits{Open: 1}, einmal.ErrTooManyOpen)
			try(einmal.Limits{Open: 2, Unclear: 1}, nil)
			accepted := e.running()
			e.apply(accepted, to(accepted, einmal.StateAccepted))
			try(einmal.Limits{Open: 2}, einmal.ErrTooManyOpen)
			try(einmal.Limits{Open: 3, Unclear: 1}, nil)
			e.apply(running, toUnclear(running))
			try(einmal.Limits{Open: 2}, nil)
			try(einmal.Limits{Unclear: 1}, einmal.ErrTooManyOpen)
			try(einmal.Limits{Unclear: 2}, nil)
			try(einmal.Limits{}, nil)
		},
	},
	{
		name: "a key's own time is held against the store's clock",
		rule: "without a record a key older than the window is ErrKeyTooOld, since its record may be gone already, and one of the future ErrKeyFromFuture",
		check: func(e *env) {
			now := e.running().Now
			for _, try := range []struct {
				at   time.Duration
				want error
			}{
				{0, nil},
				{-window + 2*slack, nil},
				{-window - 2*slack, einmal.ErrKeyTooOld},
				{-1000 * time.Hour, einmal.ErrKeyTooOld},
				{einmal.MaxKeySkew - 2*slack, nil},
				{einmal.MaxKeySkew + 2*slack, einmal.ErrKeyFromFuture},
				{1000 * time.Hour, einmal.ErrKeyFromFuture},
			} {
				r := e.request()
				r.KeyTime = now.Add(try.at)
				if _, created, err := e.a.Reserve(e.ctx, r); !errors.Is(err, try.want) || created != (try.want == nil) {
					e.see("a key made %v from now: want error %v, got %v (created %t)", try.at, try.want, err, created)
				}
			}
		},
	},
	{
		name: "the parts of an identity are never joined",
		rule: "tenant, operation and key are kept apart and compared byte by byte: no two identities share a record, whatever the parts contain, " +
			"or one tenant would be answered with another's result",
		check: func(e *env) {
			identities := trickyIdentities(e.tenant)
			ids := map[einmal.ID]einmal.Identity{}
			for _, identity := range identities {
				r := e.request()
				r.Identity = identity
				rec, created, err := e.a.Reserve(e.ctx, r)
				e.must(err, "Reserve of %q", identity)
				if !created || rec.Identity != identity {
					e.fail("%q was taken for %q", identity, rec.Identity)
				}
				ids[rec.ID] = identity
			}
			for id, identity := range ids {
				rec, err := e.b.Get(e.ctx, einmal.Ref{Identity: identity})
				e.must(err, "Get of %q", identity)
				if rec.ID != id || rec.Identity != identity {
					e.see("Get of %q returned %q", identity, rec.Identity)
				}
			}
		},
	},
	{
		name: "of many reservations of one identity one creates",
		rule: "Reserve is one atomic step, never look and then insert: of 64 duplicates over two handles exactly one is told created, and all get its record, " +
			"or two would execute",
		check: func(e *env) {
			for range 5 {
				r := e.request()
				var (
					mu      sync.Mutex
					created []einmal.Nonce
					ids     = map[einmal.ID]bool{}
				)
				e.together(64, func(i int) error {
					mine := r
					mine.Nonce = nonce()
					rec, mineCreated, err := e.handle(i).Reserve(e.ctx, mine)
					mu.Lock()
					defer mu.Unlock()
					ids[rec.ID] = true
					if mineCreated {
						created = append(created, mine.Nonce)
					}
					return err
				})
				rec, err := e.a.Get(e.ctx, einmal.Ref{Identity: r.Identity})
				e.must(err, "Get")
				switch {
				case len(created) != 1:
					e.fail("%d of 64 were told that they created the record", len(created))
				case len(ids) != 1 || !ids[rec.ID]:
					e.fail("the 64 got the records %v, and there is %d", ids, rec.ID)
				case rec.Nonce != created[0]:
					e.fail("the record's nonce is not that of the one that was told created")
				}
			}
		},
	},
	{
		name: "IDs grow and never come twice",
		rule: "a store gives growing IDs and none twice, also after the newest record was deleted and the store opened again: " +
			"a late word about the old record would hit the new one",
		check: func(e *env) {
			first, second := e.running(), e.running()
			if second.ID <= first.ID {
				e.fail("ID %d was given after %d", second.ID, first.ID)
			}
			e.apply(second, toNotApplied(second))
			e.maker.Advance(window + slack)
			e.purge()
			e.maker.Advance(tombstone)
			e.purge()
			if _, err := e.a.Get(e.ctx, einmal.Ref{ID: second.ID}); !errors.Is(err, einmal.ErrNotFound) {
				e.fail("the record is not deleted: %v", err)
			}
			for i, s := range []einmal.Store{e.a, e.b, e.open()} {
				rec, _, err := s.Reserve(e.ctx, e.request())
				e.must(err, "Reserve")
				if rec.ID <= second.ID {
					e.fail("handle %d gave ID %d, and %d had been given and deleted before", i+1, rec.ID, second.ID)
				}
				second = rec
			}
		},
	},
}

// refusals are the reasons that keep a reservation from inserting.
var refusals = []struct {
	name    string
	err     error
	prepare func(*env)
	carry   func(*env, einmal.Record, *einmal.Reservation)
	undo    func(*env)
}{
	{
		name: "a later position seen", err: einmal.ErrRestored,
		carry: func(_ *env, rec einmal.Record, r *einmal.Reservation) {
			r.Seen = einmal.Position{Store: rec.At.Store, Epoch: rec.At.Epoch, Seq: rec.At.Seq + 1000}
		},
	},
	{
		name: "a later epoch seen", err: einmal.ErrRestored,
		carry: func(_ *env, rec einmal.Record, r *einmal.Reservation) {
			r.Seen = einmal.Position{Store: rec.At.Store, Epoch: rec.At.Epoch + 1, Seq: 1}
		},
	},
	{
		name: "another store seen", err: einmal.ErrRestored,
		carry: func(_ *env, rec einmal.Record, r *einmal.Reservation) {
			r.Seen = einmal.Position{Store: rec.At.Store + "-another", Epoch: rec.At.Epoch, Seq: 1}
		},
	},
	{
		name: "paused", err: einmal.ErrStorePaused,
		prepare: func(e *env) { e.settings(e.b, einmal.Setting{Name: "pause", Tenant: e.tenant, Operation: e.op}) },
		carry:   func(*env, einmal.Record, *einmal.Reservation) {},
		undo: func(e *env) {
			e.settings(e.b, einmal.Setting{Name: "pause", Tenant: e.tenant, Operation: e.op, Delete: true})
		},
	},
	{
		name: "as many open as allowed", err: einmal.ErrTooManyOpen,
		carry: func(_ *env, _ einmal.Record, r *einmal.Reservation) { r.Limits.Open = 1 },
	},
	{
		name: "a key older than the window", err: einmal.ErrKeyTooOld,
		carry: func(_ *env, rec einmal.Record, r *einmal.Reservation) {
			r.KeyTime = rec.Now.Add(-r.Terms.Window - time.Minute)
		},
	},
	{
		name: "a key from the future", err: einmal.ErrKeyFromFuture,
		carry: func(_ *env, rec einmal.Record, r *einmal.Reservation) {
			r.KeyTime = rec.Now.Add(einmal.MaxKeySkew + time.Minute)
		},
	},
}

// trickyIdentities are identities that a store which joins, trims, folds or normalises would take for one another.
func trickyIdentities(tag string) []einmal.Identity {
	identities := []einmal.Identity{
		{Tenant: tag + "a", Operation: "bc", Key: "k"},
		{Tenant: tag + "ab", Operation: "c", Key: "k"},
		{Tenant: tag + "a", Operation: "b", Key: "ck"},
		{Tenant: tag, Operation: "abc", Key: "k"},
		{Tenant: "", Operation: tag + "abc", Key: "k"},
		{Tenant: "", Operation: tag, Key: "abck"},
		{Tenant: tag, Operation: tag, Key: ""},
		{Tenant: tag, Operation: "op", Key: strings.Repeat("k", 4000)},
		{Tenant: tag, Operation: "op", Key: strings.Repeat("k", 4001)},
	}
	for _, sep := range []string{"\x00", "\x1f", "/", ":", "|", ",", ".", "'", `\`, "%", " "} {
		identities = append(identities,
			einmal.Identity{Tenant: tag + "a" + sep + "b", Operation: "c", Key: "k"},
			einmal.Identity{Tenant: tag + "a", Operation: "b" + sep + "c", Key: "k"},
			einmal.Identity{Tenant: tag + "a", Operation: "b", Key: "c" + sep + "k"},
			einmal.Identity{Tenant: tag + "a" + sep, Operation: "b", Key: "k"},
			einmal.Identity{Tenant: tag + "a", Operation: sep + "b", Key: "k"},
		)
	}
	for _, key := range []string{
		"key", "KEY", "key ", " key", "key\n", "key\x00", "key\x00x", "kéy", "ke\u0301y", "ключ", "鍵", "🔑", "ß", "ss", "1", "01", "1.0", "1e0", "0x1", "null", "NULL",
	} {
		identities = append(identities, einmal.Identity{Tenant: tag, Operation: "keys", Key: key})
	}
	return identities
}

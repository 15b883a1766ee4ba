// Package storetest is the contract of einmal.Store in executable form: every store passes it, ours or a third party's.
//
// A store's whole test file is a Maker and one call:
//
//	func TestStore(t *testing.T) {
//		clock := storetest.NewClock()
//		storage := newStorage(t, clock.Read)
//		storetest.Run(t, storetest.Maker{Open: storage.Open, Advance: clock.Advance, Jump: clock.Jump})
//	}
//
// Cases are data, each with the rule that it holds and why the rule is there. Each works on records of its own, with a random tenant and operation
// names, so one storage serves them all. They run one after the other, because they share the storage's clock.
package storetest

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/einmal-dev/einmal"
)

// Maker opens handles on one storage, which should be new and is nobody else's while the suite runs.
type Maker struct {
	// Open returns a new handle on the same storage, as another process would. The suite closes it.
	Open func() (einmal.Store, error)

	// Advance moves the storage's clock on, as if time had passed: for all handles, and the monotonic reading too.
	Advance func(time.Duration)

	// Jump sets the storage's wall clock, forwards or backwards, and leaves the monotonic reading. nil skips the cases that need it.
	Jump func(time.Duration)

	// Damage makes a record unreadable, as a bad disk would, and leaves its identity and ID findable. nil skips the cases that need it.
	Damage func(einmal.ID) error
}

// Violation is a rule that a store broke. Check returns them joined.
type Violation struct {
	Case string // the name of the case
	Rule string // the rule and its reason
	Seen string // what the store did
}

func (v *Violation) Error() string {
	return fmt.Sprintf("storetest: %s\n  rule: %s\n  seen: %s", v.Case, v.Rule, strings.ReplaceAll(v.Seen, "\n", "\n        "))
}

// Run tests a store, each case as a subtest.
func Run(t *testing.T, m Maker) {
	t.Helper()
	p := &pair{maker: m}
	t.Cleanup(p.close)
	for _, c := range allCases() {
		t.Run(c.name, func(t *testing.T) {
			switch err := c.run(t.Context(), p); {
			case errors.Is(err, errSkipped):
				t.Skip(err)
			case err != nil:
				t.Error(err)
			}
		})
	}
}

// Check tests a store and returns every Violation, joined, or nil. Cases that the maker cannot serve are left out.
func Check(ctx context.Context, m Maker) error {
	var broken []error
	p := &pair{maker: m}
	defer p.close()
	if m.Open != nil {
		if err := p.open(); err != nil {
			return err
		}
	}
	for _, c := range allCases() {
		if err := c.run(ctx, p); !errors.Is(err, errSkipped) {
			broken = append(broken, err)
		}
	}
	return errors.Join(broken...)
}

// testCase holds one rule.
type testCase struct {
	name  string
	rule  string // what a store must do, and why
	needs ability
	check func(*env)
}

// ability is what a case needs from its Maker beyond the necessary.
type ability int

const (
	nothing ability = iota
	jump
	damage
)

var errSkipped = errors.New("storetest: the Maker cannot do it")

// caseTime bounds one case, so that a store that hangs on a lock is a violation and no mystery.
const caseTime = time.Minute

func allCases() []testCase {
	return slices.Concat(makerCases, reserveCases, applyCases, contentCases, readCases, claimCases, purgeCases, settingCases, handleCases, raceCases, clockCases)
}

func (c testCase) run(ctx context.Context, p *pair) (err error) {
	switch m := p.maker; {
	case m.Open == nil || m.Advance == nil:
		return errors.New("storetest: Maker.Open and Maker.Advance are required")
	case c.needs == jump && m.Jump == nil:
		return fmt.Errorf("%w: Jump is nil", errSkipped)
	case c.needs == damage && m.Damage == nil:
		return fmt.Errorf("%w: Damage is nil", errSkipped)
	}
	if err := p.open(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(rounds(1))*caseTime)
	defer cancel()
	e := newEnv(ctx, p)
	defer func() {
		e.protect(e.tidy)
		if len(e.seen) > 0 {
			err = &Violation{Case: c.name, Rule: c.rule, Seen: strings.Join(e.seen, "\n")}
		}
	}()
	e.protect(func() { c.check(e) })
	return nil
}

// stopped is what fail panics with.
type stopped struct{}

// protect calls f and turns a panic of the store into something seen.
func (e *env) protect(f func()) {
	defer func() {
		switch r := recover(); r.(type) {
		case nil, stopped:
		default:
			e.see("panic: %v\n%s", r, debug.Stack())
		}
	}()
	f()
}

// maxSeen keeps the report of a case readable when everything is wrong.
const maxSeen = 10

// see notes a violation and goes on.
func (e *env) see(format string, args ...any) {
	if len(e.seen) < maxSeen {
		e.seen = append(e.seen, fmt.Sprintf(format, args...))
	}
}

// fail notes a violation and ends the case. It is for the case's own goroutine only.
func (e *env) fail(format string, args ...any) {
	e.see(format, args...)
	panic(stopped{})
}

package storetest

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"

	"github.com/einmal-dev/einmal"
)

// handle spreads concurrent callers over both handles.
func (e *env) handle(i int) einmal.Store {
	if i%2 == 0 {
		return e.a
	}
	return e.b
}

// guarded turns a panic of the store into an error.
func guarded(f func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v\n%s", r, debug.Stack())
		}
	}()
	return f()
}

// together calls f n times at once, released together, and ends the case if any returned an error.
func (e *env) together(n int, f func(i int) error) {
	var ready, done sync.WaitGroup
	ready.Add(n)
	start := make(chan struct{})
	errs := make([]error, n)
	for i := range n {
		done.Go(func() {
			ready.Done()
			<-start
			errs[i] = guarded(func() error { return f(i) })
		})
	}
	ready.Wait()
	close(start)
	done.Wait()
	for _, err := range errs {
		e.must(err, "one of %d concurrent calls", n)
	}
}

// listAll follows a list to its end.
func listAll(ctx context.Context, s einmal.Store, f einmal.Filter) ([]einmal.Record, error) {
	var all []einmal.Record
	for range 10_000 {
		page, next, err := s.List(ctx, f)
		if err != nil {
			return nil, err
		}
		all = append(all, page...)
		if next == "" {
			return all, nil
		}
		f.After = next
	}
	return nil, errors.New("after 10,000 pages List still has a cursor")
}

func idsOf(recs []einmal.Record) (ids []einmal.ID) {
	for _, rec := range recs {
		ids = append(ids, rec.ID)
	}
	return ids
}

// list returns the IDs of all pages.
func (e *env) list(s einmal.Store, f einmal.Filter) []einmal.ID {
	all, err := listAll(e.ctx, s, f)
	e.must(err, "List(%+v)", f)
	return idsOf(all)
}

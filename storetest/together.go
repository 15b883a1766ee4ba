package storetest

import (
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

// together calls f n times at once, released together, and ends the case if any returned an error. A store that panics in it takes the test down.
func (e *env) together(n int, f func(i int) error) {
	var ready, done sync.WaitGroup
	ready.Add(n)
	start := make(chan struct{})
	errs := make([]error, n)
	for i := range n {
		done.Go(func() {
			ready.Done()
			<-start
			errs[i] = f(i)
		})
	}
	ready.Wait()
	close(start)
	done.Wait()
	for _, err := range errs {
		e.must(err, "one of %d concurrent calls", n)
	}
}

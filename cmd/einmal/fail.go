package main

import (
	"errors"
	"fmt"

	"github.com/einmal-dev/einmal"
	"github.com/einmal-dev/einmal/cmd/einmal/internal/term"
)

// Exit codes.
const (
	exitOK     = 0
	exitFailed = 1 // refused or failed
	exitUsage  = 3
)

// failure is an error with the next step for whoever reads it.
type failure struct {
	cause  error
	detail func(term.Out) // more than a sentence, nil for nothing
	next   string
	code   int
}

func (f *failure) Error() string { return f.cause.Error() }
func (f *failure) Unwrap() error { return f.cause }

// usage is a command that was not said right.
func usage(format string, args ...any) error {
	return &failure{cause: fmt.Errorf(format, args...), code: exitUsage}
}

// fail is a command that was said right and cannot be done; next is what to do.
func fail(next, format string, args ...any) error {
	return &failure{cause: fmt.Errorf(format, args...), next: next, code: exitFailed}
}

// explain adds the next step to what a store or the engine refuses.
func explain(err error) error {
	var refused *einmal.ResolveError
	switch {
	case errors.As(err, &refused):
		return fail(refused.Hint, "cannot resolve: %s", refused.Cause)
	case errors.Is(err, einmal.ErrNotFound):
		return fail("einmal operations list --state all shows what there is; an ID is of one store only", "no such operation in this store")
	case errors.Is(err, einmal.ErrUnreadable):
		return fail("the record is damaged; see docs/operating.md, \"A record that cannot be read\"", "%w", err)
	}
	return err
}

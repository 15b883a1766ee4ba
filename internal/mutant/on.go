//go:build mutants

// Package mutant plants known bugs for the tests to find: the one that EINMAL_MUTANT names.
package mutant

import "os"

var planted = os.Getenv("EINMAL_MUTANT")

// On reports whether the named bug is planted.
func On(name string) bool { return planted == name }

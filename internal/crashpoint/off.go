//go:build !crashpoints

// Package crashpoint lets a test kill the process at any marked point. Without the build tag crashpoints it is nothing.
package crashpoint

// Here is a place where a process may die.
func Here(string) {}

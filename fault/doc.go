// Package fault makes the bad moments happen on purpose, so that a test can watch what a program does in them.
//
// A Partner is the system at the far end that does the effect: it counts effects, deduplicates on a partner key for as long as it remembers one, and on
// demand lies, loses its answer, hangs, refuses or is late. A Proxy sits on the connection between a client and a server: it cuts, delays, doubles and
// refuses. Both do what they are told, call by call, and tell what has happened, so that tests await events and never sleep. Package faultvfs does the
// same to the disk under SQLite.
package fault

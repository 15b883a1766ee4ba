package faultvfs

import "strings"

// Op is what SQLite does to a file.
type Op uint8

const (
	Read  Op = iota
	Write    // of bytes, and changes of size
	Sync

	numOps
)

// How says how an operation goes wrong.
type How uint8

const (
	// Fails does nothing and returns an I/O error. A failed Sync leaves it to a later one to make the same writes durable.
	Fails How = iota
	// Loses is for Sync: of what should have become durable a random part is lost for good, though it can be read until the power fails, and an I/O
	// error is returned. So do common kernels.
	Loses
	// FailsAfter does all the work and returns an I/O error all the same: a commit that errs but is durable.
	FailsAfter
	// Short is for Read: the second half is missing, as if the file ended there.
	Short
	// CutsPower cuts the power instead of doing the work, whose bytes are as likely to survive as others'.
	CutsPower
)

// Fault is something that goes wrong once or more often, at operations counted from Inject.
type Fault struct {
	Op    Op
	N     int    // the first operation that it happens to: 1, or 0, is the next
	Times int    // to so many in a row; 0: one; below 0: all
	Name  string // only files whose name ends with this count; "": all
	How   How
	Seed  uint64 // for Loses and CutsPower
}

// Inject adds a fault.
func (d *Disk) Inject(f Fault) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f.N = max(f.N, 1)
	if f.Times == 0 {
		f.Times = 1
	}
	d.faults = append(d.faults, &f)
}

// Heal removes all faults that were injected, also those that have not happened yet. The limit of space and a slow sync stay.
func (d *Disk) Heal() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.faults = nil
}

// Count returns how many operations of a kind there were, since New.
func (d *Disk) Count(op Op) int {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.counts[op]
}

// next counts an operation and returns the fault that happens to it, nil for none.
func (d *Disk) next(op Op, name string) (hit *Fault) {
	d.counts[op]++
	for _, f := range d.faults {
		if f.Op != op || !strings.HasSuffix(name, f.Name) || f.Times == 0 {
			continue
		}
		if f.N > 1 {
			f.N--
			continue
		}
		if hit == nil {
			hit = f
			if f.Times > 0 {
				f.Times--
			}
		}
	}
	return hit
}

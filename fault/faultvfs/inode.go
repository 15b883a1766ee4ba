package faultvfs

import "github.com/ncruces/go-sqlite3/vfs"

// inode is a file's contents, twice: as everybody sees them, and as they survive.
type inode struct {
	data    []byte
	durable []byte
	pending []change // what was done to data and not to durable, in order
	locks   locks
}

// change is a write or, with resize, a new size.
type change struct {
	at     int64
	data   []byte
	resize bool
}

func (n *inode) write(p []byte, at int64) {
	n.data = overwrite(n.data, p, at)
	n.pending = append(n.pending, change{at: at, data: append([]byte(nil), p...)})
}

func (n *inode) resize(size int64) {
	n.data = resized(n.data, size)
	n.pending = append(n.pending, change{at: size, resize: true})
}

// sync makes everything durable.
func (n *inode) sync() {
	for _, c := range n.pending {
		if c.resize {
			n.durable = resized(n.durable, c.at)
		} else {
			n.durable = overwrite(n.durable, c.data, c.at)
		}
	}
	n.pending = nil
}

// syncSome makes a random part durable and forgets the rest: data still shows it, but no later sync brings it to the disk.
func (n *inode) syncSome(random *lottery) {
	for _, c := range n.pending {
		if c.resize {
			if random.keeps() {
				n.durable = resized(n.durable, c.at)
			}
			continue
		}
		for from := int64(0); from < int64(len(c.data)); {
			to := min(int64(len(c.data)), from+SectorSize-(c.at+from)%SectorSize)
			if random.keeps() {
				n.durable = overwrite(n.durable, c.data[from:to], c.at+from)
			}
			from = to
		}
	}
	n.pending = nil
}

// afterPowerLoss returns the file as it is found again. It may have grown without the bytes that made it grow.
func (n *inode) afterPowerLoss(random *lottery) *inode {
	n.syncSome(random)
	if grown := len(n.data) - len(n.durable); grown > 0 && random.keeps() {
		n.durable = resized(n.durable, int64(len(n.data)))
		if random.IntN(2) == 0 { // with what was on the disk before
			for i := len(n.durable) - grown; i < len(n.durable); i++ {
				n.durable[i] = byte(random.Uint32())
			}
		}
	}
	return &inode{data: append([]byte(nil), n.durable...), durable: n.durable}
}

// overwrite writes p into b, which grows with zeros where it must.
func overwrite(b, p []byte, at int64) []byte {
	if end := at + int64(len(p)); end > int64(len(b)) {
		b = resized(b, end)
	}
	copy(b[at:], p)
	return b
}

func resized(b []byte, size int64) []byte {
	if size <= int64(len(b)) {
		clear(b[size:])
		return b[:size]
	}
	if size > int64(cap(b)) {
		b = append(make([]byte, 0, max(size, 2*int64(cap(b)))), b...)
	}
	return b[:size]
}

// locks are SQLite's five, between the connections of this process.
type locks struct {
	shared            int
	reserved, pending *file
	exclusive         bool
}

// take raises f's lock; false is busy.
func (l *locks) take(f *file, level vfs.LockLevel) bool {
	switch level {
	case vfs.LOCK_SHARED:
		if l.pending != nil || l.exclusive {
			return false
		}
		l.shared++
	case vfs.LOCK_RESERVED:
		if l.reserved != nil || l.pending != nil || l.exclusive {
			return false
		}
		l.reserved = f
	case vfs.LOCK_EXCLUSIVE:
		if l.reserved == f {
			l.pending, f.lock = f, vfs.LOCK_PENDING
		}
		if l.shared > 1 {
			return false
		}
		l.exclusive = true
	}
	f.lock = level
	return true
}

// release lowers f's lock to SHARED or NONE.
func (l *locks) release(f *file, level vfs.LockLevel) {
	if f.lock == vfs.LOCK_EXCLUSIVE {
		l.exclusive = false
	}
	if l.reserved == f {
		l.reserved = nil
	}
	if l.pending == f {
		l.pending = nil
	}
	if level == vfs.LOCK_NONE {
		l.shared--
	}
	f.lock = level
}

package faultvfs

import (
	"io"
	"time"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/vfs"
)

// file is one connection's open file.
type file struct {
	disk          *Disk
	inode         *inode
	name          string
	generation    int
	shm           vfs.SharedMemory // nil where the driver has none for this kind of file
	lock          vfs.LockLevel
	readOnly      bool
	deleteOnClose bool
	asNormal      bool
}

var (
	_ vfs.FileSharedMemory = (*file)(nil)
	_ vfs.FileLockState    = (*file)(nil)
	_ vfs.FilePragma       = (*file)(nil)
)

// dead reports whether the power failed since the file was opened. disk.mu is held.
func (f *file) dead() bool { return f.disk.off || f.generation != f.disk.generation }

func (f *file) Close() error {
	if f.shm != nil {
		_ = f.shm.Close() // a file of the test's temporary folder
	}
	_ = f.Unlock(vfs.LOCK_NONE)
	if f.deleteOnClose && f.name != "" {
		_ = f.disk.Delete(f.name, false)
	}
	return nil
}

func (f *file) ReadAt(p []byte, at int64) (int, error) {
	d := f.disk
	d.mu.Lock()
	defer d.mu.Unlock()
	if f.dead() {
		return 0, sqlite3.IOERR_READ
	}
	if hit := d.next(Read, f.name); hit != nil {
		switch hit.How {
		case Short:
			p = p[:len(p)/2]
			if at < int64(len(f.inode.data)) {
				return copy(p, f.inode.data[at:]), io.EOF
			}
			return 0, io.EOF
		case CutsPower:
			d.cutPower(hit.Seed)
		}
		return 0, sqlite3.IOERR_READ
	}
	if at >= int64(len(f.inode.data)) {
		return 0, io.EOF
	}
	n := copy(p, f.inode.data[at:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (f *file) WriteAt(p []byte, at int64) (int, error) {
	d := f.disk
	d.mu.Lock()
	defer d.mu.Unlock()
	if f.dead() || f.readOnly {
		return 0, sqlite3.IOERR_WRITE
	}
	hit := d.next(Write, f.name)
	if hit != nil && hit.How == Fails {
		return 0, sqlite3.IOERR_WRITE
	}
	fits := f.fitting(at + int64(len(p)))
	part := p[:max(0, min(int64(len(p)), fits-at))]
	if len(part) > 0 {
		f.inode.write(part, at)
	}
	switch {
	case hit != nil && hit.How == CutsPower:
		d.cutPower(hit.Seed)
		return 0, sqlite3.IOERR_WRITE
	case hit != nil:
		return len(part), sqlite3.IOERR_WRITE
	case len(part) < len(p):
		return len(part), sqlite3.FULL
	}
	return len(p), nil
}

// fitting returns the size up to size that the file can have.
func (f *file) fitting(size int64) int64 {
	d, have := f.disk, int64(len(f.inode.data))
	if d.space < 0 || size <= have {
		return size
	}
	return min(size, have+max(0, d.space-d.used()))
}

func (f *file) Truncate(size int64) error {
	d := f.disk
	d.mu.Lock()
	defer d.mu.Unlock()
	if f.dead() || f.readOnly {
		return sqlite3.IOERR_TRUNCATE
	}
	hit := d.next(Write, f.name)
	if hit != nil && hit.How == Fails {
		return sqlite3.IOERR_TRUNCATE
	}
	if f.fitting(size) < size {
		return sqlite3.FULL
	}
	f.inode.resize(size)
	if hit == nil {
		return nil
	}
	if hit.How == CutsPower {
		d.cutPower(hit.Seed)
	}
	return sqlite3.IOERR_TRUNCATE
}

func (f *file) Sync(vfs.SyncFlag) error {
	d := f.disk
	d.mu.RLock()
	slow := d.slow
	d.mu.RUnlock()
	if slow > 0 {
		time.Sleep(slow)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if f.dead() {
		return sqlite3.IOERR_FSYNC
	}
	hit := d.next(Sync, f.name)
	if hit != nil {
		switch hit.How {
		case Fails:
			return sqlite3.IOERR_FSYNC
		case Loses:
			f.inode.syncSome(newLottery(hit.Seed))
			return sqlite3.IOERR_FSYNC
		case CutsPower:
			d.cutPower(hit.Seed)
			return sqlite3.IOERR_FSYNC
		}
	}
	f.inode.sync()
	d.syncNames()
	if hit != nil {
		return sqlite3.IOERR_FSYNC
	}
	return nil
}

func (f *file) Size() (int64, error) {
	f.disk.mu.RLock()
	defer f.disk.mu.RUnlock()
	if f.dead() {
		return 0, sqlite3.IOERR_FSTAT
	}
	return int64(len(f.inode.data)), nil
}

func (f *file) Lock(level vfs.LockLevel) error {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	switch {
	case f.dead(), f.readOnly && level > vfs.LOCK_SHARED:
		return sqlite3.IOERR_LOCK
	case f.lock < level && !f.inode.locks.take(f, level):
		return sqlite3.BUSY
	}
	return nil
}

func (f *file) Unlock(level vfs.LockLevel) error {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if f.lock > level {
		f.inode.locks.release(f, level)
	}
	return nil
}

func (f *file) CheckReservedLock() (bool, error) {
	f.disk.mu.RLock()
	defer f.disk.mu.RUnlock()
	return f.inode.locks.reserved != nil || f.inode.locks.exclusive, nil
}

func (f *file) LockState() vfs.LockLevel { return f.lock }

func (f *file) SharedMemory() vfs.SharedMemory { return f.shm }

// Pragma is how AsNormal lies. After the switch to write-ahead mode the driver's own default is NORMAL.
func (f *file) Pragma(name, value string) (string, error) {
	if !f.asNormal || name != "synchronous" {
		return "", sqlite3.NOTFOUND
	}
	if value == "" {
		return "2", nil
	}
	return "", nil
}

// SectorSize is what the driver says of the operating system's files.
func (*file) SectorSize() int { return 4096 }

func (*file) DeviceCharacteristics() vfs.DeviceCharacteristic {
	return vfs.IOCAP_POWERSAFE_OVERWRITE | vfs.IOCAP_SUBPAGE_READ
}

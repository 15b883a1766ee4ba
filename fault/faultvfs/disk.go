// Package faultvfs is a disk for SQLite that loses power, fills up, fails and lies when it is told to.
//
// A Disk is a VFS of github.com/ncruces/go-sqlite3, so the very driver that ships runs on it, in write-ahead mode and with several connections too. It
// keeps its files in memory and knows of each byte whether it is durable or only written. What a file's Sync has made durable survives CutPower. Of
// everything else a random part does: each sector of each write, each change of size, each creation and each deletion for itself.
//
// The model is that of common file systems: syncing a file makes its name durable too, and a sector is written whole or not at all and never touches its
// neighbours (SQLITE_IOCAP_POWERSAFE_OVERWRITE, which SQLite assumes of every disk).
package faultvfs

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/vfs"
)

// SectorSize is what is written whole or not at all, in bytes.
const SectorSize = 512

// Disk is one machine's disk. Make it with New.
type Disk struct {
	name   string
	shmDir string

	mu         sync.RWMutex
	off        bool
	generation int // grows when the power comes back; files opened before are dead
	files      map[string]*inode
	durable    map[string]*inode // the names that survive
	renames    []naming          // since then, in order
	space      int64             // how many bytes fit, below 0: any number
	slow       time.Duration     // every sync takes so long
	asNormal   bool
	faults     []*Fault
	counts     [numOps]int
}

// naming is a creation or, with a nil file, a deletion that is not durable yet.
type naming struct {
	name string
	file *inode
}

var disks atomic.Int64

// New makes an empty disk and registers it with the driver under Name. The memory that connections share is files in shmDir, which must be on a real
// file system and is the caller's to remove, such as testing.T.TempDir.
func New(shmDir string) *Disk {
	d := &Disk{
		name: fmt.Sprintf("fault-%d-%d", os.Getpid(), disks.Add(1)), shmDir: shmDir,
		files: map[string]*inode{}, durable: map[string]*inode{}, space: -1,
	}
	vfs.Register(d.name, d)
	return d
}

// Name is the name of the VFS, for the vfs parameter of an SQLite URI.
func (d *Disk) Name() string { return d.name }

// Close unregisters the VFS. The driver must have no files open on it.
func (d *Disk) Close() { vfs.Unregister(d.name) }

// CutPower cuts the power now: every open file fails from now on, nothing can be opened, and what is not durable is lost or kept at random. The same
// seed loses the same of the same writes.
func (d *Disk) CutPower(seed uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.cutPower(seed)
}

func (d *Disk) cutPower(seed uint64) {
	if d.off {
		return
	}
	d.off = true
	random := newLottery(seed)
	survivors := maps.Clone(d.durable)
	for _, change := range d.renames {
		switch {
		case !random.keeps():
		case change.file == nil:
			delete(survivors, change.name)
		default:
			survivors[change.name] = change.file
		}
	}
	d.files = map[string]*inode{}
	for _, name := range slices.Sorted(maps.Keys(survivors)) {
		d.files[name] = survivors[name].afterPowerLoss(random)
	}
	d.durable, d.renames = maps.Clone(d.files), nil
}

// PowerOn ends CutPower. Faults that were injected before are gone; the limit of space stays.
func (d *Disk) PowerOn() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.off {
		return
	}
	d.off, d.faults = false, nil
	d.generation++
}

// lottery decides what survives. How much of it does is drawn first, so that nearly all and nearly nothing are as usual as half.
type lottery struct {
	*rand.Rand
	share float64
}

func newLottery(seed uint64) *lottery {
	r := rand.New(rand.NewPCG(seed, 0x9e3779b97f4a7c15))
	return &lottery{r, [...]float64{0, 0.1, 0.5, 0.9, 1, r.Float64()}[r.IntN(6)]}
}

func (l *lottery) keeps() bool { return l.Float64() < l.share }

// Limit lets so many bytes more be written than there are now; below 0: any number. What does not fit fails with SQLITE_FULL.
func (d *Disk) Limit(more int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.space = -1
	if more >= 0 {
		d.space = d.used() + more
	}
}

func (d *Disk) used() (sum int64) {
	for _, f := range d.files {
		sum += int64(len(f.data))
	}
	return sum
}

// SlowSync makes every sync take so much longer.
func (d *Disk) SlowSync(by time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.slow = by
}

// AsNormal makes connections that are opened from now on run with synchronous=NORMAL whatever they ask for, and say that it is FULL: the mistake that
// loses commits at power loss, for tests that must fail then.
func (d *Disk) AsNormal() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asNormal = true
}

// ReadFile returns a file's bytes as they are now, durable or not; nil where there is none.
func (d *Disk) ReadFile(name string) []byte {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if f := d.files[clean(name)]; f != nil {
		return slices.Clone(f.data)
	}
	return nil
}

// Files returns the names of all files, sorted.
func (d *Disk) Files() []string {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return slices.Sorted(maps.Keys(d.files))
}

// Flip inverts the bits in mask of a file's byte, on the disk itself; false where there is no such byte.
func (d *Disk) Flip(name string, offset int64, mask byte) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	f := d.files[clean(name)]
	if f == nil || offset < 0 || offset >= int64(len(f.data)) {
		return false
	}
	f.data[offset] ^= mask
	if offset < int64(len(f.durable)) {
		f.durable[offset] ^= mask
	}
	return true
}

func clean(name string) string { return path.Clean("/" + name) }

// Open implements vfs.VFS.
func (d *Disk) Open(name string, flags vfs.OpenFlag) (vfs.File, vfs.OpenFlag, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.off {
		return nil, flags, sqlite3.CANTOPEN
	}
	if name == "" {
		return &file{disk: d, inode: &inode{}, generation: d.generation}, flags, nil
	}
	name = clean(name)
	node := d.files[name]
	switch {
	case node == nil && flags&vfs.OPEN_CREATE == 0, node != nil && flags&vfs.OPEN_EXCLUSIVE != 0:
		return nil, flags, sqlite3.CANTOPEN
	case node == nil:
		node = &inode{}
		d.files[name] = node
		d.renames = append(d.renames, naming{name, node})
	}
	shm := vfs.NewSharedMemory(filepath.Join(d.shmDir, fmt.Sprintf("%s-%d-%s", d.name, d.generation, url.PathEscape(name))), flags)
	return &file{
		disk: d, inode: node, name: name, generation: d.generation, shm: shm,
		readOnly: flags&vfs.OPEN_READONLY != 0, deleteOnClose: flags&vfs.OPEN_DELETEONCLOSE != 0, asNormal: d.asNormal,
	}, flags, nil
}

// Delete implements vfs.VFS.
func (d *Disk) Delete(name string, syncDir bool) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	name = clean(name)
	switch {
	case d.off:
		return sqlite3.IOERR_DELETE
	case d.files[name] == nil:
		return sqlite3.IOERR_DELETE_NOENT
	}
	delete(d.files, name)
	d.renames = append(d.renames, naming{name: name})
	if syncDir {
		d.syncNames()
	}
	return nil
}

// syncNames makes all names durable.
func (d *Disk) syncNames() {
	if len(d.renames) > 0 {
		d.durable, d.renames = maps.Clone(d.files), nil
	}
}

// Access implements vfs.VFS.
func (d *Disk) Access(name string, _ vfs.AccessFlag) (bool, error) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if d.off {
		return false, sqlite3.IOERR_ACCESS
	}
	return d.files[clean(name)] != nil, nil
}

// FullPathname implements vfs.VFS.
func (d *Disk) FullPathname(name string) (string, error) { return clean(name), nil }

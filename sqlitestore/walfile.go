package sqlitestore

import (
	"github.com/ncruces/go-sqlite3/vfs"

	"github.com/einmal-dev/einmal/internal/mutant"
)

// bundling is a VFS over another one that gathers what SQLite writes to the write-ahead log, two writes for each page, until it is synced or read.
//
// That is safe because with synchronous=FULL nobody looks at pages of the log before the commit that synced them has published them; the connection
// itself reads through the same file.
type bundling struct{ vfs.VFS }

// bundle registers the VFS over the named one and returns its name.
func bundle(name string) string {
	under := vfs.Find(name)
	if under == nil || mutant.On("sqlite-normal") {
		return name
	}
	over := "einmal"
	if name != "" {
		over += "+" + name
	}
	vfs.Register(over, bundling{under})
	return over
}

func (b bundling) Open(name string, flags vfs.OpenFlag) (vfs.File, vfs.OpenFlag, error) {
	return bundled(b.VFS.Open(name, flags))
}

func (b bundling) OpenFilename(name *vfs.Filename, flags vfs.OpenFlag) (vfs.File, vfs.OpenFlag, error) {
	if under, ok := b.VFS.(vfs.VFSFilename); ok {
		return bundled(under.OpenFilename(name, flags))
	}
	return bundled(b.VFS.Open(name.String(), flags))
}

func bundled(f vfs.File, flags vfs.OpenFlag, err error) (vfs.File, vfs.OpenFlag, error) {
	if err != nil || flags&vfs.OPEN_WAL == 0 {
		return f, flags, err
	}
	return &walFile{File: f}, flags, nil
}

// maxBundle bounds what one file gathers, in bytes.
const maxBundle = 1 << 20

// ahead is how many zeros the log is extended by when a small commit makes it grow, in bytes. A sync of a file that has its size already takes half
// the time of one that also has to make the growth durable. SQLite reads zeros behind its last page as the end of the log.
const ahead = 256 << 10

// walFile gathers consecutive writes.
type walFile struct {
	vfs.File
	gathered []byte
	at       int64
	size     int64 // of the file at least, as far as is known
}

func (f *walFile) WriteAt(p []byte, off int64) (int, error) {
	if len(f.gathered) > 0 && (off != f.at+int64(len(f.gathered)) || len(f.gathered)+len(p) > maxBundle) {
		if err := f.flush(); err != nil {
			return 0, err
		}
	}
	if len(f.gathered) == 0 {
		f.at = off
	}
	f.gathered = append(f.gathered, p...)
	return len(p), nil
}

// flush writes what was gathered. After an error it is gone, and the commit that it belongs to fails.
func (f *walFile) flush() error {
	if len(f.gathered) == 0 {
		return nil
	}
	data := f.gathered
	f.gathered = f.gathered[:0]
	end := f.at + int64(len(data))
	if end > f.size {
		var err error
		if f.size, err = f.File.Size(); err != nil {
			return err
		}
	}
	if end > f.size && len(data) < ahead/4 {
		grown := append(data, make([]byte, ahead)...)
		f.gathered = grown[:0]
		if _, err := f.File.WriteAt(grown, f.at); err == nil {
			f.size = end + ahead
			return nil
		} // there may be room for the data alone
	}
	_, err := f.File.WriteAt(data, f.at)
	return err
}

func (f *walFile) ReadAt(p []byte, off int64) (int, error) {
	if err := f.flush(); err != nil {
		return 0, err
	}
	return f.File.ReadAt(p, off)
}

func (f *walFile) Truncate(size int64) error {
	if err := f.flush(); err != nil {
		return err
	}
	f.size = 0
	return f.File.Truncate(size)
}

func (f *walFile) Size() (int64, error) {
	if err := f.flush(); err != nil {
		return 0, err
	}
	return f.File.Size()
}

func (f *walFile) Sync(flags vfs.SyncFlag) error {
	if err := f.flush(); err != nil {
		return err
	}
	return f.File.Sync(flags)
}

func (f *walFile) Close() error {
	flushErr := f.flush()
	if err := f.File.Close(); err != nil {
		return err
	}
	return flushErr
}

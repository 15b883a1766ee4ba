package faultvfs_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/vfs"

	"github.com/einmal-dev/einmal/fault/faultvfs"
)

const create = vfs.OPEN_READWRITE | vfs.OPEN_CREATE | vfs.OPEN_MAIN_DB

func newDisk(t *testing.T) *faultvfs.Disk {
	t.Helper()
	d := faultvfs.New(t.TempDir())
	t.Cleanup(d.Close)
	return d
}

func open(t *testing.T, d *faultvfs.Disk, name string) vfs.File {
	t.Helper()
	f, _, err := d.Open(name, create)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func write(t *testing.T, f vfs.File, b []byte, at int64) {
	t.Helper()
	if n, err := f.WriteAt(b, at); n != len(b) || err != nil {
		t.Fatalf("wrote %d of %d: %v", n, len(b), err)
	}
}

func sync(t *testing.T, f vfs.File) {
	t.Helper()
	if err := f.Sync(vfs.SYNC_FULL); err != nil {
		t.Fatal(err)
	}
}

// fill makes n bytes that tell where they are and whose they are.
func fill(b byte, n int) []byte { return bytes.Repeat([]byte{b}, n) }

func TestWhatWasSyncedSurvivesAndTheRestIsAGamble(t *testing.T) {
	t.Parallel()
	const sectors = 8
	var lost, kept, torn, grown int
	for seed := range uint64(300) {
		d := newDisk(t)
		f := open(t, d, "a.db")
		write(t, f, fill('a', sectors*faultvfs.SectorSize), 0)
		sync(t, f)
		write(t, f, fill('b', 100), 2*faultvfs.SectorSize-50) // a part of two sectors
		write(t, f, fill('b', 2*faultvfs.SectorSize), 4*faultvfs.SectorSize)
		write(t, f, fill('b', 10), (sectors+1)*faultvfs.SectorSize) // past the end
		d.CutPower(seed)
		d.PowerOn()
		got := d.ReadFile("a.db")

		want := fill('a', sectors*faultvfs.SectorSize)
		pieces := []struct{ from, to int }{
			{2*faultvfs.SectorSize - 50, 2 * faultvfs.SectorSize},
			{2 * faultvfs.SectorSize, 2*faultvfs.SectorSize + 50},
			{4 * faultvfs.SectorSize, 5 * faultvfs.SectorSize},
			{5 * faultvfs.SectorSize, 6 * faultvfs.SectorSize},
		}
		new := 0
		for _, p := range pieces {
			if got[p.from] == 'b' {
				new++
				copy(want[p.from:p.to], fill('b', p.to-p.from))
			}
		}
		if diff := cmp.Diff(string(want), string(got[:min(len(got), len(want))])); diff != "" {
			t.Fatalf("seed %d: durable bytes changed, or a sector is torn (-want +got):\n%s", seed, diff)
		}
		if (got[pieces[2].from] == 'b') != (got[pieces[3].from] == 'b') {
			torn++
		}
		switch new {
		case 0:
			lost++
		case len(pieces):
			kept++
		}
		if len(got) > len(want) {
			grown++
		}
	}
	if lost == 0 || kept == 0 || torn == 0 || grown == 0 {
		t.Errorf("of 300 losses %d lost everything, %d nothing, %d one sector of a write and not the other, and %d files grew; want some of each", lost, kept, torn, grown)
	}
}

func TestNamesAndSizesAreAGambleToo(t *testing.T) {
	t.Parallel()
	outcomes := map[string]int{}
	for seed := range uint64(300) {
		d := newDisk(t)
		old, doomed := open(t, d, "old"), open(t, d, "doomed")
		write(t, old, fill('o', 1000), 0)
		write(t, doomed, fill('d', 1000), 0)
		sync(t, old)
		sync(t, doomed)
		if err := old.Truncate(300); err != nil {
			t.Fatal(err)
		}
		if err := d.Delete("doomed", false); err != nil {
			t.Fatal(err)
		}
		open(t, d, "new")
		d.CutPower(seed)
		d.PowerOn()
		for _, name := range d.Files() {
			outcomes[strings.TrimPrefix(name, "/")]++
		}
		switch size := len(d.ReadFile("old")); size {
		case 300:
			outcomes["truncated"]++
		case 1000:
		default:
			t.Fatalf("seed %d: size %d was never there", seed, size)
		}
	}
	if outcomes["old"] != 300 {
		t.Errorf("a durable file was lost %d times", 300-outcomes["old"])
	}
	for _, what := range []string{"doomed", "new", "truncated"} {
		if n := outcomes[what]; n == 0 || n == 300 {
			t.Errorf("%q: %d of 300, want some", what, n)
		}
	}
}

func TestASyncedDeletionAndASyncedSizeSurvive(t *testing.T) {
	t.Parallel()
	for seed := range uint64(100) {
		d := newDisk(t)
		doomed := open(t, d, "/doomed")
		sync(t, doomed)
		kept := open(t, d, "kept")
		write(t, kept, fill('k', 1000), 0)
		sync(t, kept)
		if err := kept.Truncate(300); err != nil {
			t.Fatal(err)
		}
		sync(t, kept)
		if err := d.Delete("doomed", true); err != nil {
			t.Fatal(err)
		}
		d.CutPower(seed)
		d.PowerOn()
		if diff := cmp.Diff([]string{"/kept"}, d.Files()); diff != "" {
			t.Fatalf("seed %d (-want +got):\n%s", seed, diff)
		}
		if size := len(d.ReadFile("kept")); size != 300 {
			t.Fatalf("seed %d: a synced change of size ended at %d", seed, size)
		}
	}
}

func TestTheSameSeedLosesTheSame(t *testing.T) {
	t.Parallel()
	lose := func(seed uint64) []byte {
		d := newDisk(t)
		f, g := open(t, d, "f"), open(t, d, "g")
		sync(t, f)
		sync(t, g)
		for i := range int64(32) {
			write(t, f, fill(byte(i), 700), i*700)
			write(t, g, fill(byte(i), 700), i*700)
		}
		d.CutPower(seed)
		return append(d.ReadFile("f"), d.ReadFile("g")...)
	}
	different := false
	for seed := range uint64(20) {
		if !bytes.Equal(lose(seed), lose(seed)) {
			t.Fatalf("seed %d lost different things", seed)
		}
		different = different || !bytes.Equal(lose(seed), lose(seed+1))
	}
	if !different {
		t.Error("every seed loses the same")
	}
}

func TestWithoutPowerNothingWorks(t *testing.T) {
	t.Parallel()
	d := newDisk(t)
	f := open(t, d, "a.db")
	d.CutPower(1)
	if _, _, err := d.Open("b.db", create); !errors.Is(err, sqlite3.CANTOPEN) {
		t.Errorf("opening: %v", err)
	}
	if err := d.Delete("a.db", false); err == nil {
		t.Error("deleting works")
	}
	if _, err := d.Access("a.db", vfs.ACCESS_EXISTS); err == nil {
		t.Error("looking works")
	}
	dead := func(when string) {
		t.Helper()
		_, read := f.ReadAt(make([]byte, 1), 0)
		_, wrote := f.WriteAt(make([]byte, 1), 0)
		_, size := f.Size()
		for what, err := range map[string]error{
			"read": read, "write": wrote, "size": size, "truncate": f.Truncate(0), "sync": f.Sync(vfs.SYNC_FULL), "lock": f.Lock(vfs.LOCK_SHARED),
		} {
			if !errors.Is(err, sqlite3.IOERR) {
				t.Errorf("%s, a file of before: %s gave %v, want an I/O error", when, what, err)
			}
		}
	}
	dead("without power")
	d.PowerOn()
	dead("with power again")
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	write(t, open(t, d, "a.db"), []byte("x"), 0)
}

func TestFaultsOfReading(t *testing.T) {
	t.Parallel()
	d := newDisk(t)
	f := open(t, d, "a.db")
	write(t, f, []byte("0123456789"), 0)
	b := make([]byte, 10)
	d.Inject(faultvfs.Fault{Op: faultvfs.Read, N: 2})
	d.Inject(faultvfs.Fault{Op: faultvfs.Read, N: 4, How: faultvfs.Short})
	var got []error
	n := 0
	for range 4 {
		var err error
		n, err = f.ReadAt(b, 0)
		got = append(got, err)
	}
	if n != 5 || got[0] != nil || !errors.Is(got[1], sqlite3.IOERR_READ) || got[2] != nil || got[3] != io.EOF {
		t.Errorf("got %v, want none, an I/O error, none, a short read; and in the last %d bytes, want 5", got, n)
	}
	if n, err := f.ReadAt(b, 5); n != 5 || err != io.EOF {
		t.Errorf("reading past the end: %d, %v", n, err)
	}
	if !d.Flip("a.db", 3, 0x80) || d.Flip("a.db", 10, 1) || d.Flip("b.db", 0, 1) {
		t.Error("Flip does not tell what it found")
	}
	if got := d.ReadFile("a.db"); got[3] != '3'^0x80 || got[2] != '2' {
		t.Errorf("after the flip: %q", got)
	}
}

func TestAFlippedByteStaysFlippedAfterPowerLoss(t *testing.T) {
	t.Parallel()
	d := newDisk(t)
	f := open(t, d, "a.db")
	write(t, f, []byte("0123456789"), 0)
	sync(t, f)
	d.Flip("a.db", 3, 1)
	d.CutPower(1)
	if got := d.ReadFile("a.db"); string(got) != "0122456789" {
		t.Errorf("got %q", got)
	}
}

func TestFaultsOfWritingHitTheFileThatIsNamed(t *testing.T) {
	t.Parallel()
	d := newDisk(t)
	db, wal := open(t, d, "a.db"), open(t, d, "a.db-wal")
	d.Inject(faultvfs.Fault{Op: faultvfs.Write, Times: 2, Name: "-wal"})
	write(t, db, []byte("x"), 0)
	_, err1 := wal.WriteAt([]byte("x"), 0)
	err2 := wal.Truncate(5)
	if !errors.Is(err1, sqlite3.IOERR_WRITE) || !errors.Is(err2, sqlite3.IOERR_TRUNCATE) || len(d.ReadFile("a.db-wal")) != 0 {
		t.Errorf("got %v, %v and %d bytes", err1, err2, len(d.ReadFile("a.db-wal")))
	}
	write(t, wal, []byte("x"), 0)
	d.Inject(faultvfs.Fault{Op: faultvfs.Write, Times: -1})
	for range 5 {
		if _, err := db.WriteAt([]byte("y"), 0); err == nil {
			t.Error("a fault for ever ended by itself")
		}
	}
	d.Heal()
	write(t, db, []byte("z"), 0)
	d.Inject(faultvfs.Fault{Op: faultvfs.Write, How: faultvfs.FailsAfter})
	if _, err := db.WriteAt([]byte("w"), 0); err == nil || string(d.ReadFile("a.db")) != "w" {
		t.Errorf("got %v and %q, want an error and the work done", err, d.ReadFile("a.db"))
	}
}

func TestFaultsOfSyncing(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name           string
		how            faultvfs.How
		again          bool // sync once more, without a fault
		lost, survived bool // over all seeds, what may happen
		readable       bool
	}{
		{"it fails", faultvfs.Fails, false, true, true, true},
		{"it fails and the next one works", faultvfs.Fails, true, false, true, true},
		{"it fails and loses, and the next one brings nothing back", faultvfs.Loses, true, true, true, true},
		{"it fails but has done its work", faultvfs.FailsAfter, false, false, true, true},
		{"the power fails in it", faultvfs.CutsPower, false, true, true, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var lost, survived bool
			for seed := range uint64(100) {
				d := newDisk(t)
				f := open(t, d, "a.db")
				write(t, f, []byte("old"), 0)
				sync(t, f)
				write(t, f, []byte("new"), 0)
				d.Inject(faultvfs.Fault{Op: faultvfs.Sync, How: tt.how, Seed: seed})
				if err := f.Sync(vfs.SYNC_FULL); !errors.Is(err, sqlite3.IOERR_FSYNC) {
					t.Fatalf("got %v", err)
				}
				b := make([]byte, 3)
				if _, err := f.ReadAt(b, 0); (err == nil) != tt.readable || tt.readable && string(b) != "new" {
					t.Fatalf("then reads %q, %v", b, err)
				}
				if tt.again {
					sync(t, f)
				}
				d.CutPower(seed + 1000)
				switch string(d.ReadFile("a.db")) {
				case "old":
					lost = true
				case "new":
					survived = true
				default:
					t.Fatalf("found %q", d.ReadFile("a.db"))
				}
			}
			if lost != tt.lost || survived != tt.survived {
				t.Errorf("lost %v, survived %v over 100 seeds; want %v and %v", lost, survived, tt.lost, tt.survived)
			}
		})
	}
}

func TestTheDiskIsFull(t *testing.T) {
	t.Parallel()
	d := newDisk(t)
	f, g := open(t, d, "f"), open(t, d, "g")
	write(t, f, fill('x', 100), 0)
	d.Limit(50)
	write(t, f, fill('y', 100), 0) // in place
	write(t, g, fill('x', 30), 0)
	n, err := f.WriteAt(fill('z', 40), 90) // ten in place, twenty that fit, ten that do not
	if n != 30 || !errors.Is(err, sqlite3.FULL) {
		t.Errorf("wrote %d, %v; want 30 and SQLITE_FULL", n, err)
	}
	if err := g.Truncate(31); !errors.Is(err, sqlite3.FULL) {
		t.Errorf("growing a file: %v", err)
	}
	if err := f.Truncate(0); err != nil {
		t.Error(err)
	}
	write(t, g, fill('x', 120), 0) // there is space again
	d.Limit(-1)
	write(t, g, fill('x', 10000), 0)
}

func TestASlowSync(t *testing.T) {
	t.Parallel()
	d := newDisk(t)
	f := open(t, d, "f")
	d.SlowSync(20 * time.Millisecond)
	began := time.Now()
	sync(t, f)
	if took := time.Since(began); took < 20*time.Millisecond {
		t.Errorf("it took %v, want 20ms", took)
	}
}

func TestOperationsAreCounted(t *testing.T) {
	t.Parallel()
	d := newDisk(t)
	f := open(t, d, "f")
	write(t, f, []byte("x"), 0)
	_ = f.Truncate(0)
	sync(t, f)
	_, _ = f.ReadAt(make([]byte, 1), 0)
	got := []int{d.Count(faultvfs.Read), d.Count(faultvfs.Write), d.Count(faultvfs.Sync)}
	if diff := cmp.Diff([]int{1, 2, 1}, got); diff != "" {
		t.Errorf("reads, writes, syncs (-want +got):\n%s", diff)
	}
}

func TestLocks(t *testing.T) {
	t.Parallel()
	const (
		none, shared, reserved, exclusive = vfs.LOCK_NONE, vfs.LOCK_SHARED, vfs.LOCK_RESERVED, vfs.LOCK_EXCLUSIVE
		a, b, busy                        = 0, 1, true
	)
	type step struct {
		file int
		to   vfs.LockLevel
		busy bool
	}
	tests := []struct {
		name  string
		steps []step
	}{
		{"readers share", []step{{a, shared, false}, {b, shared, false}}},
		{"a writer prepares beside readers", []step{{a, shared, false}, {b, shared, false}, {a, reserved, false}}},
		{"one prepares only", []step{{a, shared, false}, {b, shared, false}, {a, reserved, false}, {b, reserved, busy}}},
		{"nobody writes beside a reader", []step{{a, shared, false}, {b, shared, false}, {a, reserved, false}, {a, exclusive, busy}, {b, none, false}, {a, exclusive, false}}},
		{"who waits to write keeps new readers out", []step{
			{a, shared, false}, {b, shared, false}, {a, reserved, false}, {a, exclusive, busy}, {b, none, false}, {b, shared, busy}, {a, none, false}, {b, shared, false},
		}},
		{"nobody reads beside a writer", []step{{a, shared, false}, {a, exclusive, false}, {b, shared, busy}, {a, shared, false}, {b, shared, false}}},
		{"nobody rolls back beside one who prepares", []step{{a, shared, false}, {a, reserved, false}, {b, shared, false}, {b, exclusive, busy}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := newDisk(t)
			files := []vfs.File{open(t, d, "f"), open(t, d, "f")}
			state := []vfs.LockLevel{none, none}
			for i, s := range tt.steps {
				var err error
				if s.to < state[s.file] {
					err = files[s.file].Unlock(s.to)
				} else {
					err = files[s.file].Lock(s.to)
				}
				if errors.Is(err, sqlite3.BUSY) != s.busy || err != nil && !s.busy {
					t.Fatalf("step %d: %v, want busy %v", i+1, err, s.busy)
				}
				if err == nil {
					state[s.file] = s.to
				}
			}
			for _, f := range files {
				_ = f.Close()
			}
			f := open(t, d, "f")
			if err := errors.Join(f.Lock(shared), f.Lock(exclusive)); err != nil {
				t.Errorf("after both were closed: %v", err)
			}
		})
	}
}

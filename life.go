package einmal

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// RunDirer is an optional ability of a Store: a folder on a local file system, seen by every process of this host that uses the store, for lock files
// that prove a process alive. "" for none.
type RunDirer interface{ RunDir() string }

// life is this process's proof of life: an operating-system lock on a file that it alone opened. The system frees it when the process dies, however
// it dies, and not before.
type life struct {
	file *os.File
}

func lockPath(runDir, incarnation string) string {
	return filepath.Join(runDir, incarnation+".alive")
}

// openLife takes the lock of a new incarnation. Without a folder, or where the file system's locks cannot be trusted, nobody can prove that this
// process is over, and people are asked instead.
func openLife(runDir string) (*life, Holder, error) {
	var random [8]byte
	_, _ = rand.Read(random[:]) // never fails
	holder := Holder{Incarnation: hex.EncodeToString(random[:]), Host: thisHost(), Boot: thisBoot()}
	if runDir == "" {
		return nil, holder, nil
	}
	if err := os.MkdirAll(runDir, 0o755); err != nil {
		return nil, holder, fmt.Errorf("einmal: the folder for lock files: %w (name a writable one in Config.RunDir)", err)
	}
	if !locksAreLocal(runDir) {
		return nil, holder, nil
	}
	file, err := os.OpenFile(lockPath(runDir, holder.Incarnation), os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o644)
	if err != nil {
		return nil, holder, fmt.Errorf("einmal: the lock file: %w (name a writable folder in Config.RunDir)", err)
	}
	if ok, err := tryLock(file); err != nil || !ok {
		_ = file.Close()
		return nil, holder, fmt.Errorf("einmal: cannot lock %s: %w", file.Name(), err)
	}
	return &life{file: file}, holder, nil
}

// close frees the lock and removes the file. Only an engine whose attempts have all spoken may: without the file nothing can be proven any more.
func (l *life) close() {
	if l == nil {
		return
	}
	_ = os.Remove(l.file.Name())
	_ = l.file.Close()
}

// holderOver reports whether a process is provably over, and how that is known or why not.
func holderOver(runDir string, h Holder) (over bool, why string) {
	switch {
	case h.Host == "" || h.Host != thisHost():
		return false, "its process ran on another host: " + hostName(h.Host)
	case hasMachineID(h.Host) && h.Boot != "" && thisBoot() != "" && h.Boot != thisBoot():
		return true, "its host has been booted again since"
	case runDir == "" || strings.ContainsAny(h.Incarnation, `/\`) || !locksAreLocal(runDir):
		return false, "its process has no lock that can be seen from here"
	}
	file, err := os.Open(lockPath(runDir, h.Incarnation))
	if err != nil {
		return false, "its process's lock file cannot be opened"
	}
	defer file.Close()
	free, err := tryProbe(file)
	switch {
	case err != nil:
		return false, "its process's lock cannot be tried"
	case !free:
		return false, "its process is alive"
	}
	return true, "its process is dead"
}

// thisHost is the host's name with the machine's id: names alone are often the same in containers.
var thisHost = sync.OnceValue(func() string {
	name, err := os.Hostname()
	if err != nil {
		return ""
	}
	id, _ := os.ReadFile("/etc/machine-id")
	return name + "/" + strings.TrimSpace(string(id))
})

// hasMachineID reports whether a host is named by more than its name, which another machine may have too.
func hasMachineID(host string) bool {
	_, id, _ := strings.Cut(host, "/")
	return id != ""
}

func hostName(host string) string {
	name, _, _ := strings.Cut(host, "/")
	if name == "" {
		return "unknown"
	}
	return name
}

// thisBoot changes with every boot; "" where the system does not tell.
var thisBoot = sync.OnceValue(func() string {
	id, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(id))
})

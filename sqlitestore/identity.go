package sqlitestore

import (
	"crypto/sha256"
	"encoding/binary"
	"sync/atomic"

	"github.com/einmal-dev/einmal"
	"github.com/einmal-dev/einmal/internal/mutant"
)

// hash finds a record by its identity: 64 bits of SHA-256 over the store's secret and the parts, each with its length. Nobody without the secret can
// make two identities that share one; when two do by chance, the identity itself decides.
func (s *Store) hash(id *einmal.Identity) int64 {
	var buf [512]byte
	b := append(buf[:0], s.fixed.secret...)
	if !mutant.On("tenant-left-out") {
		b = appendString(b, id.Tenant)
	}
	b = appendString(b, id.Operation)
	b = appendString(b, id.Key)
	sum := sha256.Sum256(b)
	return int64(binary.LittleEndian.Uint64(sum[:]) & s.hashMask)
}

func sameIdentity(a, b *einmal.Identity) bool {
	return a.Key == b.Key && a.Operation == b.Operation && (a.Tenant == b.Tenant || mutant.On("tenant-left-out"))
}

// known remembers hashes of identities that have a record, so that replays go to a reader and not through the writer. It may forget.
type known [1 << 15]atomic.Int64

func (k *known) add(hash int64) { k[uint64(hash)%uint64(len(k))].Store(hash) }
func (k *known) has(hash int64) bool {
	return hash != 0 && k[uint64(hash)%uint64(len(k))].Load() == hash
}

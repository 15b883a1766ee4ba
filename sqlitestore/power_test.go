package sqlitestore_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/einmal-dev/einmal/fault/faultvfs"
)

// acknowledgedAtLeast is how many acknowledgements the test of power loss collects; EINMAL_POWER_ACKS sets another number.
const acknowledgedAtLeast = 10_000

// Reservations and completions by a random number of concurrent callers; the power fails at a random write or sync, in opening, recovering, committing,
// checkpointing or closing; the file is opened again, everything is checked, and it goes on.
func TestPowerLossLosesNothingThatWasAcknowledged(t *testing.T) {
	t.Parallel()
	p := newPowerTest(t, rand.Uint64())
	for want := fromEnv(t, "EINMAL_POWER_ACKS", acknowledgedAtLeast); p.acknowledged() < want && len(p.lost) == 0 && !t.Failed(); {
		p.round()
	}
	p.finish()
	t.Logf("%d acknowledgements, %d power losses, of %d writes in doubt %d had happened", p.acknowledged(), p.rounds, p.doubts, p.happened)
	for _, lost := range p.lost {
		t.Errorf("seed %d: %s", p.seed, lost)
	}
}

// With synchronous=NORMAL the same loses some, or it could not see a loss.
func TestPowerLossWithoutFullLosesSome(t *testing.T) {
	t.Parallel()
	p := newPowerTest(t, 1)
	p.disk.AsNormal()
	p.normal = true
	for p.rounds < 100 && len(p.lost) == 0 {
		p.round()
	}
	if len(p.lost) == 0 {
		t.Fatalf("with NORMAL nothing of %d acknowledgements was lost in %d power losses", p.acknowledged(), p.rounds)
	}
	t.Logf("in round %d, such as: %s", p.rounds, p.lost[0])
}

// The power fails at each write and sync of making a store, one after the other. What is found then is no store, or a whole one.
func TestPowerLossWhileAStoreIsMade(t *testing.T) {
	t.Parallel()
	for _, op := range []faultvfs.Op{faultvfs.Write, faultvfs.Sync} {
		made := false
		for k := 1; !made; k++ {
			disk := newDisk(t)
			disk.Inject(faultvfs.Fault{Op: op, N: k, How: faultvfs.CutsPower, Seed: uint64(k)})
			s, err := openOn(t, disk, false)
			made = err == nil
			if made {
				closeStore(t, s)
			}
			disk.CutPower(uint64(k))
			disk.PowerOn()
			s, err = openOn(t, disk, false)
			if err != nil {
				t.Fatalf("op %d, the power failed at %d: opening again: %v", op, k, err)
			}
			if err := firstUse(s, fmt.Sprint(k)); err != nil {
				t.Errorf("op %d, the power failed at %d: %v", op, k, err)
			}
			closeStore(t, s)
			if k == 1 && made {
				t.Fatal("the fault did not happen")
			}
		}
	}
}

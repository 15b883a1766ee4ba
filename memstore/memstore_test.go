package memstore_test

import (
	"testing"

	"github.com/einmal-dev/einmal"
	"github.com/einmal-dev/einmal/memstore"
	"github.com/einmal-dev/einmal/storetest"
)

func TestStore(t *testing.T) {
	t.Parallel()
	clock := storetest.NewClock()
	storage := memstore.NewStorage(memstore.Options{Clock: clock.Read})
	storetest.Run(t, storetest.Maker{
		Open:    func() (einmal.Store, error) { return storage.Open(), nil },
		Advance: clock.Advance,
		Jump:    clock.Jump,
	})
}

package storetest_test

import (
	"context"
	"fmt"

	"github.com/einmal-dev/einmal"
	"github.com/einmal-dev/einmal/memstore"
	"github.com/einmal-dev/einmal/storetest"
)

// A program can check a store, too: on a new file system, or with a database's new version.
func ExampleCheck() {
	clock := storetest.NewClock()
	storage := memstore.NewStorage(memstore.Options{Clock: clock.Read})
	err := storetest.Check(context.Background(), storetest.Maker{
		Open:    func() (einmal.Store, error) { return storage.Open(), nil },
		Advance: clock.Advance,
		Jump:    clock.Jump,
	})
	fmt.Println(err)
	// Output: <nil>
}

package main

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/einmal-dev/einmal"
	"github.com/einmal-dev/einmal/cmd/einmal/internal/term"
	"github.com/einmal-dev/einmal/sqlitestore"
)

func openStore(ctx context.Context, loc location) (einmal.Store, error) {
	store, err := sqlitestore.Open(ctx, loc.path, sqlitestore.Options{Log: slog.New(slog.DiscardHandler)})
	switch {
	case errors.Is(err, sqlitestore.ErrNoStore):
		return nil, noStore(loc)
	case errors.Is(err, sqlitestore.ErrNewerSchema):
		return nil, fail("use the einmal of the program that wrote it, or a newer one", "%w", err)
	case err != nil:
		return nil, err
	}
	return store, nil
}

// noStore says what to do where a store was looked for: init is the answer only where nothing is.
func noStore(loc location) error {
	info, err := os.Stat(loc.path)
	const check = "check the path, and that its volume is mounted; init makes a store only where no file is"
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fail("check the path, and that its volume is mounted; "+commandLine("init", "--store", loc.String())+" makes a new one",
			"no store here: %s: there is no such file", loc.path)
	case err != nil:
		return fail(check, "no store here: %w", err)
	case info.IsDir():
		return fail(check, "no store here: %s is a folder", loc.path)
	case info.Size() == 0:
		return fail(check, "no store here: %s is an empty file", loc.path)
	}
	return fail(check, "no store here: %s is a file of another kind", loc.path)
}

func createStore(ctx context.Context, loc location) error {
	_, before := os.Lstat(loc.path)
	store, err := sqlitestore.Create(ctx, loc.path, sqlitestore.Options{Log: slog.New(slog.DiscardHandler)})
	switch {
	case errors.Is(err, sqlitestore.ErrStoreExists):
		return fail("look at it: "+commandLine("store", "show", "--store", loc.String()), "%s is there already: init makes a store only where no file is", loc.path)
	case errors.Is(before, fs.ErrNotExist) && err != nil:
		removeEmpty(loc.path)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fail("make the folder first: mkdir -p "+term.Quote(filepath.Dir(loc.path)), "%w", err)
	case err != nil:
		return err
	}
	return store.Close()
}

// removeEmpty takes back the file that a failed init made, so that it can be tried again. One that another process has begun to fill is left.
func removeEmpty(path string) {
	if info, err := os.Lstat(path); err == nil && info.Mode().IsRegular() && info.Size() == 0 {
		_ = os.Remove(path) // what failed before is the error to tell
	}
}

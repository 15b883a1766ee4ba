package main

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"path/filepath"

	"github.com/einmal-dev/einmal"
	"github.com/einmal-dev/einmal/sqlitestore"
)

func openStore(ctx context.Context, loc location) (einmal.Store, error) {
	store, err := sqlitestore.Open(ctx, loc.path, sqlitestore.Options{Log: slog.New(slog.DiscardHandler)})
	switch {
	case errors.Is(err, sqlitestore.ErrNoStore):
		return nil, fail("einmal init --store "+loc.String()+" makes a new one", "%w", err)
	case errors.Is(err, sqlitestore.ErrNewerSchema):
		return nil, fail("use the einmal of the program that wrote it, or a newer one", "%w", err)
	case err != nil:
		return nil, err
	}
	return store, nil
}

func createStore(ctx context.Context, loc location) error {
	store, err := sqlitestore.Create(ctx, loc.path, sqlitestore.Options{Log: slog.New(slog.DiscardHandler)})
	switch {
	case errors.Is(err, sqlitestore.ErrStoreExists):
		return fail("look at it: einmal store show --store "+loc.String(), "%w", err)
	case errors.Is(err, fs.ErrNotExist):
		return fail("make the folder first: mkdir -p "+filepath.Dir(loc.path), "%w", err)
	case err != nil:
		return err
	}
	return store.Close()
}

package main

import (
	"errors"
	"fmt"
	"strings"
)

// location is where a store is.
type location struct {
	path string // of the SQLite file
}

func (l location) String() string { return "sqlite:" + l.path }

// parseStore reads "sqlite:PATH".
func parseStore(text string) (location, error) {
	scheme, path, ok := strings.Cut(text, ":")
	switch {
	case !ok || len(scheme) < 2: // one letter is a drive
		return location{}, fmt.Errorf("%q does not say what kind of store it is: write sqlite:%s", text, text)
	case scheme != "sqlite":
		return location{}, fmt.Errorf("unknown kind of store %q: this version knows sqlite:PATH", scheme)
	case path == "":
		return location{}, errors.New("no path: write sqlite:PATH")
	case strings.HasPrefix(path, "//"):
		return location{}, fmt.Errorf("%q: write sqlite:PATH without //, as in sqlite:orders.db or sqlite:/var/lib/shop/orders.db", text)
	case path == ":memory:":
		return location{}, errors.New("a store is a file: what is in memory only is gone when the command ends")
	case strings.HasPrefix(path, "file:"):
		return location{}, fmt.Errorf("%q: write sqlite:PATH, with a path and not a URI", text)
	case strings.ContainsRune(path, 0):
		return location{}, errors.New("a path has no zero byte")
	}
	return location{path: path}, nil
}

package contract

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
)

// maxDocumentDepth bounds the recursion; the document itself needs five levels.
const maxDocumentDepth = 16

// memberPaths returns the path of every member of a JSON text. It refuses what encoding/json would let pass: two members of one name, null, and
// anything after the text.
func memberPaths(text []byte) (map[string]bool, error) {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	paths := map[string]bool{}
	if err := walkMembers(dec, paths, "", 0); err != nil {
		return nil, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one JSON text")
	}
	return paths, nil
}

func walkMembers(dec *json.Decoder, paths map[string]bool, path string, depth int) error {
	if depth > maxDocumentDepth {
		return fmt.Errorf("nested deeper than %d", maxDocumentDepth)
	}
	tok, err := dec.Token()
	if err != nil {
		return err
	}
	if tok == nil {
		return fmt.Errorf("%s is null", path)
	}
	open, ok := tok.(json.Delim)
	if !ok {
		return nil
	}
	for i := 0; dec.More(); i++ {
		member := fmt.Sprintf("%s/%d", path, i)
		if open == '{' {
			name, err := dec.Token()
			if err != nil {
				return err
			}
			member = fmt.Sprintf("%s/%s", path, name)
			if paths[member] {
				return fmt.Errorf("%s is there twice", member)
			}
			paths[member] = true
		}
		if err := walkMembers(dec, paths, member, depth+1); err != nil {
			return err
		}
	}
	_, err = dec.Token()
	return err
}

// sameMembers explains the first difference between what a text has and what it should have.
func sameMembers(got, want map[string]bool) error {
	for _, path := range slices.Sorted(maps.Keys(want)) {
		if !got[path] {
			return fmt.Errorf("%s is missing", path)
		}
	}
	for _, path := range slices.Sorted(maps.Keys(got)) {
		if !want[path] {
			return fmt.Errorf("%s is unknown", path)
		}
	}
	return nil
}

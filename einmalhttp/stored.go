package einmalhttp

import (
	"net/http"
	"slices"

	"github.com/einmal-dev/einmal"
	"github.com/einmal-dev/einmal/contract"
	"github.com/einmal-dev/einmal/internal/mutant"
)

var storedCanonical = func() []string {
	names := make([]string, len(contract.StoredFields))
	for i, name := range contract.StoredFields {
		names[i] = http.CanonicalHeaderKey(name)
	}
	return names
}()

// fillStored sets the fields of a stored answer, and no others: records may come from other programs, and from people.
func fillStored(h http.Header, fields []einmal.Field) {
	h["Content-Type"] = nil // nothing is sniffed that was not stored
	last := ""
	for _, f := range fields {
		name := http.CanonicalHeaderKey(f.Name)
		switch {
		case name == last: // lines of one name are neighbours
			h[name] = append(h[name], f.Value)
		case slices.Contains(storedCanonical, name) || mutant.On("set-cookie-stored") && name == "Set-Cookie":
			h[name] = []string{f.Value}
			last = name
		}
	}
}

// storedFields returns the allowed ones in the order of contract.StoredFields, so that equal answers are stored as equal bytes.
func storedFields(all []einmal.Field) []einmal.Field {
	stored := make([]einmal.Field, 0, 4)
	for _, f := range all {
		name := http.CanonicalHeaderKey(f.Name)
		if slices.Contains(storedCanonical, name) || mutant.On("set-cookie-stored") && name == "Set-Cookie" {
			stored = append(stored, einmal.Field{Name: name, Value: f.Value})
		}
	}
	if len(stored) > 1 {
		slices.SortStableFunc(stored, func(a, b einmal.Field) int {
			return slices.Index(storedCanonical, a.Name) - slices.Index(storedCanonical, b.Name)
		})
	}
	return stored
}

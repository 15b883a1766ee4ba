package fingerprint_test

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/einmal-dev/einmal/fingerprint"
)

func sum(t testing.TB, p fingerprint.Parts) fingerprint.Sum {
	t.Helper()
	s, err := p.Sum(fingerprint.V1)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Records in people's stores hold these sums. If this test fails, the code is wrong and never the vectors: other rules are another version. They were
// computed by another program, from the description alone.
func TestGoldenVectorsOfVersion1(t *testing.T) {
	t.Parallel()
	everyByte := make([]byte, 0, 256*40)
	for range 40 {
		for c := range 256 {
			everyByte = append(everyByte, byte(c))
		}
	}
	tests := []struct {
		name  string
		parts fingerprint.Parts
		want  string
	}{
		{"nothing", fingerprint.Parts{}, "ef1c61204a75c8a5ab3f9a9568d052bdbea051b1932742e0e2b7c3f93b004906"},
		{
			"an order",
			fingerprint.Parts{
				Method: "POST", Operation: "create-order", Path: []fingerprint.Field{{Name: "shop", Value: "7"}}, Query: "dry=0&x=%20",
				Fields: []fingerprint.Field{{Name: "Content-Type", Value: "application/json"}, {Name: "X-Account", Value: "a-1"}},
				Body:   []byte(`{"amount":9007199254740993}`),
			},
			"55c628dcf872d2181a7634492da4f0b8677ec482cc54cfe1e5c4607bcaca2aea",
		},
		{"a body of 10 KiB", fingerprint.Parts{Method: "do", Operation: "größe", Body: everyByte}, "847a17b6db0b28ce9a3126902035a49a39ddba7c9ddde7f2ffea33c59ba32da8"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := sum(t, tt.parts)
			if got := hex.EncodeToString(s.Hash[:]); got != tt.want || s.Version != 1 {
				t.Errorf("version %d, hash %s; want version 1, %s", s.Version, got, tt.want)
			}
			if encoded := s.Append(nil); hex.EncodeToString(encoded) != "01"+tt.want {
				t.Errorf("encoded as %x", encoded)
			}
		})
	}
}

func TestUnknownVersionIsRefused(t *testing.T) {
	t.Parallel()
	for _, version := range []uint8{0, 2, 255} {
		if s, err := (&fingerprint.Parts{}).Sum(version); !errors.Is(err, fingerprint.ErrVersion) || s != (fingerprint.Sum{}) {
			t.Errorf("version %d: %v, %v", version, s, err)
		}
	}
	if fingerprint.Latest != fingerprint.V1 {
		t.Error("a newer version needs its own golden vectors and its own line here")
	}
}

// Each pair has the same bytes in all, cut at other places.
func TestBytesCannotMoveBetweenParts(t *testing.T) {
	t.Parallel()
	type field = fingerprint.Field
	tests := []struct {
		name string
		a, b fingerprint.Parts
	}{
		{"method and operation", fingerprint.Parts{Method: "PO", Operation: "ST"}, fingerprint.Parts{Method: "POS", Operation: "T"}},
		{"operation and query", fingerprint.Parts{Operation: "x"}, fingerprint.Parts{Query: "x"}},
		{"query and body", fingerprint.Parts{Query: "ab", Body: []byte("c")}, fingerprint.Parts{Query: "a", Body: []byte("bc")}},
		{"name and value", fingerprint.Parts{Path: []field{{"ab", "c"}}}, fingerprint.Parts{Path: []field{{"a", "bc"}}}},
		{"path and fields", fingerprint.Parts{Path: []field{{"a", "b"}}}, fingerprint.Parts{Fields: []field{{"a", "b"}}}},
		{"two fields and one", fingerprint.Parts{Fields: []field{{"a", "b"}, {"", ""}}}, fingerprint.Parts{Fields: []field{{"a", "b"}}}},
		{"the last of path, the first of fields", fingerprint.Parts{Path: []field{{"a", "b"}, {"c", "d"}}, Fields: []field{{"e", "f"}}}, fingerprint.Parts{
			Path: []field{{"a", "b"}}, Fields: []field{{"c", "d"}, {"e", "f"}},
		}},
		{"the order of fields", fingerprint.Parts{Fields: []field{{"a", "1"}, {"b", "2"}}}, fingerprint.Parts{Fields: []field{{"b", "2"}, {"a", "1"}}}},
		{"the order of values", fingerprint.Parts{Fields: []field{{"a", "1"}, {"a", "2"}}}, fingerprint.Parts{Fields: []field{{"a", "2"}, {"a", "1"}}}},
		{"one value with a comma, two values", fingerprint.Parts{Fields: []field{{"a", "1,2"}}}, fingerprint.Parts{Fields: []field{{"a", "1"}, {"a", "2"}}}},
		{"letter case of a name", fingerprint.Parts{Fields: []field{{"A", "1"}}}, fingerprint.Parts{Fields: []field{{"a", "1"}}}},
		{"a zero byte more", fingerprint.Parts{Body: []byte("a")}, fingerprint.Parts{Body: []byte("a\x00")}},
		{"a length that looks like a part", fingerprint.Parts{Method: "\x00\x00\x00\x00\x00\x00\x00\x01a"}, fingerprint.Parts{Operation: "\x00\x00\x00\x00\x00\x00\x00\x01a"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if sum(t, tt.a) == sum(t, tt.b) {
				t.Errorf("%+v and %+v share a sum", tt.a, tt.b)
			}
		})
	}
}

// partsFrom reads Parts from any bytes, with short strings and many boundaries.
func partsFrom(data []byte) fingerprint.Parts {
	text := func() string {
		if len(data) == 0 {
			return ""
		}
		n := min(int(data[0]%5), len(data)-1)
		s := string(data[1 : 1+n])
		data = data[1+n:]
		return s
	}
	fields := func() []fingerprint.Field {
		var fs []fingerprint.Field
		for range len(text()) {
			fs = append(fs, fingerprint.Field{Name: text(), Value: text()})
		}
		return fs
	}
	return fingerprint.Parts{Method: text(), Operation: text(), Path: fields(), Query: text(), Fields: fields(), Body: slices.Clone(data)}
}

func same(a, b fingerprint.Parts) bool {
	a.Body, b.Body = append([]byte{}, a.Body...), append([]byte{}, b.Body...)
	return reflect.DeepEqual(a, b)
}

func TestDifferentPartsNeverShareASum(t *testing.T) {
	t.Parallel()
	// Neighbours of each other: one random text, and the same with a byte moved, doubled, dropped, or another boundary.
	rng := rand.New(rand.NewPCG(1, 2))
	seen := map[fingerprint.Sum]fingerprint.Parts{}
	different, repeated := 0, 0
	for range 500 {
		data := make([]byte, rng.IntN(40))
		for i := range data {
			data[i] = byte(rng.IntN(6))
		}
		for range 20 {
			parts := partsFrom(data)
			s := sum(t, parts)
			if before, ok := seen[s]; !ok {
				different++
			} else if repeated++; !same(before, parts) {
				t.Fatalf("%+v and %+v share a sum", before, parts)
			}
			seen[s] = parts
			data = mutate(rng, data)
		}
	}
	if different < 5000 || repeated == 0 {
		t.Errorf("%d different parts, %d repeated: the test shows little", different, repeated)
	}
}

func mutate(rng *rand.Rand, data []byte) []byte {
	data = slices.Clone(data)
	if len(data) == 0 {
		return []byte{byte(rng.IntN(6))}
	}
	i, j := rng.IntN(len(data)), rng.IntN(len(data))
	switch rng.IntN(4) {
	case 0:
		data[i], data[j] = data[j], data[i]
	case 1:
		data[i] = byte(rng.IntN(6))
	case 2:
		data = slices.Delete(data, i, i+1)
	default:
		data = slices.Insert(data, i, data[j])
	}
	return data
}

func FuzzSum(f *testing.F) {
	f.Add([]byte("\x01a\x01b"), []byte("\x02ab\x00"))
	f.Add([]byte{}, []byte{0})
	f.Add([]byte("\x00\x00\x01x\x01a\x01b"), []byte("\x00\x00\x00\x00\x01x\x01a\x01b"))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		pa, pb := partsFrom(a), partsFrom(b)
		if equal := sum(t, pa) == sum(t, pb); equal != same(pa, pb) {
			t.Fatalf("%+v and %+v: equal sums is %v", pa, pb, equal)
		}
	})
}

func TestSumDoesNotChangeItsParts(t *testing.T) {
	t.Parallel()
	body := []byte("body")
	p := fingerprint.Parts{Body: body, Fields: []fingerprint.Field{{Name: "b"}, {Name: "a"}}}
	if first, second := sum(t, p), sum(t, p); first != second || string(body) != "body" || p.Fields[0].Name != "b" {
		t.Errorf("changed: %+v", p)
	}
}

func TestDecode(t *testing.T) {
	t.Parallel()
	s := sum(t, fingerprint.Parts{Method: "POST"})
	encoded := s.Append([]byte("before"))
	if !bytes.HasPrefix(encoded, []byte("before")) || len(encoded) != len("before")+fingerprint.Size {
		t.Fatalf("Append gives %x", encoded)
	}
	encoded = encoded[len("before"):]
	if back, err := fingerprint.Decode(encoded); err != nil || back != s {
		t.Errorf("Decode gives %v, %v", back, err)
	}
	for name, bad := range map[string][]byte{
		"nothing": nil, "one byte less": encoded[:len(encoded)-1], "one byte more": append(slices.Clone(encoded), 0), "the version alone": encoded[:1],
	} {
		if back, err := fingerprint.Decode(bad); err == nil || back != (fingerprint.Sum{}) {
			t.Errorf("%s: %v, %v", name, back, err)
		}
	}
	for _, version := range []byte{0, 2, 255} {
		other := slices.Clone(encoded)
		other[0] = version
		if back, err := fingerprint.Decode(other); !errors.Is(err, fingerprint.ErrVersion) || back != (fingerprint.Sum{}) {
			t.Errorf("version %d: %v, %v", version, back, err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(sum(f, fingerprint.Parts{}).Append(nil))
	f.Add([]byte{})
	f.Add(binary.BigEndian.AppendUint64(nil, 1))
	f.Fuzz(func(t *testing.T, encoded []byte) {
		s, err := fingerprint.Decode(encoded)
		if err != nil {
			if s != (fingerprint.Sum{}) {
				t.Fatalf("an error and %v", s)
			}
			return
		}
		if again := s.Append(nil); !bytes.Equal(again, encoded) {
			t.Fatalf("%x is written again as %x", encoded, again)
		}
	})
}

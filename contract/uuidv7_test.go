package contract_test

import (
	"errors"
	"testing"
	"time"

	"github.com/einmal-dev/einmal/contract"
)

func TestKeyTime(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		key  string
		want time.Time // zero where the key is refused
	}{
		{"the example of RFC 9562, appendix A.6", "017F22E2-79B0-7CC3-98C4-DC0C0C07398F", time.Date(2022, 2, 22, 19, 22, 22, 0, time.UTC)},
		{"lower case", "017f22e2-79b0-7cc3-98c4-dc0c0c07398f", time.Date(2022, 2, 22, 19, 22, 22, 0, time.UTC)},
		{"milliseconds count", "017f22e2-79b1-7cc3-98c4-dc0c0c07398f", time.Date(2022, 2, 22, 19, 22, 22, 1e6, time.UTC)},
		{"the epoch", "00000000-0000-7000-8000-000000000000", time.Unix(0, 0).UTC()},
		{"the last time there is", "ffffffff-ffff-7fff-bfff-ffffffffffff", time.UnixMilli(1<<48 - 1).UTC()},
		{"variant bits 10 with others set", "017f22e2-79b0-7cc3-b8c4-dc0c0c07398f", time.Date(2022, 2, 22, 19, 22, 22, 0, time.UTC)},

		{"version 4", "017f22e2-79b0-4cc3-98c4-dc0c0c07398f", time.Time{}},
		{"version 6", "1ec9414c-232a-6b00-b3c8-9f6bdeced846", time.Time{}},
		{"version 8", "017f22e2-79b0-8cc3-98c4-dc0c0c07398f", time.Time{}},
		{"variant 0", "017f22e2-79b0-7cc3-78c4-dc0c0c07398f", time.Time{}},
		{"variant 110", "017f22e2-79b0-7cc3-c8c4-dc0c0c07398f", time.Time{}},
		{"the nil UUID", "00000000-0000-0000-0000-000000000000", time.Time{}},
		{"the max UUID", "ffffffff-ffff-ffff-ffff-ffffffffffff", time.Time{}},
		{"no hyphens", "017f22e279b07cc398c4dc0c0c07398f", time.Time{}},
		{"a hyphen in the wrong place", "017f22e-279b0-7cc3-98c4-dc0c0c07398f", time.Time{}},
		{"a digit for the first hyphen", "017f22e2079b0-7cc3-98c4-dc0c0c07398f", time.Time{}},
		{"a digit for the second hyphen", "017f22e2-79b007cc3-98c4-dc0c0c07398f", time.Time{}},
		{"a digit for the third hyphen", "017f22e2-79b0-7cc3098c4-dc0c0c07398f", time.Time{}},
		{"a digit for the last hyphen", "017f22e2-79b0-7cc3-98c40dc0c0c07398f", time.Time{}},
		{"a hyphen more", "017f22e2-79b0-7cc3-98c4-dc0c-c07398f", time.Time{}},
		{"braces", "{017f22e2-79b0-7cc3-98c4-dc0c0c07398f}", time.Time{}},
		{"a URN", "urn:uuid:017f22e2-79b0-7cc3-98c4-dc0c0c07398f", time.Time{}},
		{"a letter that is no digit", "017f22e2-79b0-7cc3-98c4-dc0c0c07398g", time.Time{}},
		{"a sign", "+17f22e2-79b0-7cc3-98c4-dc0c0c07398f", time.Time{}},
		{"one digit less", "017f22e2-79b0-7cc3-98c4-dc0c0c07398", time.Time{}},
		{"one digit more", "017f22e2-79b0-7cc3-98c4-dc0c0c07398f0", time.Time{}},
		{"white space", " 17f22e2-79b0-7cc3-98c4-dc0c0c07398f", time.Time{}},
		{"an ordinary key", "order-1", time.Time{}},
		{"nothing", "", time.Time{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := contract.KeyTime(tt.key)
			if !got.Equal(tt.want) || (err == nil) != !tt.want.IsZero() {
				t.Errorf("KeyTime(%q) = %v, %v; want %v", tt.key, got, err, tt.want)
			}
			if err != nil && !errors.Is(err, contract.ErrKeyInvalid) {
				t.Errorf("%v is not ErrKeyInvalid", err)
			}
		})
	}
}

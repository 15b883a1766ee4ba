package einmal

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/einmal-dev/einmal/fingerprint"
)

// partnerKey derives what a partner is sent: HMAC-SHA256 under the store's secret over the length-prefixed parts, written as a UUID of version 8
// (RFC 9562, section 5.8), because some partners take nothing else. It cannot be guessed from outside, and differs between tenants.
func partnerKey(secret []byte, id Identity, sum fingerprint.Sum, step string) string {
	mac := hmac.New(sha256.New, secret)
	var b []byte
	for _, part := range []string{"einmal partner key 1", id.Tenant, id.Operation, id.Key, string(sum.Append(nil)), step} {
		b = binary.BigEndian.AppendUint32(b, uint32(len(part)))
		b = append(b, part...)
	}
	mac.Write(b)
	u := mac.Sum(nil)[:16]
	u[6] = u[6]&0x0f | 0x80
	u[8] = u[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", u[0:4], u[4:6], u[6:8], u[8:10], u[10:16])
}

package contract

// Header fields of the contract. The key's field follows
// draft-ietf-httpapi-idempotency-key-header-07, an expired draft and not a standard.
const (
	HeaderKey      = "Idempotency-Key"
	HeaderReplayed = "Idempotent-Replayed"  // "true": the stored answer, nothing was executed
	HeaderRecorded = "Idempotency-Recorded" // "false": the true answer, but it is not stored yet
	HeaderIgnored  = "Idempotency-Ignored"  // "true": this request is no operation, its key meant nothing
)

// OwnHeaders are the response fields that only Einmal may set. A proxy strips inbound copies.
var OwnHeaders = []string{HeaderReplayed, HeaderRecorded, HeaderIgnored}

// StoredFields are the header fields of an answer that are stored and replayed; the first caller gets all. What is not here is of one connection, one
// moment or one caller, and above all Set-Cookie, Authorization and WWW-Authenticate are never stored. Cache-Control is not either: a replay is no-store.
var StoredFields = []string{
	"Content-Type", "Content-Encoding", "Content-Language", "Content-Disposition", "Content-Location",
	"Location", "ETag", "Last-Modified", "Link",
}

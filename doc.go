// Package einmal makes a write happen once, lets its client retry it safely, and never guesses.
//
// An operation is named by a tenant, the policy's name, and the client's key. Its record is reserved durably before the effect, and the answer is
// recorded durably before it is given; every retry inside the window gets the recorded answer. An attempt whose effect nobody can know leaves the
// operation unclear: it is never repeated on its own, never reported as failed, and always somebody's to resolve.
//
// What is promised depends on how the effect relates to the record, the effect class of the policy:
//
//   - Opaque, the default: at most once.
//   - Keyed: exactly once, if the handler sends PartnerKey(ctx) to a partner that deduplicates on it, for as long as it does.
//
// An Engine decides; a Store keeps the records (memstore, sqlitestore). Package einmalhttp puts an Engine in front of net/http handlers; Do is for what
// is not HTTP. An Operator looks at operations and resolves the unclear ones.
package einmal

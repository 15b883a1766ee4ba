package fault

import "time"

// Rule is what a Proxy does with one request. The zero Rule passes it and its answer on as they come, byte by byte. A rule with Delay or Hold takes the
// request whole before it passes it on, and does so even if the client has left meanwhile: these are bytes that arrive late.
type Rule struct {
	Delay time.Duration   // before the request is passed on
	Hold  <-chan struct{} // and until this is closed

	Cut CutAt
	// After is how much gets through before the cut: of the body as the server gets it (CutInUpload), or of the answer as on the wire, head and all
	// (CutInAnswer). A negative number counts from the answer's end: -1 is all but the last byte. The answer is taken whole from the server first.
	After int64

	Copies    int             // the request is delivered so many times more, each on a connection of its own
	CopyDelay time.Duration   // a copy is sent so long after the request was passed on
	CopyHold  <-chan struct{} // and when this is closed
}

// Pass passes on.
func Pass() Rule { return Rule{} }

// DropAnswer lets the server finish and cuts the client's connection instead of passing the answer on.
func DropAnswer() Rule { return Rule{Cut: CutBeforeAnswer} }

// CutAnswer cuts the client's connection after n bytes of the answer, head included, or, with a negative n, so many before its end.
func CutAnswer(n int64) Rule { return Rule{Cut: CutInAnswer, After: n} }

// CutUpload cuts both connections after n bytes of the request's body.
func CutUpload(n int64) Rule { return Rule{Cut: CutInUpload, After: n} }

// Leave cuts the client's connection as soon as the request was passed on. The server is not told.
func Leave() Rule { return Rule{Cut: CutAfterUpload} }

// DeliverTwice passes the request on and, so long after, once more.
func DeliverTwice(later time.Duration) Rule { return Rule{Copies: 1, CopyDelay: later} }

// DeliverAgain passes the request on and once more when the channel is closed.
func DeliverAgain(when <-chan struct{}) Rule { return Rule{Copies: 1, CopyHold: when} }

// HoldBack passes the request on when the channel is closed.
func HoldBack(until <-chan struct{}) Rule { return Rule{Hold: until} }

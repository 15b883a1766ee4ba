// Package einmalhttp makes HTTP operations happen once: a middleware for net/http and every router on it, the status and result resources, and the
// contract page.
//
//	idem := einmalhttp.New(eng, einmalhttp.Config{Identify: fromSession})
//	mux.Handle("/.idempotency/", idem)
//	mux.Handle("POST /orders", idem.Wrap(createOrder)(handler))
//
// # What a wrapped handler sees
//
// It runs on the request's goroutine with a context that is detached from the client's leaving and ends at the operation's deadline. The body is there
// whole, in memory, under Rules.MaxBody. Everything it writes is kept until its end is recorded; then the first caller gets all of it, and retries get
// what the store keeps: status, body, and the header fields of contract.StoredFields. So an answer cannot be streamed: Flush does nothing, 1xx answers and
// trailers are dropped, and Hijack and full duplex are http.ErrNotSupported. The part over Rules.MaxResult goes through a temporary file to the first
// caller and is not stored. Trailers of the request are dropped too, for they are no parameters of the operation.
//
// Bodies are read before anything is reserved, so http.Server's ReadTimeout is what limits a slow upload; its WriteTimeout must leave room for
// Config.MaxWait.
//
// A handler that returns without a word has said 200, as in net/http, unless its context was over by then. Nor does a status count then that would say
// that there was no effect: a handler may only have met the end of its context. Its caller gets 504, and the operation is unclear. A success counts, and so
// does what a function of Serve returns as einmal.Final or einmal.NoEffect.
//
// # What is no operation
//
// GET, HEAD, OPTIONS and TRACE pass, and so does a request without a key where the policy says KeyOptional. A key on such a request means nothing, and the
// answer says so: Idempotency-Ignored: true.
//
// # Frameworks
//
// Wrap fits whatever takes a func(http.Handler) http.Handler; with chi:
//
//	r.Mount("/.idempotency", idem)
//	r.With(idem.Wrap(createOrder)).Post("/orders", handler)
//
// Serve is for handlers that return an error. The error must come out of the function that Serve gets, or be answered inside it: an error handler that
// runs outside must not be the first to know. With echo:
//
//	func once(idem *einmalhttp.Server, op *einmal.Op) echo.MiddlewareFunc {
//		return func(next echo.HandlerFunc) echo.HandlerFunc {
//			return func(c echo.Context) error {
//				outside := c.Response()
//				defer c.SetResponse(outside)
//				return idem.Serve(outside, c.Request(), op, func(w http.ResponseWriter, r *http.Request) error {
//					c.SetRequest(r)
//					c.SetResponse(echo.NewResponse(w, c.Echo()))
//					return next(c)
//				})
//			}
//		}
//	}
//
// A whole framework can be the handler too, and then everything of it runs inside; with gin, whose errors wait in its context:
//
//	mux.Handle("POST /orders", idem.Wrap(createOrder)(ginEngine))
//
// # Misuse
//
// A nil engine, Identify or operation, an operation of another engine and a handler that is wrapped already panic at construction. A second Wrap that is
// found only when a request comes through executes nothing, logs an error and answers 500, which leaves the operation unclear: test every route once.
//
// Nothing before Wrap may read the body, unless it puts the body and its ContentLength back: requests with other bodies would be the same operation. A
// body of which less is left than the length says, that was made a form, or that is empty although the client announced one, is refused as
// body-incomplete and logged. A beginning that was taken from a chunked body is not noticed.
package einmalhttp

// Package supervised keeps one MCP session alive over servers that die.
//
// A [Transport] is made from a [Factory], which mints the connection to one server, and is itself an
// mcp.Transport of the official Go SDK. A client connects to it as it would to a single server. When the server
// ends and [Transport.Close] was not the reason, the next one is started, within a restart budget, and the
// session above goes on:
//
//	server := stdio.Command{Args: []string{"my-server", "--flag"}}
//	transport, err := supervised.New(server.Mint)
//	if err != nil {
//		log.Fatal(err)
//	}
//	defer transport.Close()
//
//	session, err := client.Connect(ctx, transport, nil) // client is an *mcp.Client
//
// Package stdio has the factory for server processes. Any other function that returns an mcp.Transport will do;
// the guide says what cannot be seen through those of the SDK.
//
// # The lifecycle
//
//	idle             start                                                  -> connecting
//	                 close                                                  -> closed           / onDrain, onClose
//	connecting       connected       [first connection]                     -> serving
//	                                 [after the probe]                      -> serving
//	                                 [else]                                 -> serving          / onReconnect
//	                 connect-failed  [first connection]                     -> idle
//	                                 [budget left]                          -> respawn-pending  / onError
//	                                 [else]                                 -> exhausted        / onError, onError(exhausted)
//	                 close           [first connection]                     -> closed           / onDrain, onClose
//	                                 [else]                                 -> closed           / onClose
//	serving          peer-died       [closing]                              -> closed           / onClose
//	                                 [probe unanswered]                     -> respawn-pending
//	                                 [budget left]                          -> respawn-pending  / onClose
//	                                 [else]                                 -> exhausted        / onClose, onError(exhausted)
//	                 restart                                                -> respawn-pending  / onClose
//	                 close                                                  -> closed           / onDrain, onClose
//	respawn-pending  respawn                                                -> connecting
//	                 close                                                  -> closed           / onClose
//	exhausted        give-up         [a promised replacement is withdrawn]  -> closed           / onClose
//	                                 [else]                                 -> closed
//	                 close           [a promised replacement is withdrawn]  -> closed           / onClose
//	                                 [else]                                 -> closed
//
// Each line is: from, event, [guard], -> to, / the hooks that are called. An event leads to the first line whose guard
// holds. A first connection that fails leads back to idle, and Connect returns the error. [Lifecycle] returns this
// table, which is the one that the machine runs; docs/lifecycle.svg is a picture of it.
// The files states.go, events.go and transitions.go are the ones to read first.
//
// # What a caller sees
//
// While nothing serves, a message is refused at once; nothing is queued. When a server dies, each call that it
// had not answered fails. The errors reach the caller through a session of the SDK, to be matched with errors.Is
// and errors.As:
//
//   - [ErrReconnecting]: never sent; a replacement is promised. See [Transport.WaitServing].
//   - [ErrPeerLost]: sent, and may have run. The end of the server is found in it.
//   - [ErrClosed]: never sent, or ended by Close. ErrReconnecting matches it too.
//   - [ExhaustedError]: the budget is spent, the session over.
//
// All of them match mcp.ErrConnectionClosed, which is all that a call matches that is made after the session has
// ended. With [WithRetryLostRequests] a call that only reads does not fail with its server: it is sent again to the
// replacement, and its caller waits.
//
// # What a replacement is given
//
// Before it serves, a replacement gets what a fresh process cannot know: in a session of a protocol before
// 2026-07-28 the handshake, the log level and the resource subscriptions; then the calls that were kept; then each
// subscriptions/listen that is open, under its id, so that notifications keep coming. The SDK sends that for
// Subscribe and for list-changed handlers; [Transport.Listen] opens a [Stream] of one's own.
//
// # Hooks
//
//   - [Transport.OnTransition]: each step of the lifecycle.
//   - [Transport.OnClose]: a connection that served has ended, and why.
//   - [Transport.OnReconnect]: a replacement serves.
//   - [Transport.OnDrain]: Close has begun, and calls still go through.
//   - [Transport.OnError]: what went wrong and is nobody's answer.
//
// They are registered once, outlive every server, and are called one at a time in the order of the transitions.
// No step of the lifecycle waits for one, except the start of a replacement for the OnClose hooks of the death
// that it follows, and the end of a connection for OnDrain.
//
// # The budget
//
// Three restarts in a minute, each 100 ms after the death: [WithMaxRestarts], [WithRestartWindow] and
// [WithRestartDelay] set that, and [WithBudget] replaces it by a budget.Budget of one's own. Every death spends
// one restart, exit status 0 included, and so does a replacement that cannot be started. [Transport.Restart]
// spends nothing.
package supervised

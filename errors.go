package supervised

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// What a caller is told. Match with errors.Is, also through a session of the SDK.
//
// Each of ErrClosed, ErrReconnecting and ErrPeerLost matches mcp.ErrConnectionClosed as well. As errors of
// Write they also match the *jsonrpc.Error of code -32005 ("rejected by transport"), for which the SDK fails
// that one message and keeps the session.
var (
	// ErrNotStarted: Listen or Restart was called before a first connection served.
	ErrNotStarted = errors.New("supervised: not started")

	// ErrAlreadyStarted: Connect was called twice.
	ErrAlreadyStarted = errors.New("supervised: already started")

	// ErrClosed: refused and never sent, or ended by Close: the transport is closed for good.
	ErrClosed error = &sentinel{text: "supervised: closed"}

	// ErrReconnecting: refused and never sent: the peer is gone and a replacement is promised. It matches
	// ErrClosed too, so that a caller who does not care which it was tests for one.
	ErrReconnecting error = &sentinel{text: "supervised: reconnecting: a replacement is promised", as: ErrClosed}

	// ErrPeerLost: sent, or sent in part, and not answered: the peer died. The request may have run. It
	// does not match ErrClosed. The end of the peer is found in it with errors.As.
	ErrPeerLost error = &sentinel{text: "supervised: peer lost: the request may have run"}

	// ErrStreamClosed: the stream was closed by its caller, or cancelled by the server.
	ErrStreamClosed = errors.New("supervised: stream closed")

	// ErrDeliveryDropped: the handler of a stream fell behind by more than WithStreamBuffer allows.
	ErrDeliveryDropped = errors.New("supervised: stream lags too far behind: a delivery was dropped")
)

// codeRejected is the SDK's code for a message that the transport refused, with the connection intact.
const codeRejected = -32005

// matchesRefusal reports whether target is one of the two errors of the SDK that every error of this package
// about a connection matches.
func matchesRefusal(target error) bool {
	if target == mcp.ErrConnectionClosed {
		return true
	}
	return matchesRejection(target)
}

// matchesRejection reports whether target is the SDK's "rejected by transport".
func matchesRejection(target error) bool {
	e, ok := target.(*jsonrpc.Error)
	return ok && e != nil && e.Code == codeRejected
}

// A rejection refuses one message that no peer could take, with the connection intact.
type rejection struct{ text string }

func (e *rejection) Error() string        { return e.text }
func (e *rejection) Is(target error) bool { return matchesRejection(target) }

var errNilMessage error = &rejection{"supervised: Write of a nil message"}

// idInUse refuses a call under the id of another call that is in flight.
func idInUse(id any) error {
	return &rejection{fmt.Sprintf("supervised: request id %v is in flight", id)}
}

// A sentinel is one of this package's own error values. It says that it is the SDK's two as well by Is alone,
// so that errors.As does not find a *jsonrpc.Error in it: no peer said this.
type sentinel struct {
	text string
	as   error // a wider error of this package; nil: none
}

func (e *sentinel) Error() string { return e.text }

func (e *sentinel) Is(target error) bool {
	return matchesRefusal(target) || e.as != nil && target == e.as
}

// peerLost returns an ErrPeerLost in which cause, the end of the peer, is found.
func peerLost(cause error) error { return &lostError{cause: cause} }

type lostError struct{ cause error }

func (e *lostError) Error() string   { return fmt.Sprintf("%v: %v", ErrPeerLost, e.cause) }
func (e *lostError) Unwrap() []error { return []error{ErrPeerLost, e.cause} }

// An ExhaustedError says that the budget is spent and the transport closed for good. It matches ErrClosed, and
// all that Last matches except io.EOF, which the SDK would take for a clean end; for a call that had been sent
// it matches ErrPeerLost too.
type ExhaustedError struct {
	Restarts int           // how many restarts the budget allowed
	Window   time.Duration // in how much time; 0: it does not say
	Last     error         // the end of the last peer
}

func (e *ExhaustedError) Error() string {
	within := ""
	if e.Window > 0 {
		within = fmt.Sprintf(" in %v", e.Window)
	}
	return fmt.Sprintf("supervised: restart budget of %d%s spent: %v", e.Restarts, within, e.Last)
}

// Is reports whether the error is target in one of the ways that the type's comment lists.
func (e *ExhaustedError) Is(target error) bool {
	return target == ErrClosed || matchesRefusal(target) || target != io.EOF && errors.Is(e.Last, target)
}

// As finds target in Last: the way to the exit of the last process.
func (e *ExhaustedError) As(target any) bool { return errors.As(e.Last, target) }

// sentAndExhausted is e for a call that had been sent: it may have run.
func sentAndExhausted(e *ExhaustedError) error { return &sentExhausted{e} }

type sentExhausted struct{ *ExhaustedError }

func (e *sentExhausted) Unwrap() []error { return []error{e.ExhaustedError, ErrPeerLost} }

// Is is ErrPeerLost's; the rest is found by unwrapping.
func (e *sentExhausted) Is(target error) bool { return target == ErrPeerLost }

// As leaves the search to unwrapping, which finds the *ExhaustedError itself first.
func (e *sentExhausted) As(any) bool { return false }

// An endError is the end of a peer of which two things are known: what was seen first, and how its process
// ended.
type endError struct{ first, exit error }

func (e *endError) Error() string   { return fmt.Sprintf("%v (%v)", e.first, e.exit) }
func (e *endError) Unwrap() []error { return []error{e.first, e.exit} }

// join returns what is known of a peer's end from what was seen first and the end of its process, either of
// which may be nil.
func join(first, exit error) error {
	switch {
	case first == nil, first == io.EOF && exit != nil:
		return exit
	case exit == nil, errors.Is(first, exit):
		return first
	}
	return &endError{first, exit}
}

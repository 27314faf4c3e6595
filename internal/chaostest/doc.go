// Package chaostest breaks server processes on purpose, at any moment and in any way, under a client that goes on
// working, and then proves from two sets of books that nothing was lost, doubled or left behind.
//
// A [Round] is one transport with one session of the SDK's client above it. Its callers mix reads, which are kept
// over a death, with tools, which are not; streams are open meanwhile. The servers are processes of this package's
// own (the binary is run again, see [Play]), written by hand at the lowest level, so that each byte of theirs is
// accounted for. Each life has a [Plan], drawn from the seed: what goes wrong with it, at which request, and at
// which point of handling that.
//
// A server writes down what it does before it lets anybody know (the ledger), and the client's side what it asked
// for and got (the book). Both are files that are only ever appended to, so that they outlive any death and cost no
// memory. When the round is over, [Judge] reads them side by side:
//
//   - each request that was written was answered exactly once, and each that was refused not at all;
//   - each answer is that of its own call;
//   - no tool ran twice, ever; one that was answered ran, and one that was refused with ErrReconnecting did not;
//   - no kept read failed but by its caller's own context; none was sent again after it was answered, nor twice to
//     one server;
//   - each notification of a stream was delivered at most once, and at least once where its server sent it between
//     its acknowledgement and its last answer to a call;
//   - no two servers lived at once;
//   - after Close no process is left, no descriptor, no goroutine, and no timer that holds anything.
//
// The seed fixes the plans and what callers ask for. It does not fix the schedule of the processes involved, so a
// run with the same seed is like another one and not the same.
//
// It runs on Unix. Its commands are cmd/chaos, a [Campaign], and cmd/soak, a [Soak].
package chaostest

// Package fsm writes a lifecycle as one table of guarded transitions, and
// checks, runs and lists it.
//
// # The table
//
// A [Table] says, for each state, what each event leads to. States and events
// are typed, usually small integers with a String method; the literal is keyed,
// so that it stays a table under gofmt, a pair written twice does not compile,
// and the exhaustive linter can name a state that was forgotten:
//
//	fsm.Table[State, Event]{
//		Idle: {
//			Dial:  {{To: Dialing}},
//			Close: {{To: Closed}},
//		},
//		Dialing: {
//			Failed: {
//				{Guard: "attempts left", To: Dialing, Hooks: []string{"report"}},
//				{To: Closed, Hooks: []string{"report", "give up"}},
//			},
//			Close: {{To: Closed}},
//		},
//	}
//
// An event leads to a [Choice]: an ordered list of branches, of which the first
// whose guard holds is taken. The last branch has no guard; it is the else, so
// that a choice always decides. Guards and hooks are names. What a guard asks is
// given to the machine; what a hook does is the caller's affair entirely: the
// machine returns the [Row] that it took, and the caller runs the hooks it names,
// when and where it likes. A table therefore holds no code, and the same value
// can be drawn, printed, walked by a test and run.
//
// [Table.Rows] lists a table line by line in a stable order, and [Table.Next] is
// the whole semantics as a pure function. Package fsmtest compares a table with a
// matrix that was written by hand.
//
// # The check
//
// [Table.Check] reports everything that is wrong with a table, all of it at
// once: a choice with no else, a state that nothing leads to or that no end can
// be reached from, a way out of an end, an event that has to be accepted
// everywhere and is not. [Compile] runs it first; a machine never runs a table
// with a hole in it. Many machines may run one [Program].
//
// # The machine
//
// A [Machine] runs a table on github.com/looplab/fsm. That package knows no
// guards, and some of its corners are sharp: it hangs when an event is fired
// from a callback at the wrong moment, and stays wedged after a callback panics
// or a context ends. The machine stays clear of them. It registers no callback
// and hands in no context that could end, each row has an event name of its own
// in there, and guards are evaluated before it is called. What is left is
// [Machine.Fire], which is one goroutine's at a time and says so with [ErrBusy]
// rather than waiting, and [Machine.State], which anyone may call at any time.
package fsm

// Package budget decides how many times a peer that dies may be replaced, and
// how soon.
//
// A supervisor asks its [Budget] once for each death, before anything is
// restarted. These are here:
//
//   - [Tumbling]: so many restarts in a window that opens at the first of them.
//     The default of most supervisors, and enough for most servers.
//   - [Sliding]: never more than so many in any window.
//   - [Streak]: so many in a row, forgiven after a stretch of uptime.
//   - [Backoff]: a delay that doubles, with jitter, and no limit.
//   - [All]: several of these at once. A short window stops a crash loop and a
//     longer one beside it a slow crash loop, of which the short one sees nothing.
//
// Anything else is a Budget of one's own:
//
//	type patient struct{}
//
//	func (patient) Spend(d budget.Death) (budget.Grant, bool) {
//		return budget.Grant{Delay: time.Minute}, true // for ever
//	}
//
// All of them are safe for concurrent use and may be shared by several
// supervisors. A refusal changes nothing in any of them.
//
// Nothing in this package reads a clock. A death carries the time at which it
// happened, so that a test decides, to the nanosecond, what lies inside a window.
package budget

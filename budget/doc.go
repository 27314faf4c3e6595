// Package budget decides how many times a peer that dies may be replaced, and
// how soon.
//
// A supervisor asks its [Budget] once for each death, before anything is
// restarted. [Tumbling] is the budget that most supervisors want: so many
// restarts in a window of time, each after the same delay. Anything else, an
// exponential delay or a quota for a whole host, is a Budget of one's own:
//
//	type patient struct{}
//
//	func (patient) Spend(d budget.Death) (budget.Grant, bool) {
//		return budget.Grant{Delay: time.Minute}, true // for ever
//	}
//
// Nothing in this package reads a clock. A death carries the time at which it
// happened, so that a test decides, to the nanosecond, what lies inside a window.
package budget

// Package bench measures supervised and stdio against what a user would use instead, and against the limits that
// nobody gets below: a bare pipe for messages, the system's own calls for deaths and starts.
//
// A [Contest] is one load and those who carry it, its contenders. They take turns, A B C A B C, each turn with a
// child process of its own that was started for it, so that what disturbs the machine disturbs them all alike. A
// [Row] of the table sets two contenders of a contest against each other and says what is required of the two. A
// row compares what was measured next to each other, turn by turn: the ratio is the median of the turns' ratios.
// Times are never compared across runs.
//
// The program cmd/compare runs the contests and prints the table; docs/performance.md has it. The benchmarks of
// this package are the same loads under go test -bench.
package bench

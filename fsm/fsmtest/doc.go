// Package fsmtest compares a table of package fsm with a matrix that was written
// by hand, so that the table is not its own oracle.
//
// A [Matrix] says for each state, each event and each valuation of the guards
// where that leads and which hooks it names, or that it is refused. [Compare]
// reports all that is wrong at once: where the table differs, as a diff; which
// cells the matrix leaves out; and which rows of the table no cell takes. A test
// of one's own table is the matrix and this:
//
//	if err := fsmtest.Compare(table, matrix).Err(); err != nil {
//		t.Error(err)
//	}
//
// [CompareFunc] asks something else than a table, cell by cell: a machine that
// runs one, or another implementation of the same lifecycle.
package fsmtest

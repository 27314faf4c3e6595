//go:build unix

package chaostest

import (
	"errors"
	"strings"
	"testing"
)

// TestJudge: books in order are found in order, and each thing that can be wrong in them is seen. What is wrong is one
// line more, or another in place of one.
func TestJudge(t *testing.T) {
	ledger := []string{
		"b 0 100", "k 0 1 chaos://stay-0", "k 0 2 chaos://sdk-0",
		"x 0 1", "u 0 4 chaos://stay-0/0/1", "u 0 5 chaos://sdk-0/0/2", "r 0 2", "r 0 3", "x 0 4",
		"b 1 101", "r 1 3", "x 1 5", "u 1 9 chaos://stay-0/1/1",
		"q 1 7", "p 1 7",
	}
	book := []string{
		"w 1 1", "w 2 1", "w 3 1", "w 4 1", "w 5 1", "w 6 0", "l 7",
		"a 1", "a 2", "a 3", "a 4", "a 5", "a 7",
		"c 1 tool answered 0 3", "c 2 read answered 0 6", "c 3 read answered 1 1", "c 4 tool lost -1 0",
		"c 5 tool answered 1 2", "c 6 tool refused -1 0", "c 8 tool answered 0 7", "c 9 read impatient -1 0",
		"d chaos://stay-0/0/1", "d chaos://sdk-0/0/2", "s",
	}
	ledger = append(ledger, "x 0 8")
	for _, tt := range []struct {
		name              string
		ledger, notLedger string
		book, notBook     string
		wrong             string // empty: nothing is
	}{
		{name: "in order"},
		{name: "a notification behind the last answer is lost", ledger: "u 0 8 chaos://stay-0/0/3"},
		{name: "one before the acknowledgement is lost", ledger: "u 0 1 chaos://sdk-0/0/9"},
		{name: "one of a stream that comes and goes is lost", ledger: "u 0 4 chaos://passing-1/0/3"},

		{name: "a tool ran twice", ledger: "x 1 1", notBook: "c 1 tool answered 0 3", book: "c 1 tool answered 1 3", wrong: "tool call 1 ran in the lives [0 1]"},
		{name: "a lost tool ran twice", ledger: "x 1 4", wrong: "tool call 4 ran in the lives [0 1]"},
		{name: "a refused tool ran", ledger: "x 1 6", wrong: "call 6 (tool) was refused, and ran in the lives [1]"},
		{name: "an answered tool did not run", notLedger: "x 0 1", wrong: "call 1 (tool) was answered by life 0, and ran in the lives []"},
		{name: "a read was sent again after its answer", ledger: "r 1 2", wrong: "call 2 (read) was answered by life 0, and ran in the lives [0 1]"},
		{name: "a read was sent to one server twice", ledger: "r 1 3", wrong: "call 3 (read) ran in the lives [0 1 1]"},
		{name: "a call was not answered", notBook: "a 4", wrong: "request 4: written 1 times, answered 0"},
		{name: "a call was answered twice", book: "a 4", wrong: "request 4: written 1 times, answered 2"},
		{name: "a refused call was answered", book: "a 6", wrong: "request 6: written 0 times, answered 1"},
		{name: "an answer to nothing", book: "a 99", wrong: "request 99: written 0 times, refused 0, answered 1"},
		{name: "an id is used twice", book: "w 3 1", wrong: "request 3: written 2 times"},
		{name: "a listen is answered twice", book: "a 7", wrong: "request 7"},
		{name: "a call ended twice", book: "c 1 tool lost -1 0", wrong: "call 1 ended twice"},
		{name: "a call never ended", notBook: "c 4 tool lost -1 0", wrong: "call 4 ran in the lives [0], and never ended"},
		{name: "a notification is lost", notBook: "d chaos://sdk-0/0/2", wrong: "chaos://sdk-0/0/2 was sent as line 5, between the acknowledgement, line 2, and an answer, line 7"},
		{name: "one of a stream is lost", notBook: "d chaos://stay-0/0/1", wrong: "chaos://stay-0/0/1 was sent as line 4"},
		{name: "a notification came twice", book: "d chaos://stay-0/0/1", wrong: "chaos://stay-0/0/1 was delivered 2 times"},
		{name: "a notification of nobody's", book: "d chaos://stay-0/0/77", wrong: "chaos://stay-0/0/77 was delivered and never sent"},
		{name: "two servers at once", ledger: "o 1", wrong: "life 1 began while another server lived"},
		{name: "a server cannot read what it is sent", ledger: "e 1 unexpected end", wrong: "life 1 says: unexpected end"},
		{name: "an answer to a request of a life before", ledger: "p 0 7", wrong: "life 0 got an answer to 7, which it had not asked"},
		{name: "two answers to one request", ledger: "p 1 7", wrong: "life 1 got two answers to its request 7"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBooks()
			for _, line := range lines(book, tt.book, tt.notBook) {
				b.bookLine(strings.Fields(line))
			}
			for _, line := range lines(ledger, tt.ledger, tt.notLedger) {
				b.ledgerLine(strings.Fields(line))
			}
			b.check()
			err := errors.Join(b.wrong...)
			switch {
			case tt.wrong == "" && err != nil:
				t.Errorf("found %v", err)
			case tt.wrong != "" && (err == nil || !strings.Contains(err.Error(), tt.wrong)):
				t.Errorf("found %v, want %s", err, tt.wrong)
			}
		})
	}
}

// lines is all of them, one more, and without one.
func lines(all []string, more, without string) []string {
	var got []string
	for _, line := range all {
		if line != without {
			got = append(got, line)
		}
	}
	if more != "" {
		got = append(got, more)
	}
	return got
}

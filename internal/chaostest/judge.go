//go:build unix

package chaostest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"strconv"
	"strings"
	"time"
)

// A call as both books have it.
type entry struct {
	kind, end string
	life, seq int
	ran       []int // the lives that executed it, in order
}

// A request as the tap saw it.
type passage struct {
	written, refused, listen, answers int
}

// books is what stands in the files of a round.
type books struct {
	calls    map[int64]*entry
	requests map[string]*passage
	sent     map[string]sending     // by URI
	got      map[string]int         // by URI
	acked    map[string]map[int]int // by feed, life: the number of the acknowledgement's line
	asked    map[string]int         // requests of servers, by life and id
	last     map[int]int            // by life: the line of the last answer that says that the life has served
	settled  map[int]int            // the same, as it was when the round began to settle; nil before
	wrong    []error
	executed int
	upcalls  int
}

type sending struct {
	feed      string
	life, seq int
}

func newBooks() *books {
	return &books{
		calls: make(map[int64]*entry), requests: make(map[string]*passage), sent: make(map[string]sending),
		got: make(map[string]int), acked: make(map[string]map[int]int), asked: make(map[string]int), last: make(map[int]int),
	}
}

// books reads the two.
func (r *run) books() (*books, error) {
	r.book.mu.Lock()
	err := r.out.Flush()
	r.book.mu.Unlock()
	b := newBooks()
	return b, errors.Join(err, b.read(r.path("book"), "", b.bookLine), b.read(r.path("ledger"), endMark, b.ledgerLine))
}

// judge waits until all that is owed has been delivered, closes the book, and compares the two.
func (r *run) judge() (Figures, error) {
	var b *books
	// The SDK calls handlers from a queue of its own: what was read last may be delivered a moment later.
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		var err error
		if b, err = r.books(); err != nil {
			return Figures{}, err
		}
		if len(b.missing(anyFeed)) == 0 || time.Now().After(deadline) {
			break
		}
	}
	if err := r.book.close(); err != nil {
		return Figures{}, err
	}
	b.check()
	r.planMu.Lock() // Close does not wait for a factory
	faults := maps.Clone(r.faults)
	r.planMu.Unlock()
	f := Figures{
		Rounds: 1, Calls: int(r.written.Load()), Refused: int(r.refused.Load()), Ends: make(map[string]int),
		Deaths: int(r.deaths.Load()), Attempts: int(r.failed.Load()), Faults: faults,
		Executions: b.executed, Notifications: len(b.sent), Delivered: len(b.got), Upcalls: b.upcalls,
	}
	for _, c := range b.calls {
		f.Ends[c.kind+" "+c.end]++
		if len(c.ran) > 1 {
			f.Resent += len(c.ran) - 1
		}
	}
	for _, s := range b.sent {
		if b.owed(s) {
			f.Owed++
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return f, errors.Join(append(r.faulty, b.wrong...)...)
}

// read reads the lines that end with mark.
func (b *books) read(name, mark string, take func(words []string)) error {
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	for lines := bufio.NewReader(file); ; {
		line, err := lines.ReadString('\n')
		switch {
		case err == io.EOF: // what is behind the last newline is still being written
			return nil
		case err != nil:
			return err
		}
		line, whole := strings.CutSuffix(line[:len(line)-1], mark)
		if words := strings.Fields(line); whole && len(words) > 0 {
			take(words)
		}
	}
}

func (b *books) bad(format string, args ...any) {
	if len(b.wrong) < 50 {
		b.wrong = append(b.wrong, fmt.Errorf(format, args...))
	}
}

func number(word string) int {
	n, err := strconv.Atoi(word)
	if err != nil {
		panic(err) // a fault of this package
	}
	return n
}

func (b *books) call(word string) *entry {
	n := int64(number(word))
	c := b.calls[n]
	if c == nil {
		c = &entry{life: -1}
		b.calls[n] = c
	}
	return c
}

func (b *books) ledgerLine(words []string) {
	switch words[0] {
	case "x", "r":
		b.executed++
		c := b.call(words[2])
		c.ran = append(c.ran, number(words[1]))
	case "k":
		feed := words[3]
		if b.acked[feed] == nil {
			b.acked[feed] = make(map[int]int)
		}
		b.acked[feed][number(words[1])] = number(words[2])
	case "u":
		uri := words[3]
		feed := uri[:strings.LastIndexByte(uri[:strings.LastIndexByte(uri, '/')], '/')]
		b.sent[uri] = sending{feed, number(words[1]), number(words[2])}
	case "q":
		b.upcalls++
		b.asked[words[1]+" "+words[2]] = 1
	case "p":
		key := words[1] + " " + words[2]
		switch b.asked[key] {
		case 0:
			b.bad("life %s got an answer to %s, which it had not asked", words[1], words[2])
		case 1:
			b.asked[key] = 2
		default:
			b.bad("life %s got two answers to its request %s", words[1], words[2])
		}
	case "o":
		b.bad("life %s began while another server lived", words[1])
	case "e":
		b.bad("life %s says: %s", words[1], strings.Join(words[2:], " "))
	}
}

func (b *books) bookLine(words []string) {
	switch words[0] {
	case "w", "l", "a":
		p := b.requests[words[1]]
		if p == nil {
			p = new(passage)
			b.requests[words[1]] = p
		}
		switch {
		case words[0] == "a":
			p.answers++
		case words[0] == "l":
			p.listen++
		case words[2] == "1":
			p.written++
		default:
			p.refused++
		}
	case "c":
		c := b.call(words[1])
		if c.end != "" {
			b.bad("call %s ended twice", words[1])
		}
		c.kind, c.end, c.life, c.seq = words[2], words[3], number(words[4]), number(words[5])
		if c.kind == "tool" && c.end == endAnswered { // only a server that serves is sent a tool call
			b.last[c.life] = max(b.last[c.life], c.seq)
		}
	case "d":
		b.got[words[1]]++
	case "s":
		b.settled = maps.Clone(b.last)
	}
}

func (b *books) check() {
	for id, p := range b.requests {
		switch {
		case p.listen > 0 && p.answers <= 1:
		case p.written+p.refused != 1:
			b.bad("request %s: written %d times, refused %d, answered %d", id, p.written, p.refused, p.answers)
		case p.answers != p.written:
			b.bad("request %s: written %d times, answered %d", id, p.written, p.answers)
		}
	}
	for n, c := range b.calls {
		b.checkCall(n, c)
	}
	for uri, times := range b.got {
		if _, ok := b.sent[uri]; !ok {
			b.bad("%s was delivered and never sent", uri)
		}
		if times > 1 {
			b.bad("%s was delivered %d times", uri, times)
		}
	}
	for _, uri := range b.missing(anyFeed) {
		s := b.sent[uri]
		b.bad("%s was sent as line %d, between the acknowledgement, line %d, and an answer, line %d, and not delivered",
			uri, s.seq, b.acked[s.feed][s.life], b.last[s.life])
	}
}

func (b *books) checkCall(n int64, c *entry) {
	switch {
	case c.end == "":
		b.bad("call %d ran in the lives %v, and never ended for its caller", n, c.ran)
	case (c.end == endRefused || c.end == endUnsent) && len(c.ran) > 0:
		b.bad("call %d (%s) was %s, and ran in the lives %v", n, c.kind, c.end, c.ran)
	case c.end == endAnswered && (len(c.ran) == 0 || c.ran[len(c.ran)-1] != c.life):
		b.bad("call %d (%s) was answered by life %d, and ran in the lives %v", n, c.kind, c.life, c.ran)
	case c.kind == "tool" && len(c.ran) > 1:
		b.bad("tool call %d ran in the lives %v", n, c.ran)
	}
	for i := 1; i < len(c.ran); i++ {
		if c.ran[i] <= c.ran[i-1] {
			b.bad("call %d (%s) ran in the lives %v", n, c.kind, c.ran)
		}
	}
}

// What a feed is called by.
const (
	anyFeed     = "chaos://"
	ownFeed     = "chaos://stay-"    // of a stream that is open all the time
	passingFeed = "chaos://passing-" // of one that is closed at any time
)

// owed reports whether what was sent must have been delivered.
func (b *books) owed(s sending) bool {
	ack, ok := b.acked[s.feed][s.life]
	last := b.last
	if strings.HasPrefix(s.feed, ownFeed) {
		last = b.settled
	}
	return ok && ack < s.seq && s.seq < last[s.life] && !strings.HasPrefix(s.feed, passingFeed)
}

// missing returns what was owed to the feeds of this prefix and not delivered.
func (b *books) missing(prefix string) []string {
	var missing []string
	for uri, s := range b.sent {
		if b.got[uri] == 0 && b.owed(s) && strings.HasPrefix(s.feed, prefix) {
			missing = append(missing, uri)
		}
	}
	return missing
}

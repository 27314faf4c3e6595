package fsmtest

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// maxGuards bounds the valuations of one state and event to 65,536.
const maxGuards = 16

// Matrix is a lifecycle written out by hand. The zero value has no cells.
type Matrix struct {
	// Guards are the columns of a pattern in Lines, in their order, at most 16.
	Guards []string

	// Lines has on each line a state, an event, a pattern of the guards, and what
	// comes of it: the next state and the hooks in order, or the word refused.
	//
	//	locked   unlock  1  closed  click
	//	locked   unlock  0  locked  alarm
	//	locked   push    -  refused
	//
	// A pattern has a character for each guard: 1 where it holds, 0 where it does
	// not, - where either is meant. A single - means any, whatever the number of
	// guards. A cell is on one line, so the order of the lines means nothing.
	//
	// States, events and hooks are written as they print. One that is empty, has
	// white space, a quote or a leading # in it, or is the word refused, is quoted
	// as a Go string. A line that begins with # is a comment; empty lines are
	// ignored.
	Lines string
}

// Outcome is what a cell leads to.
type Outcome struct {
	// Refused: the state does not accept the event. To and Hooks are empty then.
	Refused bool
	// To is the next state, as it prints.
	To string
	// Hooks are what the step names, in order; none is nil.
	Hooks []string

	failure string // the text of an error that is no refusal
}

// String returns the outcome as a line of a [Matrix] has it.
func (o Outcome) String() string {
	switch {
	case o.failure != "":
		return "error: " + o.failure
	case o.Refused:
		return refused
	}
	return words(append([]string{o.To}, o.Hooks...)...)
}

func (o Outcome) equal(other Outcome) bool {
	return o.Refused == other.Refused && o.To == other.To && o.failure == other.failure &&
		slices.Equal(o.Hooks, other.Hooks)
}

// refused is the word for an outcome that is no state.
const refused = "refused"

// A line is one line of a matrix, read.
type line struct {
	number       int
	state, event string
	masked
	want Outcome
}

// read returns the lines, and what is wrong with those that it leaves out.
func (m Matrix) read() (lines []line, faults []string) {
	if len(m.Guards) > maxGuards {
		return nil, []string{fmt.Sprintf("%d guards are too many, %d are the limit", len(m.Guards), maxGuards)}
	}
	for i, guard := range m.Guards {
		if slices.Contains(m.Guards[:i], guard) {
			faults = append(faults, fmt.Sprintf("the guard %q has two columns", guard))
		}
	}
	number := 0
	for text := range strings.Lines(m.Lines) {
		number++
		l, err := m.readLine(text)
		switch {
		case err != nil:
			faults = append(faults, fmt.Sprintf("line %d: %v", number, err))
		case l != nil:
			l.number = number
			lines = append(lines, *l)
		}
	}
	for i, a := range lines {
		for _, b := range lines[:i] {
			if a.state == b.state && a.event == b.event && (a.truth^b.truth)&a.care&b.care == 0 {
				both := masked{a.care | b.care, a.truth | b.truth}
				faults = append(faults, fmt.Sprintf("lines %d and %d: both have %s %s",
					b.number, a.number, words(a.state, a.event), m.pattern(both)))
			}
		}
	}
	return lines, faults
}

// readLine reads one line; nil: it says nothing.
func (m Matrix) readLine(text string) (*line, error) {
	fields, err := split(text)
	switch {
	case err != nil:
		return nil, err
	case len(fields) == 0:
		return nil, nil
	case len(fields) < 4:
		return nil, errors.New("want a state, an event, a pattern of the guards and a next state")
	}
	l := &line{state: fields[0].text, event: fields[1].text, want: Outcome{To: fields[3].text}}
	if l.masked, err = m.readPattern(fields[2].text); err != nil {
		return nil, err
	}
	for _, hook := range fields[4:] {
		l.want.Hooks = append(l.want.Hooks, hook.text)
	}
	if to := fields[3]; to.text == refused && !to.quoted {
		if l.want.Hooks != nil {
			return nil, errors.New("what is refused names no hooks")
		}
		l.want = Outcome{Refused: true}
	}
	return l, nil
}

// A word is a field of a line.
type word struct {
	text   string
	quoted bool
}

// split returns the fields of a line, none for a comment.
func split(text string) (fields []word, err error) {
	for {
		text = strings.TrimLeftFunc(text, unicode.IsSpace)
		switch {
		case text == "", text[0] == '#' && len(fields) == 0:
			return fields, nil
		case text[0] == '"':
			quoted, err := strconv.QuotedPrefix(text)
			if err != nil {
				return nil, errors.New("a quote is not closed")
			}
			plain, err := strconv.Unquote(quoted)
			if err != nil {
				return nil, err
			}
			fields, text = append(fields, word{plain, true}), text[len(quoted):]
		default:
			end := strings.IndexFunc(text, unicode.IsSpace)
			if end < 0 {
				end = len(text)
			}
			fields, text = append(fields, word{text[:end], false}), text[end:]
		}
	}
}

// words is what split reads.
func words(names ...string) string {
	written := make([]string, len(names))
	for i, name := range names {
		written[i] = name
		special := func(r rune) bool { return unicode.IsSpace(r) || r == '"' || !unicode.IsPrint(r) }
		if name == "" || name == refused || name[0] == '#' || strings.ContainsFunc(name, special) {
			written[i] = strconv.Quote(name)
		}
	}
	return strings.Join(written, " ")
}

package fsmtest

import (
	"fmt"
	"math/bits"
	"strings"
)

// masked is a set of valuations: those with truth in the guards of care, and anything in the others. Guard i of the
// matrix is bit i. The zero value is all of them.
type masked struct{ care, truth uint }

// has reports whether the valuation v is in the set.
func (m masked) has(v uint) bool { return v&m.care == m.truth }

// and returns the part of m in which guard, a bit, holds or does not.
func (m masked) and(guard uint, holds bool) masked {
	m.care |= guard
	if holds {
		m.truth |= guard
	}
	return m
}

// readPattern reads what pattern writes.
func (m Matrix) readPattern(pattern string) (masked, error) {
	all := masked{}
	if pattern == "-" {
		return all, nil
	}
	if len(pattern) != len(m.Guards) {
		return all, fmt.Errorf("the pattern %s is not of the length of the guards, %d", pattern, len(m.Guards))
	}
	set := all
	for i, c := range pattern {
		switch c {
		case '1', '0':
			set = set.and(1<<i, c == '1')
		case '-':
		default:
			return all, fmt.Errorf("the pattern %s has a %q; it is made of 1, 0 and -", pattern, c)
		}
	}
	return set, nil
}

// pattern returns a set as a line has it.
func (m Matrix) pattern(set masked) string {
	if set.care == 0 {
		return "-"
	}
	p := []byte(strings.Repeat("-", len(m.Guards)))
	for i := range p {
		if set.care>>i&1 == 1 {
			p[i] = '0' + byte(set.truth>>i&1)
		}
	}
	return string(p)
}

// subsets goes through all valuations of guards.
func subsets(guards uint) func(yield func(uint) bool) {
	return func(yield func(uint) bool) {
		for v := uint(0); yield(v); {
			if v = (v - guards) & guards; v == 0 {
				return
			}
		}
	}
}

// cover returns few sets that have the valuations of guards in them that are given, each in one of the sets, and no
// others. They are parts of within, which has the other guards decided.
func cover(valuations []uint, guards uint, within masked) []masked {
	switch len(valuations) {
	case 0:
		return nil
	case 1 << bits.OnesCount(guards):
		return []masked{within}
	}
	// Divide by a guard of which one side is done at once, if there is one.
	var by uint
	var sides [2][]uint
	for rest := guards; rest != 0; rest &= rest - 1 {
		guard := rest & -rest
		var s [2][]uint
		for _, v := range valuations {
			if v&guard != 0 {
				s[1] = append(s[1], v)
			} else {
				s[0] = append(s[0], v)
			}
		}
		half := 1 << (bits.OnesCount(guards) - 1)
		decided := len(s[0])%half == 0 || len(s[1])%half == 0
		if by == 0 || decided {
			by, sides = guard, s
		}
		if decided {
			break
		}
	}
	rest := guards &^ by
	return append(cover(sides[1], rest, within.and(by, true)), cover(sides[0], rest, within.and(by, false))...)
}

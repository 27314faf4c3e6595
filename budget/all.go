package budget

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"
)

// All is several budgets at once: a restart is granted if every one of them
// grants it, and is then spent in each. If one refuses, nothing is spent in any:
// the members are first asked what they would answer, and spend only where all
// agree, with all of them locked meanwhile. So a budget that many supervisors
// share, beside one of each supervisor's own, loses nothing to those whose own is
// spent.
//
//	short := NewSliding(3, time.Minute, 0)    // stops a crash loop
//	long := NewSliding(10, time.Hour, 0)      // stops a slow one
//	delay := NewBackoff(100*time.Millisecond, 30*time.Second)
//	all := NewAll(short, long, delay)         // errors are left out here
//
// A refusal comes with the grant of the member that refused, the first of them in
// the order of NewAll where several do: Attempt, Max and Window are its figures,
// and tell which it was. A restart that is granted comes with the figures of the
// member that has the fewest left, Max − Attempt, the first of them where there
// are several; a member without a Max counts only where none has one. Its delay
// is the longest that a member gives.
//
// The members stay budgets of their own: each may be a member of other Alls, and
// be asked by itself. A death is spent once in a member that is there twice.
//
// A budget from elsewhere can only be asked by spending. There may be one of
// them: it is asked last, when all others would grant, so that nothing is spent
// where it refuses. It is asked with the others locked, and so must not ask a
// budget that is a member of an All.
//
// An All is safe for concurrent use if its members are. The zero value grants
// every restart at once.
type All struct {
	members []Budget // in the order given, Alls among them resolved
	locks   []*guard // of those of this package, in the order of their places
}

// NewAll returns the budget that grants what all of these grant. There must be at
// least one, none nil, and at most one that is not of this package. The error
// says which is wrong, counted from 1.
func NewAll(budgets ...Budget) (*All, error) {
	if len(budgets) == 0 {
		return nil, errors.New("budget: NewAll of no budgets: want at least 1")
	}
	a := new(All)
	stranger := 0 // the number of the argument that has one; 0: none yet
	for i, b := range budgets {
		if isNil(b) {
			return nil, fmt.Errorf("budget: NewAll: budget %d is nil", i+1)
		}
		for _, m := range flatten(b) {
			if a.has(m) {
				continue
			}
			if l, ours := m.(limit); ours {
				a.locks = append(a.locks, l.guard())
			} else if stranger > 0 {
				return nil, fmt.Errorf("budget: NewAll: budgets %d (%T) and %d (%T) can be asked only by spending: want at most one such",
					stranger, budgets[stranger-1], i+1, b)
			} else {
				stranger = i + 1
			}
			a.members = append(a.members, m)
		}
	}
	slices.SortFunc(a.locks, func(x, y *guard) int { return cmp.Compare(x.place(), y.place()) })
	return a, nil
}

// flatten returns the members of an All, and any other budget as it is.
func flatten(b Budget) []Budget {
	if all, ok := b.(*All); ok {
		return all.members
	}
	return []Budget{b}
}

// has reports whether b is a member already. Budgets that cannot be compared are
// taken for different ones.
func (a *All) has(b Budget) bool {
	return reflect.ValueOf(b).Comparable() && slices.Contains(a.members, b)
}

// isNil reports whether b is nil or holds a nil pointer.
func isNil(b Budget) bool {
	if b == nil {
		return true
	}
	v := reflect.ValueOf(b)
	return v.Kind() == reflect.Pointer && v.IsNil()
}

// Spend implements [Budget].
func (a *All) Spend(d Death) (Grant, bool) {
	for _, l := range a.locks {
		l.Lock()
		defer l.Unlock()
	}

	for _, m := range a.members {
		if l, ours := m.(limit); ours {
			if refusal, granted := l.look(d); !granted {
				return refusal, false
			}
		}
	}
	grants := make([]Grant, len(a.members))
	for i, m := range a.members {
		if _, ours := m.(limit); ours {
			continue
		}
		var granted bool
		if grants[i], granted = m.Spend(d); !granted {
			return grants[i], false
		}
	}
	for i, m := range a.members {
		if l, ours := m.(limit); ours {
			grants[i] = l.take(d)
		}
	}
	return merge(grants), true
}

// merge returns the grant that stands for all of these.
func merge(grants []Grant) Grant {
	if len(grants) == 0 {
		return Grant{}
	}
	tightest := grants[0]
	delay := time.Duration(0)
	for _, g := range grants {
		if g.Max > 0 && (tightest.Max == 0 || g.Max-g.Attempt < tightest.Max-tightest.Attempt) {
			tightest = g
		}
		delay = max(delay, g.Delay)
	}
	tightest.Delay = delay
	return tightest
}

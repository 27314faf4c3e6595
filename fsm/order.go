package fsm

import (
	"cmp"
	"fmt"
	"iter"
	"reflect"
	"slices"
)

// ordered returns keys in the one order that every listing of a table has. A
// table is made of maps, and without it no two listings would agree.
func ordered[K comparable](keys iter.Seq[K]) []K {
	return slices.SortedFunc(keys, compare[K])
}

// compare orders integers by value, because constants are declared in the order
// in which their author thinks of them, and everything else by printed name.
// Two values that print the same are left in any order; Check refuses them.
func compare[K comparable](a, b K) int {
	// Through the pointer the value keeps its static type: for an interface type
	// that is the interface, not whatever happens to be inside.
	x, y := reflect.ValueOf(&a).Elem(), reflect.ValueOf(&b).Elem()
	switch {
	case x.CanInt():
		return cmp.Compare(x.Int(), y.Int())
	case x.CanUint():
		return cmp.Compare(x.Uint(), y.Uint())
	default:
		return cmp.Compare(fmt.Sprint(a), fmt.Sprint(b))
	}
}

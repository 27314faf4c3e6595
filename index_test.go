package supervised

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// TestRing_AsAMap: numbers as clients may count them, in flight as long as it pleases their servers.
func TestRing_AsAMap(t *testing.T) {
	for _, test := range []struct {
		name string
		next func(i int) int64
	}{
		{"neighbours", func(i int) int64 { return int64(i) }},
		{"neighbours below zero", func(i int) int64 { return int64(-i) }},
		{"neighbours at the end", func(i int) int64 { return math.MaxInt64 - int64(i) }},
		{"far from each other", func(i int) int64 { return int64(i) * ringMax }},
		{"any", func(int) int64 { return rand.Int64() - rand.Int64() }},
		{"the same again", func(int) int64 { return rand.Int64N(50) }},
	} {
		for _, inFlight := range []int{1, 5, 100, 3 * ringMax} {
			t.Run(fmt.Sprintf("%s, %d in flight", test.name, inFlight), func(t *testing.T) {
				var r ring
				want := make(map[int64]*call)
				var numbers []int64 // those that have been put, now and then one that was removed
				check := func(number int64) {
					t.Helper()
					if got := r.get(number); got != want[number] {
						t.Fatalf("call of %d: got %p, want %p", number, got, want[number])
					}
				}
				for i := range 3*inFlight + 50 {
					number := test.next(i)
					check(number)
					if want[number] == nil {
						want[number] = new(call)
						r.put(number, want[number])
						check(number)
					}
					numbers = append(numbers, number)
					if len(numbers) > inFlight {
						k := rand.IntN(min(10, len(numbers))) // mostly in order
						number, numbers = numbers[k], append(numbers[:k], numbers[k+1:]...)
						delete(want, number)
						r.remove(number)
						check(number)
					}
				}
				for number := range want {
					check(number)
					r.remove(number)
					if r.get(number) != nil {
						t.Fatalf("%d is still there", number)
					}
				}
				if r.taken != 0 || len(r.others) != 0 {
					t.Errorf("%d places are taken, %d are in the map, and it should be empty", r.taken, len(r.others))
				}
				for _, p := range r.places {
					if p.call != nil {
						t.Errorf("holds on to the call of %d", p.number)
					}
				}
			})
		}
	}
}

// TestRing_HasRoomForNeighbours: those in flight have a place each, as many as there may be; the ring of a few that are
// far from each other stays small.
func TestRing_HasRoomForNeighbours(t *testing.T) {
	var r ring
	for i := range int64(ringMax) {
		r.put(i, new(call))
	}
	if r.taken != ringMax || r.others != nil {
		t.Errorf("%d of %d neighbours have a place", r.taken, ringMax)
	}
	r = ring{}
	for i := range int64(3) {
		r.put(i*ringMax, new(call))
	}
	if len(r.places) != ringMin || len(r.others) != 2 {
		t.Errorf("3 calls have %d places, and %d are in the map", len(r.places), len(r.others))
	}
}

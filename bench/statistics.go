package bench

import (
	"cmp"
	"slices"
)

// A Spread is a median and what it lies between.
type Spread struct{ Median, Min, Max float64 }

func spread(all []float64) Spread {
	sorted := slices.Sorted(slices.Values(all))
	n := len(sorted)
	median := sorted[n/2]
	if n%2 == 0 {
		median = (sorted[n/2-1] + sorted[n/2]) / 2
	}
	return Spread{median, sorted[0], sorted[n-1]}
}

// pairwise applies f to what was measured next to each other.
func pairwise(a, b []float64, f func(a, b float64) float64) []float64 {
	out := make([]float64, min(len(a), len(b)))
	for i := range out {
		out[i] = f(a[i], b[i])
	}
	return out
}

func ratio(a, b float64) float64      { return a / b }
func difference(a, b float64) float64 { return a - b }

// rounded takes the noise of the runtime's own allocations off a count: one in fifty operations is nobody's.
func rounded(count float64) float64 {
	if whole := float64(int(count + 0.5)); cmp.Compare(max(whole-count, count-whole), 0.05) < 0 {
		return whole
	}
	return count
}

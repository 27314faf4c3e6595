package bench

import (
	"fmt"
	"time"
)

// A Quantity is what a row compares.
type Quantity struct {
	Name string
	of   func(Sample) float64
	text func(float64) string
}

// What can be compared.
var (
	Time       = Quantity{"time", func(s Sample) float64 { return s.Nanos }, nanos}
	Rate       = Quantity{"rate", func(s Sample) float64 { return 1e9 / s.Nanos }, perSecond}
	Allocs     = Quantity{"allocations", func(s Sample) float64 { return rounded(s.Allocs) }, count}
	Bytes      = Quantity{"bytes", func(s Sample) float64 { return s.Bytes }, size}
	Goroutines = Quantity{"goroutines", func(s Sample) float64 { return s.Goroutines }, count}
)

func (q Quantity) all(samples []Sample) []float64 {
	out := make([]float64, len(samples))
	for i, s := range samples {
		out[i] = q.of(s)
	}
	return out
}

func nanos(n float64) string {
	switch d := time.Duration(n); {
	case d < 10*time.Microsecond && d > -10*time.Microsecond:
		return fmt.Sprintf("%.0f ns", n)
	case d < 10*time.Millisecond && d > -10*time.Millisecond:
		return fmt.Sprintf("%.1f µs", n/1e3)
	default:
		return fmt.Sprintf("%.1f ms", n/1e6)
	}
}

func perSecond(n float64) string { return fmt.Sprintf("%.0f/s", n) }
func count(n float64) string     { return fmt.Sprintf("%.4g", n) }

func size(n float64) string {
	if n < 10<<10 {
		return fmt.Sprintf("%.0f B", n)
	}
	return fmt.Sprintf("%.1f KiB", n/(1<<10))
}

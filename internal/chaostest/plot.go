//go:build unix

package chaostest

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// The plot's measures, in its own units.
const (
	plotWidth   = 800
	plotLeft    = 60 // of the area that is drawn in
	plotRight   = 40
	plotTop     = 50
	panelHeight = 90
	panelGap    = 46
)

// Plot draws the samples as SVG, a panel for each quantity, over the time in minutes. It is readable on light ground
// and on dark.
func Plot(w io.Writer, title string, samples []Sample) error {
	var b strings.Builder
	height := plotTop + len(quantities)*(panelHeight+panelGap)
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img" aria-label="%s">
<style>
  .ground { fill: #fff } text { fill: #1f2328; font: 13px sans-serif } .small { font-size: 11px; fill: #59636e }
  .frame { fill: none; stroke: #d1d9e0 } .line { fill: none; stroke: #0969da; stroke-width: 1.5 }
  @media (prefers-color-scheme: dark) {
    .ground { fill: #0d1117 } text { fill: #f0f6fc } .small { fill: #9198a1 }
    .frame { stroke: #3d444d } .line { stroke: #4493f8 }
  }
</style>
<rect class="ground" width="%d" height="%d"/>
<text x="%d" y="24">%s</text>
`, plotWidth, height, title, plotWidth, height, plotLeft, title)
	for i, q := range quantities {
		q.panel(&b, plotTop+i*(panelHeight+panelGap), samples)
	}
	b.WriteString("</svg>\n")
	_, err := io.WriteString(w, b.String())
	return err
}

func (q quantity) panel(b *strings.Builder, top int, samples []Sample) {
	most := 0.0
	for _, s := range samples {
		most = max(most, float64(q.of(s))/q.scale)
	}
	ceiling := rounded(most)
	end := samples[len(samples)-1].At.Minutes()
	x := func(minutes float64) float64 {
		return plotLeft + minutes/end*(plotWidth-plotLeft-plotRight)
	}
	y := func(v float64) float64 { return float64(top+panelHeight) - v/ceiling*panelHeight }

	drift, mean := q.line(samples[len(samples)/10:])
	fmt.Fprintf(b, `<text x="%d" y="%d">%s</text>`+"\n", plotLeft, top-6, strings.TrimSpace(fmt.Sprintf("%s: %.1f %s in the mean, grown by %+.1f", q.name, mean, q.unit, drift)))
	fmt.Fprintf(b, `<rect class="frame" x="%d" y="%d" width="%d" height="%d"/>`+"\n", plotLeft, top, plotWidth-plotLeft-plotRight, panelHeight)
	for _, v := range []float64{0, ceiling} {
		fmt.Fprintf(b, `<text class="small" x="%d" y="%.0f" text-anchor="end">%g</text>`+"\n", plotLeft-6, y(v)+4, v)
	}
	digits := 0
	if end < 10 {
		digits = 1
	}
	for i := range 7 {
		at := end * float64(i) / 6
		minutes := strconv.FormatFloat(at, 'f', digits, 64)
		fmt.Fprintf(b, `<text class="small" x="%.0f" y="%d" text-anchor="middle">%s min</text>`+"\n", x(at), top+panelHeight+15, minutes)
	}
	b.WriteString(`<polyline class="line" points="`)
	for _, s := range samples {
		fmt.Fprintf(b, "%.1f,%.1f ", x(s.At.Minutes()), y(float64(q.of(s))/q.scale))
	}
	b.WriteString("\"/>\n")
}

// rounded is the least of 1, 2, 5, 10, 20, 50, ... that v does not exceed.
func rounded(v float64) float64 {
	step := math.Pow(10, math.Floor(math.Log10(max(v, 1))))
	for _, m := range []float64{1, 2, 5, 10} {
		if v <= m*step {
			return m * step
		}
	}
	return v
}

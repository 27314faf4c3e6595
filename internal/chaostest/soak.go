//go:build unix

package chaostest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A Soak is two rounds side by side, one of each era, that go on for a time and are weighed meanwhile.
type Soak struct {
	Seed       uint64
	For        time.Duration
	Rate       int           // calls a second, of both together
	DeathEvery time.Duration // of one of the two, in the mean
	Every      time.Duration // a sample
	Log        io.Writer     // gets a line for each sample; nil: nobody does
}

// A Sample is what the host weighs at one moment, after a garbage collection.
type Sample struct {
	At          time.Duration // since the beginning
	Heap        int           // bytes of live objects
	Resident    int           // bytes of the process; 0 where the system does not say
	Goroutines  int
	Descriptors int
	Connections int // that something holds
	Calls       int
	Deaths      int
}

// Run runs the soak. The error says what was not flat, and what was lost, doubled or left behind.
func (s Soak) Run() ([]Sample, Figures, error) {
	check := watchLeaks()
	stop := make(chan struct{})
	gauges := make(chan Gauges, 2)
	var (
		rounds  sync.WaitGroup
		figures [2]Figures
		errs    [2]error
	)
	for i := range 2 {
		dir, err := os.MkdirTemp("", "chaos")
		if err != nil {
			return nil, Figures{}, err
		}
		defer os.RemoveAll(dir)
		round := Round{
			Dir: dir, Seed: s.Seed + uint64(i), Old: i == 1, Stop: stop,
			Pace: 2 * time.Second / time.Duration(s.Rate), PerLife: max(1, int(s.DeathEvery.Seconds()*float64(s.Rate)/2)),
		}
		rounds.Go(func() {
			figures[i], errs[i] = round.run(check.anchors, func(g Gauges) { gauges <- g })
		})
	}
	samples, err := s.sample(check.anchors, [2]Gauges{<-gauges, <-gauges})
	close(stop)
	rounds.Wait()
	var sum Figures
	sum.add(figures[0])
	sum.add(figures[1])
	return samples, sum, errors.Join(err, Flat(samples), errs[0], errs[1], check.settled())
}

func (s Soak) sample(a *anchors, rounds [2]Gauges) ([]Sample, error) {
	samples := make([]Sample, 0, s.For/s.Every+2)
	began := time.Now()
	ticker := time.NewTicker(s.Every)
	defer ticker.Stop()
	for now := range ticker.C {
		if now.Sub(began) > s.For {
			break
		}
		runtime.GC() // twice: what the first has found to be unreachable, the second frees
		runtime.GC()
		var mem runtime.MemStats
		runtime.ReadMemStats(&mem)
		one := Sample{
			At: now.Sub(began).Round(time.Millisecond), Heap: int(mem.HeapAlloc), Resident: resident(),
			Goroutines: runtime.NumGoroutine(), Descriptors: descriptors(), Connections: a.count(),
			Calls: rounds[0].Calls() + rounds[1].Calls(), Deaths: rounds[0].Deaths() + rounds[1].Deaths(),
		}
		samples = append(samples, one)
		if s.Log != nil {
			if err := WriteSamples(s.Log, []Sample{one}); err != nil {
				return samples, err
			}
		}
	}
	return samples, nil
}

// resident is the memory of this process that is in use, in bytes; 0: the system does not say.
func resident() int {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	words := strings.Fields(string(text))
	if len(words) < 2 {
		return 0
	}
	pages, _ := strconv.Atoi(words[1])
	return pages * os.Getpagesize()
}

// A quantity is something of a sample that has to stay flat.
type quantity struct {
	name  string
	unit  string
	scale float64 // what one of the unit is
	of    func(Sample) int
	drift float64 // how much it may grow from the first sample that counts to the last, along the line of least squares, in units
	rise  float64 // how much any sample may be over the mean, in units
}

// The bounds of drift are small beside what a leak would make of an hour with a thousand deaths: one descriptor,
// goroutine or kilobyte for each of them is ten times as much and more. Those of rise leave room for a death in progress, with
// 64 callers that have large messages in flight.
var quantities = []quantity{
	{"heap after a collection", "MiB", 1 << 20, func(s Sample) int { return s.Heap }, 1, 16},
	{"resident memory", "MiB", 1 << 20, func(s Sample) int { return s.Resident }, 24, 96},
	{"goroutines", "", 1, func(s Sample) int { return s.Goroutines }, 8, 150},
	{"descriptors", "", 1, func(s Sample) int { return s.Descriptors }, 3, 24},
	{"connections that are held", "", 1, func(s Sample) int { return s.Connections }, 2, 8},
}

// Flat reports what of the samples grows, or has a peak. The first tenth does not count: there caches and pools fill.
func Flat(samples []Sample) error {
	count := samples[len(samples)/10:]
	if len(count) < 10 {
		return fmt.Errorf("%d samples are too few to say that anything is flat", len(samples))
	}
	var errs []error
	for _, q := range quantities {
		drift, mean := q.line(count)
		if drift > q.drift {
			errs = append(errs, fmt.Errorf("%s grow by %.2f %s, more than %g", q.name, drift, q.unit, q.drift))
		}
		for _, s := range count {
			if over := float64(q.of(s))/q.scale - mean; over > q.rise {
				errs = append(errs, fmt.Errorf("%s are %.2f %s over their mean after %v, more than %g", q.name, over, q.unit, s.At, q.rise))
				break
			}
		}
	}
	return errors.Join(errs...)
}

// line is how much the quantity grows over the samples along the line of least squares, and its mean, in units.
func (q quantity) line(samples []Sample) (drift, mean float64) {
	var n, sx, sy, sxx, sxy float64
	for _, s := range samples {
		x, y := s.At.Seconds(), float64(q.of(s))/q.scale
		n, sx, sy, sxx, sxy = n+1, sx+x, sy+y, sxx+x*x, sxy+x*y
	}
	slope := (n*sxy - sx*sy) / (n*sxx - sx*sx)
	return slope * (samples[len(samples)-1].At - samples[0].At).Seconds(), sy / n
}

// Print writes a line for each quantity: its mean, and how much it has grown.
func (q quantity) print(w io.Writer, samples []Sample) error {
	drift, mean := q.line(samples[len(samples)/10:])
	_, err := fmt.Fprintf(w, "%s: %.2f %s in the mean, grown by %+.2f\n", q.name, mean, q.unit, drift)
	return err
}

// PrintSoak writes what the samples come to.
func PrintSoak(w io.Writer, samples []Sample) error {
	for _, q := range quantities {
		if err := q.print(w, samples); err != nil {
			return err
		}
	}
	return nil
}

// WriteSamples writes a line of comma-separated numbers for each sample, in the order of its fields.
func WriteSamples(w io.Writer, samples []Sample) error {
	for _, s := range samples {
		_, err := fmt.Fprintf(w, "%.1f,%d,%d,%d,%d,%d,%d,%d\n",
			s.At.Seconds(), s.Heap, s.Resident, s.Goroutines, s.Descriptors, s.Connections, s.Calls, s.Deaths)
		if err != nil {
			return err
		}
	}
	return nil
}

// ReadSamples reads what WriteSamples has written; other lines are skipped.
func ReadSamples(r io.Reader) ([]Sample, error) {
	var samples []Sample
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		var s Sample
		var at float64
		n, _ := fmt.Sscanf(lines.Text(), "%f,%d,%d,%d,%d,%d,%d,%d",
			&at, &s.Heap, &s.Resident, &s.Goroutines, &s.Descriptors, &s.Connections, &s.Calls, &s.Deaths)
		if n == 8 {
			s.At = time.Duration(at * float64(time.Second))
			samples = append(samples, s)
		}
	}
	return samples, lines.Err()
}

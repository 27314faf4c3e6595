package bench

import (
	"fmt"
	"runtime"
	"time"
)

// A Contest is one load and its contenders, who take turns.
type Contest struct {
	Name       string
	Contenders []Contender
}

// A Contender is measured turn by turn.
type Contender struct {
	Name string
	// Turn starts what it needs, measures for about the time that the pace gives, and leaves nothing behind.
	Turn func(Pace) (Sample, error)
}

// A Pace says how much to measure.
type Pace struct {
	Turn time.Duration // a turn of a load that can be repeated at will
	Lots int           // a turn of what takes a process each time: deaths, starts
}

// Turns has the named contenders take turns, in the order that the contest has them, and returns the samples of each.
func (c *Contest) Turns(pace Pace, repetitions int, names map[string]bool) (map[string][]Sample, error) {
	samples := make(map[string][]Sample)
	for range repetitions {
		for _, contender := range c.Contenders {
			if !names[contender.Name] {
				continue
			}
			s, err := contender.Turn(pace)
			if err != nil {
				return nil, fmt.Errorf("%s: %s: %w", c.Name, contender.Name, err)
			}
			samples[contender.Name] = append(samples[contender.Name], s)
		}
	}
	return samples, nil
}

// repeated is a contender whose session can run as often as wanted. Each turn has a session of its own, warms it up
// and collects the garbage of whoever was before, so that everybody begins with the same heap.
func repeated(name string, open func() (*Session, error)) Contender {
	count := make(map[time.Duration]int) // operations of a turn, by its length: found in the first
	return Contender{Name: name, Turn: func(pace Pace) (Sample, error) {
		session, err := open()
		if err != nil {
			return Sample{}, err
		}
		n := count[pace.Turn]
		if n == 0 {
			n, err = calibrate(session, pace.Turn)
			count[pace.Turn] = n
		} else {
			err = session.Run(n/5 + 1)
		}
		var s Sample
		if err == nil {
			s, err = measure(session, n)
		}
		if closing := session.Close(); err == nil {
			err = closing
		}
		return s, err
	}}
}

// calibrate returns how often the session runs in d. That something else had the processor for a moment must not
// pass for work: a run that seems long enough is run again.
func calibrate(session *Session, d time.Duration) (int, error) {
	for n := 1; ; n *= 2 {
		best := d
		for try := 0; try < 3 && best > d/8; try++ {
			start := time.Now()
			if err := session.Run(n); err != nil {
				return 0, err
			}
			best = min(best, time.Since(start))
		}
		if best > d/8 {
			return max(n, int(float64(n)*float64(d)/float64(best))), nil
		}
	}
}

func measure(session *Session, n int) (Sample, error) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	start := time.Now()
	err := session.Run(n)
	took := time.Since(start)
	runtime.ReadMemStats(&after)
	return Sample{
		Nanos:  float64(took) / float64(n),
		Allocs: float64(after.Mallocs-before.Mallocs) / float64(n),
		Bytes:  float64(after.TotalAlloc-before.TotalAlloc) / float64(n),
	}, err
}

// Contests are all that there are.
func Contests(children *Children) []*Contest {
	var all []*Contest
	for _, load := range Loads() {
		c := &Contest{Name: load.String()}
		for _, peer := range load.Peers() {
			c.Contenders = append(c.Contenders, repeated(string(peer), func() (*Session, error) {
				return Open(children, peer, load)
			}))
		}
		all = append(all, c)
	}
	return append(all,
		deathContest(children),
		restartContest(children),
		flightContest(children),
		replayContest(children),
		idleContest(),
		transitionContest(),
	)
}

// Command compare measures supervised and stdio against their peers and prints a table of ratios. Run it in a
// directory of the module bench.
//
//	go run ./cmd/compare                                     everything
//	go run ./cmd/compare -list                               the names of the rows
//	go run ./cmd/compare -run 'pipelined, 300 B: time.*bare' the rows whose names match
//	go run ./cmd/compare -write ../docs/performance.md       everything, into the document
//	go run ./cmd/compare -short -check                       what is required, as CI checks it
//	go run ./cmd/compare -skip '^replay'                     everything but the rows whose names match
//
// A profile of -cpuprofile has a label for each contender: go tool pprof -tagfocus=contender=supervised.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"regexp"
	"runtime/pprof"
	"slices"
	"time"

	"github.com/seed7990db67/supervised/bench"
)

var (
	run         = flag.String("run", "", "only the rows whose names match this regular expression")
	skip        = flag.String("skip", "", "not the rows whose names match this regular expression; empty: none is left out")
	list        = flag.Bool("list", false, "print the names of the rows and measure nothing")
	short       = flag.Bool("short", false, "short turns, and only the rows of which something is required")
	check       = flag.Bool("check", false, "fail if a count is over its limit, or a ratio 1.5 times worse than required; what fails is measured anew, twice at most")
	repetitions = flag.Int("repetitions", 7, "how many turns each contender has")
	turn        = flag.Duration("turn", 0, "how long a turn is; 0: 200ms, or 40ms with -short")
	write       = flag.String("write", "", "the document whose table is replaced, by a whole one")
	profile     = flag.String("cpuprofile", "", "where to write a profile of the CPU")
	timeout     = flag.Duration("timeout", 10*time.Minute, "when to give up")
)

func main() {
	flag.Parse()
	if err := compare(); err != nil {
		fmt.Fprintln(os.Stderr, "compare:", err)
		os.Exit(1)
	}
}

func compare() error {
	rows, err := selected()
	if err != nil || *list {
		return err
	}
	switch {
	case *repetitions < 1:
		return errors.New("want -repetitions of 1 or more")
	case *write != "" && (*run != "" || *skip != "" || *short):
		return errors.New("-write is for the whole table: want none of -run, -skip and -short")
	}
	if *profile != "" {
		f, err := os.Create(*profile)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	children, err := bench.Build()
	if err != nil {
		return err
	}
	defer children.Remove()
	time.AfterFunc(*timeout, func() {
		_ = pprof.Lookup("goroutine").WriteTo(os.Stderr, 1)
		fmt.Fprintln(os.Stderr, "compare: not done after", *timeout)
		children.Remove()
		os.Exit(1)
	})

	load := bench.Load1()
	start := time.Now()
	verdicts, err := measure(children, rows)
	if err != nil {
		return err
	}
	var cells [][]string
	var failed []string
	for i, r := range rows {
		cells = append(cells, r.Cells(verdicts[i]))
		if !verdicts[i].Tolerable {
			failed = append(failed, r.Name())
		}
	}
	table := bench.Table(cells)
	about := fmt.Sprintf("%s. %d turns of %v each.", bench.Machine(), *repetitions, pace().Turn)
	if load != "" {
		about += fmt.Sprintf(" Load average before: %s.", load)
	}
	fmt.Printf("%s\n\n%s", about, table)
	fmt.Fprintf(os.Stderr, "measured in %v\n", time.Since(start).Round(time.Second))
	if *write != "" {
		if err := replace(*write, about+"\n\n"+table); err != nil {
			return err
		}
	}
	if *check && len(failed) > 0 {
		return fmt.Errorf("over the limit, or over 1.5 times worse than required: %q", failed)
	}
	return nil
}

// selected are the rows that are asked for.
func selected() (rows []bench.Row, err error) {
	pattern, err := regexp.Compile(*run)
	if err != nil {
		return nil, err
	}
	but, err := regexp.Compile(*skip)
	if err != nil {
		return nil, err
	}
	for _, r := range bench.Rows() {
		skipped := *skip != "" && but.MatchString(r.Name())
		if skipped || !pattern.MatchString(r.Name()) || *short && !r.Required() {
			continue
		}
		rows = append(rows, r)
		if *list {
			fmt.Println(r.Name())
		}
	}
	if len(rows) == 0 {
		return nil, errors.New("no row has such a name; -list prints the names")
	}
	return rows, nil
}

func pace() bench.Pace {
	p := bench.Pace{Turn: 200 * time.Millisecond, Lots: 20}
	if *short {
		p = bench.Pace{Turn: 40 * time.Millisecond, Lots: 5}
	}
	if *turn > 0 {
		p.Turn = *turn
	}
	return p
}

// measure has the contests of the rows run, and returns how each row stands.
func measure(children *bench.Children, rows []bench.Row) ([]bench.Verdict, error) {
	verdicts := make([]bench.Verdict, len(rows))
	for _, contest := range bench.Contests(children) {
		var mine []int // indices of rows
		for i, r := range rows {
			if r.Contest == contest.Name {
				mine = append(mine, i)
			}
		}
		label(contest)
		for attempt := 0; len(mine) > 0 && attempt < 3; attempt++ {
			names := make(map[string]bool)
			for _, i := range mine {
				names[rows[i].Ours], names[rows[i].Other] = true, true
			}
			fmt.Fprintln(os.Stderr, contest.Name)
			samples, err := contest.Turns(pace(), *repetitions, names)
			if err != nil {
				return nil, err
			}
			for _, i := range mine {
				verdicts[i] = rows[i].Judge(samples)
			}
			mine = slices.DeleteFunc(mine, func(i int) bool { return !*check || verdicts[i].Tolerable })
		}
	}
	return verdicts, nil
}

// label has the profile tell the contenders apart, the goroutines of theirs included.
func label(contest *bench.Contest) {
	for i := range contest.Contenders {
		c := &contest.Contenders[i]
		turn := c.Turn
		c.Turn = func(p bench.Pace) (s bench.Sample, err error) {
			pprof.Do(context.Background(), pprof.Labels("contender", c.Name), func(context.Context) { s, err = turn(p) })
			return s, err
		}
	}
}

// replace writes the document with what was measured in it.
func replace(path, measured string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	document, err := bench.Replace(string(text), measured)
	if err != nil {
		return err
	}
	return os.WriteFile(path, []byte(document), 0o644)
}

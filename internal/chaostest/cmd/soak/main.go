//go:build unix

// Command soak has servers die every few seconds for a long time, weighs the host meanwhile, and draws what it weighed.
// It exits with status 1 if anything grew, or was lost, doubled or left behind.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/seed7990db67/supervised/internal/chaostest"
)

func main() {
	if chaostest.Play() {
		return
	}
	s := chaostest.Soak{Log: os.Stdout}
	flag.Uint64Var(&s.Seed, "seed", uint64(time.Now().UnixNano()), "what the faults are drawn from")
	flag.DurationVar(&s.For, "for", time.Hour, "how long")
	flag.IntVar(&s.Rate, "rate", 200, "calls a second")
	flag.DurationVar(&s.DeathEvery, "death-every", 6*time.Second, "in the mean, for each of the two transports")
	flag.DurationVar(&s.Every, "every", 10*time.Second, "a sample")
	plot := flag.String("plot", "", "the SVG to write")
	from := flag.String("from", "", "draw the samples in this file, the output of a run, and run nothing")
	flag.Parse()
	if err := run(s, *plot, *from); err != nil {
		fmt.Println("WRONG:", err)
		os.Exit(1)
	}
}

func run(s chaostest.Soak, plot, from string) error {
	if from != "" {
		text, err := os.Open(from)
		if err != nil {
			return err
		}
		defer text.Close()
		samples, err := chaostest.ReadSamples(text)
		if err != nil {
			return err
		}
		return errors.Join(draw(plot, samples), chaostest.PrintSoak(os.Stdout, samples), chaostest.Flat(samples))
	}
	fmt.Printf("seed %d\n", s.Seed)
	samples, f, err := s.Run()
	f.Print(os.Stdout)
	return errors.Join(err, chaostest.PrintSoak(os.Stdout, samples), draw(plot, samples))
}

func draw(name string, samples []chaostest.Sample) error {
	if name == "" || len(samples) < 2 {
		return nil
	}
	last := samples[len(samples)-1]
	title := fmt.Sprintf("%v, %d calls, %d deaths of a server", last.At.Round(time.Minute), last.Calls, last.Deaths)
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(chaostest.Plot(io.Writer(file), title, samples), file.Close())
}

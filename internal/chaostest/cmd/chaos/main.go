//go:build unix

// Command chaos kills servers under a client that goes on working, and says what came of it. It exits with status 1
// if anything was lost, doubled or left behind.
package main

import (
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/seed7990db67/supervised/internal/chaostest"
)

func main() {
	if chaostest.Play() {
		return
	}
	c := chaostest.Campaign{Log: os.Stdout}
	flag.Uint64Var(&c.Seed, "seed", uint64(time.Now().UnixNano()), "what the faults are drawn from")
	flag.IntVar(&c.Deaths, "deaths", 200, "how many servers have to die")
	flag.IntVar(&c.Calls, "calls", 100_000, "how many calls have to be made")
	flag.IntVar(&c.Rounds, "rounds", 0, "of how many transports; 0: one for each 25 deaths")
	flag.DurationVar(&c.ConnectTimeout, "connect-timeout", time.Second, "for a replacement")
	flag.IntVar(&c.Parallel, "parallel", 1, "how many of them at a time")
	flag.Parse()

	began := time.Now()
	fmt.Printf("seed %d\n", c.Seed)
	f, err := c.Run()
	f.Print(os.Stdout)
	fmt.Printf("in %v\n", time.Since(began).Round(time.Second))
	if err != nil {
		fmt.Println("WRONG:", err)
		os.Exit(1)
	}
}

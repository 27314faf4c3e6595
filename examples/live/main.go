// Live shows two supervised servers on a web page while they run. Run it with
//
//	go run ./examples/live
//
// and open the address that it prints. One of the servers is steady, the other dies again and again, until its restart
// budget is spent; what it writes to its stderr before is on the page. The program is both sides: it starts itself
// again as the servers. Ctrl-C ends it, and them.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/signal"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed7990db67/supervised"
	"github.com/seed7990db67/supervised/live"
	"github.com/seed7990db67/supervised/stdio"
)

func main() {
	address := flag.String("http", "localhost:8080", "where to serve the page")
	life := flag.Duration("life", 5*time.Second, "how long the flaky server lives, on average")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()

	run := func() error { return showServers(ctx, *address, *life) }
	switch flag.Arg(0) {
	case "steady":
		run = func() error { return runServer(ctx, nil) }
	case "flaky":
		run = func() error { return runServer(ctx, time.After(time.Duration(rand.Float64()*2*float64(*life)))) }
	}
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

func showServers(ctx context.Context, address string, life time.Duration) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	page := live.New()
	for _, name := range []string{"steady", "flaky"} {
		server := stdio.Command{Args: []string{self, "-life", life.String(), name}}
		transport, err := supervised.New(server.Mint,
			supervised.WithMaxRestarts(20),
			supervised.WithRestartDelay(time.Second),
		)
		if err != nil {
			return err
		}
		defer transport.Close()
		page.Add(name, transport) // before Connect, to see that as well

		client := mcp.NewClient(&mcp.Implementation{Name: "live", Version: "1.0.0"}, nil)
		if _, err := client.Connect(ctx, transport, nil); err != nil {
			return err
		}
	}

	mux := http.NewServeMux()
	mux.Handle("/supervised/", page)
	mux.Handle("/{$}", http.RedirectHandler("/supervised/", http.StatusFound))
	site := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	site.RegisterOnShutdown(page.Close) // whoever watches is told; Shutdown waits for them otherwise
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	fmt.Printf("http://%s/supervised/\n", listener.Addr())

	served := make(chan error, 1)
	go func() { served <- site.Serve(listener) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return site.Shutdown(ctx)
}

// runServer is an ordinary server of the SDK. It knows nothing of supervision. It dies when it is time to.
func runServer(ctx context.Context, death <-chan time.Time) error {
	server := mcp.NewServer(&mcp.Implementation{Name: "live", Version: "1.0.0"}, nil)
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx, &mcp.StdioTransport{}) }()
	select {
	case err := <-ended:
		return err
	case <-death:
		fmt.Fprintln(os.Stderr, "I have been thinking about <b>everything</b>,")
		return errors.New("and it is too much")
	}
}

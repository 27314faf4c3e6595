package supervised_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/sirupsen/logrus"

	"github.com/seed7990db67/supervised"
	"github.com/seed7990db67/supervised/budget"
	"github.com/seed7990db67/supervised/live"
	"github.com/seed7990db67/supervised/stdio"
)

// The bodies of the examples are the code of README.md and docs/guide.md, which says what the names here are.

func Example() {
	ctx := context.Background()
	server := stdio.Command{Args: []string{"my-server", "--flag"}}
	transport, err := supervised.New(server.Mint)
	if err != nil {
		log.Fatal(err)
	}
	defer transport.Close()

	client := mcp.NewClient(&mcp.Implementation{Name: "my-app", Version: "1.0.0"}, nil)
	session, err := client.Connect(ctx, transport, nil)
	if err != nil {
		log.Fatal(err)
	}
	result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "greet"})
	fmt.Println(result, err)
}

func Example_errors() {
	transport := must(supervised.New(myServer.Mint, supervised.WithRestartDelay(time.Hour)))
	defer transport.Close()
	session := must(myClient.Connect(ctx, transport, nil))

	// The server dies while it has the call: the call may have run.
	_, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "crash"})
	fmt.Println("lost:", errors.Is(err, supervised.ErrPeerLost))
	var exit *stdio.ExitError
	if errors.As(err, &exit) {
		fmt.Printf("status %d, last words: %s", exit.Code, exit.Stderr)
	}

	// A replacement is promised, here in an hour: the call was never sent.
	_, err = session.CallTool(ctx, &mcp.CallToolParams{Name: "greet"})
	fmt.Println("refused:", errors.Is(err, supervised.ErrReconnecting))

	// Whoever does not care which it was tests for one.
	fmt.Println("no connection:", errors.Is(err, mcp.ErrConnectionClosed))
	// Output:
	// lost: true
	// status 3, last words: out of memory
	// refused: true
	// no connection: true
}

func ExampleExhaustedError() {
	transport := must(supervised.New(myServer.Mint, supervised.WithMaxRestarts(1), supervised.WithRestartDelay(0)))
	defer transport.Close()
	session := must(myClient.Connect(ctx, transport, nil))

	session.CallTool(ctx, &mcp.CallToolParams{Name: "crash"})
	transport.WaitServing(ctx)
	session.CallTool(ctx, &mcp.CallToolParams{Name: "crash"})

	// The session has ended, and says why.
	var exhausted *supervised.ExhaustedError
	if errors.As(session.Wait(), &exhausted) {
		fmt.Println(exhausted.Restarts, "restart in", exhausted.Window)
		fmt.Println("the last one ended with", exhausted.Last)
	}
	// Output:
	// 1 restart in 1m0s
	// the last one ended with stdio: exit status 3: out of memory
}

func ExampleTransport_WaitServing() {
	transport := must(supervised.New(myServer.Mint))
	defer transport.Close()
	session := must(myClient.Connect(ctx, transport, nil))

	// patient calls a tool, and waits for the replacement as long as the call is refused. What was refused was
	// never sent, so that nothing can run twice.
	patient := func(params *mcp.CallToolParams) (*mcp.CallToolResult, error) {
		for {
			result, err := session.CallTool(ctx, params)
			if !errors.Is(err, supervised.ErrReconnecting) {
				return result, err
			}
			if err := transport.WaitServing(ctx); err != nil {
				return nil, err
			}
		}
	}

	session.CallTool(ctx, &mcp.CallToolParams{Name: "crash"})
	fmt.Println(text(patient(&mcp.CallToolParams{Name: "greet"})))
	// Output:
	// Hello, stranger!
}

func ExampleWithRetryLostRequests() {
	transport := must(supervised.New(myServer.Mint, supervised.WithRetryLostRequests()))
	defer transport.Close()
	session := must(myClient.Connect(ctx, transport, nil))

	answer := make(chan *mcp.ReadResourceResult)
	go func() { answer <- must(session.ReadResource(ctx, &mcp.ReadResourceParams{URI: "my://story"})) }()
	for transport.Stats().InFlight == 0 {
		time.Sleep(time.Millisecond)
	}
	session.CallTool(ctx, &mcp.CallToolParams{Name: "crash"})

	// The one who reads does not notice that the server died over it.
	fmt.Println((<-answer).Contents[0].Text)
	// Output:
	// Once upon a time.
}

func ExampleTransport_Listen() {
	transport := must(supervised.New(myServer.Mint))
	defer transport.Close()
	session := must(myClient.Connect(ctx, transport, nil))

	deliveries := make(chan string, 10)
	stream := must(transport.Listen(ctx, &mcp.SubscriptionsListenParams{
		Notifications: &mcp.NotificationSubscriptions{ToolsListChanged: true},
	}, func(n *jsonrpc.Request) { deliveries <- n.Method }))

	session.CallTool(ctx, &mcp.CallToolParams{Name: "crash"})
	transport.WaitServing(ctx)
	session.CallTool(ctx, &mcp.CallToolParams{Name: "learn"})
	fmt.Println("the next server says:", <-deliveries)

	stream.Close()
	fmt.Println("closed:", errors.Is(stream.Await(ctx), supervised.ErrStreamClosed))
	// Output:
	// the next server says: notifications/tools/list_changed
	// closed: true
}

func ExampleTransport_OnTransition() {
	transport := must(supervised.New(myServer.Mint))
	transport.OnTransition(func(t supervised.Transition) {
		fmt.Printf("%v -> %v (%v of connection %d)\n", t.From, t.To, t.Event, t.Generation)
	})
	done := make(chan struct{})
	transport.OnClose(func(cause error) {
		if transport.State() == supervised.StateClosed {
			close(done)
		}
	})

	session := must(myClient.Connect(ctx, transport, nil))
	session.CallTool(ctx, &mcp.CallToolParams{Name: "crash"})
	transport.WaitServing(ctx)
	transport.Close()
	<-done // hooks may still be running when Close returns
	// Output:
	// idle -> connecting (start of connection 0)
	// connecting -> serving (connected of connection 0)
	// serving -> respawn-pending (peer-died of connection 0)
	// respawn-pending -> connecting (respawn of connection 1)
	// connecting -> serving (connected of connection 1)
	// serving -> closed (close of connection 1)
}

func ExampleTransport_OnClose() {
	transport := must(supervised.New(myServer.Mint, supervised.WithRestartDelay(0)))
	defer transport.Close()
	transport.OnClose(func(cause error) {
		if cause == nil {
			return // Close was called
		}
		fmt.Println("a server ended:", cause)
		fmt.Println("a replacement is promised:", transport.Reconnecting())
	})

	session := must(myClient.Connect(ctx, transport, nil))
	session.CallTool(ctx, &mcp.CallToolParams{Name: "crash"})
	transport.WaitServing(ctx) // the hook has returned before anything is started
	// Output:
	// a server ended: stdio: exit status 3: out of memory
	// a replacement is promised: true
}

func ExampleTransport_OnReconnect() {
	transport := must(supervised.New(myServer.Mint, supervised.WithRestartDelay(0)))
	defer transport.Close()
	session := must(myClient.Connect(ctx, transport, nil))

	// What this server was told in a session, a new process must be told again.
	introduce := func(ctx context.Context) error {
		_, err := session.CallTool(ctx, &mcp.CallToolParams{
			Name:      "introduce",
			Arguments: map[string]any{"name": "Ada"},
		})
		return err
	}
	introduced := make(chan error, 1)
	transport.OnReconnect(func(ctx context.Context) error {
		err := introduce(ctx)
		introduced <- err
		return err // goes to OnError
	})

	introduce(ctx)
	fmt.Println(text(session.CallTool(ctx, &mcp.CallToolParams{Name: "greet"})))
	session.CallTool(ctx, &mcp.CallToolParams{Name: "crash"})
	<-introduced
	fmt.Println(text(session.CallTool(ctx, &mcp.CallToolParams{Name: "greet"})))
	// Output:
	// Hello, Ada!
	// Hello, Ada!
}

func ExampleTransport_OnDrain() {
	transport := must(supervised.New(myServer.Mint))
	session := must(myClient.Connect(ctx, transport, nil))
	transport.OnDrain(func(ctx context.Context) {
		fmt.Println("while it closes:", text(session.CallTool(ctx, &mcp.CallToolParams{Name: "greet"})))
	})

	transport.Close()
	session.Wait()
	_, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "greet"})
	fmt.Println("after that:", errors.Is(err, mcp.ErrConnectionClosed))
	// Output:
	// while it closes: Hello, stranger!
	// after that: true
}

func ExampleTransport_OnError() {
	// The second start fails, and so spends a restart of its own.
	started := 0
	transport := must(supervised.New(func(ctx context.Context) (mcp.Transport, error) {
		if started++; started == 2 {
			return nil, errors.New("the disk is full")
		}
		return myServer.Mint(ctx)
	}, supervised.WithRestartDelay(0)))
	defer transport.Close()
	transport.OnError(func(err error) { fmt.Println("error:", err) })

	session := must(myClient.Connect(ctx, transport, nil))
	reconnected := make(chan struct{})
	transport.OnReconnect(func(context.Context) error { close(reconnected); return nil })
	session.CallTool(ctx, &mcp.CallToolParams{Name: "crash"})
	<-reconnected
	fmt.Println("restarts:", transport.Stats().RestartsInWindow)
	// Output:
	// error: the disk is full
	// restarts: 2
}

func ExampleTransport_Restart() {
	transport := must(supervised.New(myServer.Mint))
	defer transport.Close()
	session := must(myClient.Connect(ctx, transport, nil))

	// A server that hangs is not dead, and nobody but its user knows how long is too long.
	watched, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	_, err := session.CallTool(watched, &mcp.CallToolParams{Name: "hang"})
	if errors.Is(err, context.DeadlineExceeded) {
		fmt.Println("restart:", transport.Restart(errors.New("no answer")))
	}

	transport.WaitServing(ctx)
	fmt.Println(text(session.CallTool(ctx, &mcp.CallToolParams{Name: "greet"})))
	fmt.Println("spent:", transport.Stats().RestartsInWindow)
	// Output:
	// restart: <nil>
	// Hello, stranger!
	// spent: 0
}

func ExampleWithBudget() {
	// One budget for all servers of a program: five restarts in ten minutes between them.
	shared := must(budget.NewTumbling(5, 10*time.Minute, time.Second))

	first := must(supervised.New(myServer.Mint, supervised.WithBudget(shared)))
	second := must(supervised.New(myServer.Mint, supervised.WithBudget(shared)))
	fmt.Println(first.State(), second.State())
	// Output:
	// idle idle
}

func Example_livePage() {
	transport := must(supervised.New(myServer.Mint))
	defer transport.Close()

	page := live.New()
	page.Add("my-server", transport) // before Connect, to see that as well; any number of others
	mux := http.NewServeMux()
	mux.Handle("/supervised/", page)
	site := &http.Server{Addr: "localhost:8080", Handler: mux} // to be served with ListenAndServe
	site.RegisterOnShutdown(page.Close)                        // Shutdown would wait for those who watch

	answer := httptest.NewRecorder()
	site.Handler.ServeHTTP(answer, httptest.NewRequest("GET", "/supervised/", nil))
	fmt.Println(answer.Code, strings.Contains(answer.Body.String(), "my-server"))
	// Output:
	// 200 true
}

func ExampleWithBudget_all() {
	// A limit for the program, one for each server, and a delay that grows.
	host := must(budget.NewSliding(100, time.Hour, 0))
	patient := func() budget.Budget {
		return must(budget.NewAll(
			host,
			must(budget.NewSliding(12, time.Hour, 0)),
			must(budget.NewBackoff(2*time.Second, 5*time.Minute)),
		))
	}
	first := must(supervised.New(myServer.Mint, supervised.WithBudget(patient())))
	second := must(supervised.New(myServer.Mint, supervised.WithBudget(patient())))
	fmt.Println(first.State(), second.State())
	// Output:
	// idle idle
}

func ExampleWithLogger() {
	logger := logrus.New()
	logger.SetOutput(os.Stdout)
	logger.SetFormatter(&logrus.TextFormatter{DisableTimestamp: true})

	transport := must(supervised.New(myServer.Mint, supervised.WithLogger(logger), supervised.WithRestartDelay(0)))
	defer transport.Close()
	session := must(myClient.Connect(ctx, transport, nil))
	session.CallTool(ctx, &mcp.CallToolParams{Name: "crash"})
	transport.WaitServing(ctx)
	// Output:
	// level=info msg="server wrote to its stderr" line="out of memory"
	// level=warning msg="restarting the peer" attempt=1 budget=3 exit_code=3
}

func ExampleFactory() {
	// Each call makes a new transport. The context lives as long as the connection, so it may end the process.
	factory := func(ctx context.Context) (mcp.Transport, error) {
		command := exec.CommandContext(ctx, myServer.Args[0], myServer.Args[1:]...)
		command.Env = append(os.Environ(), myServer.Env...)
		return &mcp.CommandTransport{Command: command}, nil
	}
	transport := must(supervised.New(factory, supervised.WithRestartDelay(0)))
	defer transport.Close()
	session := must(myClient.Connect(ctx, transport, nil))
	session.CallTool(ctx, &mcp.CallToolParams{Name: "crash"})
	transport.WaitServing(ctx)
	fmt.Println("ended:", transport.Stats().LastExit)
	fmt.Println(text(session.CallTool(ctx, &mcp.CallToolParams{Name: "greet"})))
	// Output:
	// ended: exit status 3
	// Hello, stranger!
}

func ExampleFactory_inMemory() {
	// The servers run in this process, and each ends with its context.
	var current *mcp.ServerSession
	factory := func(ctx context.Context) (mcp.Transport, error) {
		ours, theirs := mcp.NewInMemoryTransports()
		session, err := newServer().Connect(ctx, theirs, nil)
		if err != nil {
			return nil, err
		}
		context.AfterFunc(ctx, func() { session.Close() })
		current = session
		return ours, nil
	}
	transport := must(supervised.New(factory))
	defer transport.Close()
	ended := make(chan error, 2)
	transport.OnClose(func(cause error) { ended <- cause })

	session := must(myClient.Connect(ctx, transport, nil))
	current.Close()
	fmt.Println("ended:", <-ended)
	transport.WaitServing(ctx)
	fmt.Println(text(session.CallTool(ctx, &mcp.CallToolParams{Name: "greet"})))
	// Output:
	// ended: EOF
	// Hello, stranger!
}

func ExampleLifecycle() {
	for _, row := range supervised.Lifecycle().Rows() {
		if row.From == supervised.StateServing && row.Event == supervised.EventPeerDied {
			fmt.Printf("%q: %v %v\n", row.Guard, row.To, row.Hooks)
		}
	}
	// Output:
	// "closing": closed [onClose]
	// "probe unanswered": respawn-pending []
	// "budget left": respawn-pending [onClose]
	// "": exhausted [onClose onError(exhausted)]
}

var (
	ctx      = context.Background()
	myClient = mcp.NewClient(&mcp.Implementation{Name: "my-app", Version: "1.0.0"}, nil)
	myServer = stdio.Command{
		Args: []string{must(os.Executable())},
		Env:  []string{exampleEnv + "=1", "GORACE=atexit_sleep_ms=0", "GOGC=off"},
	}
)

// must returns v, and ends the program on an error.
func must[V any](v V, err error) V {
	if err != nil {
		log.Fatal(err)
	}
	return v
}

// text is what a tool answered.
func text(result *mcp.CallToolResult, err error) string {
	if err != nil {
		return err.Error()
	}
	return result.Content[0].(*mcp.TextContent).Text
}

// exampleEnv has the test binary be the server of the examples.
const exampleEnv = "SUPERVISED_EXAMPLE_SERVER"

func init() {
	if os.Getenv(exampleEnv) == "" {
		return
	}
	if err := newServer().Run(ctx, &mcp.StdioTransport{}); err != nil {
		log.Fatal(err)
	}
	os.Exit(0)
}

// newServer returns a server that greets whoever was introduced to it last, and that has weaknesses.
func newServer() *mcp.Server {
	name := "stranger"
	s := mcp.NewServer(&mcp.Implementation{Name: "my-server", Version: "1.0.0"}, nil)
	reply := func(text string) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil, nil
	}
	type none struct{}
	mcp.AddTool(s, &mcp.Tool{Name: "greet"}, func(context.Context, *mcp.CallToolRequest, none) (*mcp.CallToolResult, any, error) {
		return reply("Hello, " + name + "!")
	})
	type introduction struct {
		Name string `json:"name"`
	}
	mcp.AddTool(s, &mcp.Tool{Name: "introduce"}, func(_ context.Context, _ *mcp.CallToolRequest, in introduction) (*mcp.CallToolResult, any, error) {
		name = in.Name
		return reply("")
	})
	mcp.AddTool(s, &mcp.Tool{Name: "hang"}, func(ctx context.Context, _ *mcp.CallToolRequest, _ none) (*mcp.CallToolResult, any, error) {
		<-ctx.Done()
		return nil, nil, ctx.Err()
	})
	mcp.AddTool(s, &mcp.Tool{Name: "learn"}, func(context.Context, *mcp.CallToolRequest, none) (*mcp.CallToolResult, any, error) {
		mcp.AddTool(s, &mcp.Tool{Name: "juggle"}, func(context.Context, *mcp.CallToolRequest, none) (*mcp.CallToolResult, any, error) {
			return reply("Oops.")
		})
		return reply("")
	})
	mcp.AddTool(s, &mcp.Tool{Name: "crash"}, func(context.Context, *mcp.CallToolRequest, none) (*mcp.CallToolResult, any, error) {
		fmt.Fprintln(os.Stderr, "out of memory")
		os.Exit(3)
		return nil, nil, nil
	})
	s.AddResource(&mcp.Resource{Name: "story", URI: "my://story"}, func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		time.Sleep(100 * time.Millisecond)
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: "my://story", Text: "Once upon a time."}}}, nil
	})
	return s
}

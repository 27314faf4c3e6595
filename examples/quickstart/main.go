// Quickstart shows one session of an MCP client that outlives its server. Run it with
//
//	go run ./examples/quickstart
//
// The program is both sides: it starts itself again as the server, and kills that three times with a call in
// flight. The client and its session are the SDK's own; all that they notice is the call that was lost. The fourth
// death is one too many for the restart budget and ends the session.
package main

import (
	"context"
	"errors"
	"log"
	"os"
	"strconv"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed7990db67/supervised"
	"github.com/seed7990db67/supervised/stdio"
)

func main() {
	run := runClient
	if len(os.Args) > 1 && os.Args[1] == "server" {
		run = runServer
	}
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func runClient(ctx context.Context) error {
	log.SetOutput(os.Stdout)
	log.SetFlags(log.Lmicroseconds)

	self, err := os.Executable()
	if err != nil {
		return err
	}
	server := stdio.Command{Args: []string{self, "server"}}
	transport, err := supervised.New(server.Mint,
		supervised.WithMaxRestarts(3),
		supervised.WithRestartWindow(time.Minute),
		supervised.WithRestartDelay(250*time.Millisecond),
	)
	if err != nil {
		return err
	}
	defer transport.Close()
	closed := logTransitions(transport)

	// The client knows nothing of supervision: it connects and subscribes as it would to one server.
	notified := make(chan string, 4) // the pid of each server, at its first notification
	session, err := connect(ctx, transport, notified)
	if err != nil {
		return err
	}
	logDeaths(ctx, transport, session)

	for transport.WaitServing(ctx) == nil {
		pid, err := callPID(ctx, session)
		if err != nil {
			return err
		}
		log.Printf("call      served by process %s", pid)
		log.Printf("notified  by process %s", <-notified)
		if err := killUnderCall(ctx, pid, transport, session); err != nil {
			return err
		}
	}
	<-closed

	// The end of the session carries the reason.
	var exhausted *supervised.ExhaustedError
	if err := session.Wait(); !errors.As(err, &exhausted) {
		return errors.Join(errors.New("the session ended for another reason"), err)
	}
	log.Printf("over      one session, %d servers: %v", 1+exhausted.Restarts, exhausted)
	return nil
}

// connect starts a session and subscribes to the heartbeat of the server.
func connect(ctx context.Context, transport mcp.Transport, notified chan<- string) (*mcp.ClientSession, error) {
	last := ""
	client := mcp.NewClient(&mcp.Implementation{Name: "quickstart", Version: "1.0.0"}, &mcp.ClientOptions{
		ResourceUpdatedHandler: func(_ context.Context, r *mcp.ResourceUpdatedNotificationRequest) {
			if pid, _ := r.Params.Meta["pid"].(string); pid != last {
				last = pid
				notified <- pid
			}
		},
	})
	session, err := client.Connect(ctx, transport, nil)
	if err != nil {
		return nil, err
	}
	return session, session.Subscribe(ctx, &mcp.SubscribeParams{URI: heartbeat})
}

// logTransitions logs each step of the lifecycle, and after a restart how long nothing served. The channel is
// closed after the last step.
func logTransitions(transport *supervised.Transport) (closed <-chan struct{}) {
	over := make(chan struct{})
	var died time.Time // no lock: hooks are called one at a time
	transport.OnTransition(func(t supervised.Transition) {
		log.Printf("state     %v -> %v (%v)", t.From, t.To, t.Event)
		switch {
		case t.Event == supervised.EventPeerDied:
			died = t.At
		case t.To == supervised.StateServing && t.Generation > 0:
			log.Printf("gap       %v", t.At.Sub(died).Round(time.Millisecond))
		case t.To == supervised.StateClosed:
			close(over)
		}
	})
	return over
}

// logDeaths logs how each server ended, and what a call gets that comes before the next one serves.
func logDeaths(ctx context.Context, transport *supervised.Transport, session *mcp.ClientSession) {
	transport.OnClose(func(cause error) {
		var exit *stdio.ExitError
		if errors.As(cause, &exit) {
			log.Printf("ended     %v", exit)
		}
		if transport.Reconnecting() {
			_, err := callPID(ctx, session) // too early: the next server starts when this hook has returned
			log.Printf("call      %s", outcome(err))
		}
	})
}

// killUnderCall kills the server while it works on a call, and logs what the caller gets.
func killUnderCall(ctx context.Context, pid string, transport *supervised.Transport, session *mcp.ClientSession) error {
	done := make(chan error, 1)
	go func() {
		_, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "work"})
		done <- err
	}()
	for transport.Stats().InFlight == 0 {
		time.Sleep(time.Millisecond)
	}
	log.Printf("kill      process %s", pid)
	if err := kill(pid); err != nil {
		return err
	}
	log.Printf("call      %s", outcome(<-done))
	return nil
}

// outcome says what became of a call.
func outcome(err error) string {
	var exhausted *supervised.ExhaustedError
	switch {
	case err == nil:
		return "served"
	case errors.As(err, &exhausted):
		return "lost: and no new server is coming, the restart budget is spent"
	case errors.Is(err, supervised.ErrPeerLost):
		return "lost: it was sent, and may have run"
	case errors.Is(err, supervised.ErrReconnecting):
		return "refused: it was not sent, a new server is coming"
	default:
		return err.Error()
	}
}

// callPID asks the server for the id of its process.
func callPID(ctx context.Context, session *mcp.ClientSession) (string, error) {
	result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "pid"})
	if err != nil {
		return "", err
	}
	return result.Content[0].(*mcp.TextContent).Text, nil
}

// kill ends a process at once: SIGKILL.
func kill(pid string) error {
	n, err := strconv.Atoi(pid)
	if err != nil {
		return err
	}
	process, err := os.FindProcess(n)
	if err != nil {
		return err
	}
	return process.Kill()
}

package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// What the hooks log and what the callers log come in this order each; between the two there is none.
var (
	wantHooks = slices.Concat(
		[]string{
			"state idle -> connecting (start)",
			"state connecting -> serving (connected)",
		},
		slices.Repeat([]string{
			"state serving -> respawn-pending (peer-died)",
			"ended stdio: signal: killed",
			"call refused: it was not sent, a new server is coming",
			"state respawn-pending -> connecting (respawn)",
			"state connecting -> serving (connected)",
			"gap DURATION",
		}, 3),
		[]string{
			"state serving -> exhausted (peer-died)",
			"ended stdio: signal: killed",
			"state exhausted -> closed",
		},
	)
	wantCallers = slices.Concat(
		slices.Repeat([]string{
			"call served by process PID",
			"notified by process PID",
			"kill process PID",
			"call lost: it was sent, and may have run",
		}, 3),
		[]string{
			"call served by process PID",
			"notified by process PID",
			"kill process PID",
			"call lost: and no new server is coming, the restart budget is spent",
			"over one session, 4 servers: supervised: restart budget of 3 in 1m0s spent: stdio: signal: killed",
		},
	)
)

func TestQuickstart(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and runs a program for seconds")
	}
	output := run(t, build(t))

	var hooks, callers []string
	for line := range strings.Lines(output) {
		_, line, _ = strings.Cut(line, " ") // the time
		line = strings.Join(strings.Fields(line), " ")
		line = regexp.MustCompile(`process \d+`).ReplaceAllString(line, "process PID")
		line = regexp.MustCompile(`^gap .*`).ReplaceAllString(line, "gap DURATION")
		// The SDK closes a connection that has ended. That may come before the transport's own step, or after it.
		line = regexp.MustCompile(`^(state exhausted -> closed) \((give-up|close)\)$`).ReplaceAllString(line, "$1")
		if runtime.GOOS == "windows" { // where nothing dies of a signal
			line = strings.Replace(line, "exit status 1", "signal: killed", 1)
		}
		switch kind, _, _ := strings.Cut(line, " "); {
		case kind == "state", kind == "ended", kind == "gap", strings.HasPrefix(line, "call refused"):
			hooks = append(hooks, line)
		default:
			callers = append(callers, line)
		}
	}
	if d := cmp.Diff(wantHooks, hooks); d != "" {
		t.Errorf("what the hooks log (-want +got):\n%s", d)
	}
	if d := cmp.Diff(wantCallers, callers); d != "" {
		t.Errorf("what the callers log (-want +got):\n%s", d)
	}
	if t.Failed() {
		t.Logf("the whole output:\n%s", output)
	}

	pids := served(output)
	if n := len(slices.Compact(slices.Sorted(slices.Values(pids)))); n != 4 {
		t.Errorf("want 4 server processes, got %d: %v", n, pids)
	}
	for _, pid := range pids {
		if alive(t, pid) {
			t.Errorf("server process %s is still there", pid)
		}
	}
}

// build makes the program as go run does.
func build(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "quickstart.exe")
	if out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return program
}

// run returns what the program writes. It must exit with status 0.
func run(t *testing.T, program string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, program)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil || stderr.Len() > 0 {
		t.Fatalf("exit: %v\nstderr:\n%s\nstdout:\n%s", err, &stderr, &stdout)
	}
	return stdout.String()
}

// served returns the pids of the servers, in the order in which they served.
func served(output string) []string {
	var pids []string
	for _, m := range regexp.MustCompile(`served by process (\d+)`).FindAllStringSubmatch(output, -1) {
		pids = append(pids, m[1])
	}
	return pids
}

// alive reports whether there is a process with that id.
func alive(t *testing.T, pid string) bool {
	t.Helper()
	n, err := strconv.Atoi(pid)
	if err != nil {
		t.Fatal(err)
	}
	process, err := os.FindProcess(n)
	if err != nil {
		return false // Windows finds only what lives
	}
	return process.Signal(syscall.Signal(0)) == nil
}

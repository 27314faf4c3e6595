package main

import (
	"bufio"
	"context"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// TestLive runs the program, and reads what its page is told of the flaky server.
func TestLive(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and runs a program for seconds")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	program := filepath.Join(t.TempDir(), "live.exe")
	if out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	cmd := exec.CommandContext(ctx, program, "-http", "localhost:0", "-life", "200ms")
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stdout)
	lines.Scan()
	address := lines.Text()

	want := []string{"state-respawn-pending", "&lt;b&gt;everything&lt;/b&gt;", "state-serving"}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address+"?transport=flaky&events", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	events := bufio.NewScanner(response.Body)
	events.Buffer(nil, 1<<20)
	// The text is JSON, which has its own way to write &.
	for len(want) > 0 && events.Scan() {
		for len(want) > 0 && strings.Contains(strings.ReplaceAll(events.Text(), `\u0026`, "&"), want[0]) {
			want = want[1:]
		}
	}
	if len(want) > 0 {
		t.Errorf("the page was not told %q", want)
	}

	if runtime.GOOS == "windows" {
		_ = cmd.Process.Kill() // there is no Ctrl-C that would reach it alone
		_ = cmd.Wait()
		return
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	for events.Scan() { // the stream ends, and Shutdown with it
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("exit: %v", err)
	}
}

package supervised_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed7990db67/supervised"
	"github.com/seed7990db67/supervised/stdio"
)

// npmServers installs servers that other people wrote, and returns the folder that they are in.
func npmServers(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	install := exec.Command("npm", "install", "--no-audit", "--no-fund", "--prefix", dir,
		"@modelcontextprotocol/server-everything@2026.8.31",
		"@modelcontextprotocol/server-memory@2026.8.31",
		"@modelcontextprotocol/server-filesystem@2026.8.31")
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("npm install: %v\n%s", err, out)
	}
	return dir
}

// group returns the processes of a group, ancestors first.
func group(leader int) []int {
	parents := map[int]int{}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range stats {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it is gone
		}
		_, rest, _ := strings.Cut(string(text), ") ") // state, ppid, pgrp
		fields := strings.Fields(rest)
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		ppid, _ := strconv.Atoi(fields[1])
		if fields[2] == strconv.Itoa(leader) && fields[0] != "Z" {
			parents[pid] = ppid
		}
	}
	depth := func(pid int) (n int) {
		for pid != leader && pid > 1 {
			pid = parents[pid]
			n++
		}
		return n
	}
	var pids []int
	for pid := range parents {
		pids = append(pids, pid)
	}
	slices.SortFunc(pids, func(a, b int) int { return depth(a) - depth(b) })
	return pids
}

// leader is the one child of this process.
func leader(t *testing.T) int {
	t.Helper()
	var children []string
	tasks, _ := filepath.Glob("/proc/self/task/*/children")
	for _, task := range tasks {
		text, _ := os.ReadFile(task)
		children = append(children, strings.Fields(string(text))...)
	}
	if len(children) != 1 {
		t.Fatalf("children: %v", children)
	}
	pid, _ := strconv.Atoi(children[0])
	return pid
}

// TestServersFromNpm supervises servers that know the older protocol alone, as people run them: kills the wrapper,
// the inner process, and all of them, with a call in flight.
func TestServersFromNpm(t *testing.T) {
	if testing.Short() {
		t.Skip("installs from npm")
	}
	if _, err := exec.LookPath("npm"); err != nil {
		t.Skip("no npm")
	}
	dir := npmServers(t)
	files := t.TempDir()
	memory := filepath.Join(t.TempDir(), "memory.jsonl")
	if err := os.WriteFile(filepath.Join(files, "a.txt"), []byte("contents"), 0o600); err != nil {
		t.Fatal(err)
	}
	writes := 0
	servers := []struct {
		bin  string
		args []string
		use  func(ctx context.Context, h *host) error
	}{
		{"mcp-server-everything", nil, func(ctx context.Context, h *host) error {
			_, err := h.session.CallTool(ctx, &mcp.CallToolParams{Name: "echo", Arguments: map[string]any{"message": "hi"}})
			return err
		}},
		{"mcp-server-filesystem", []string{files}, func(ctx context.Context, h *host) error {
			r, err := h.session.CallTool(ctx, &mcp.CallToolParams{Name: "read_text_file", Arguments: map[string]any{"path": filepath.Join(files, "a.txt")}})
			if err == nil && !strings.Contains(r.Content[0].(*mcp.TextContent).Text, "contents") {
				return fmt.Errorf("read %v", r.Content[0])
			}
			return err
		}},
		{"mcp-server-memory", nil, func(ctx context.Context, h *host) error {
			writes++
			_, err := h.session.CallTool(ctx, &mcp.CallToolParams{Name: "create_entities", Arguments: map[string]any{
				"entities": []any{map[string]any{"name": fmt.Sprint("entity-", writes), "entityType": "test", "observations": []string{"seen"}}},
			}})
			if err != nil {
				writes-- // it was in flight and never ran
			}
			return err
		}},
	}
	kills := map[string]func(pids []int) []int{
		"wrapper": func(pids []int) []int { return pids[:1] },
		"inner":   func(pids []int) []int { return pids[len(pids)-1:] },
		"all":     func(pids []int) []int { return pids },
	}
	for _, s := range servers {
		for _, by := range []string{"directly", "npx"} {
			t.Run(s.bin+" "+by, func(t *testing.T) {
				c := stdio.Command{Dir: dir, Env: []string{"MEMORY_FILE_PATH=" + memory}, StopGrace: time.Second}
				if by == "npx" {
					c.Args = append([]string{"npx", "--no-install", s.bin}, s.args...)
				} else {
					c.Args = append([]string{filepath.Join(dir, "node_modules", ".bin", s.bin)}, s.args...)
				}
				h := supervise(t, c.Mint, supervised.WithRetryLostRequests())
				var left []int
				for _, kill := range []string{"wrapper", "inner", "all"} {
					if err := s.use(context.Background(), h); err != nil {
						t.Fatal(err)
					}
					pids := group(leader(t))
					left = append(left, pids...)
					if by == "npx" && len(pids) < 2 {
						t.Errorf("npx is %d process", len(pids))
					}
					for _, pid := range pids {
						stop(t, pid)
					}
					tool, list := make(chan error, 1), make(chan error, 1)
					go func() { tool <- s.use(context.Background(), h) }()
					go func() { _, err := h.session.ListTools(context.Background(), nil); list <- err }()
					eventually(t, "both are in flight", func() bool { return h.Stats().InFlight == 2 })
					for _, pid := range kills[kill](pids) {
						syscall.Kill(pid, syscall.SIGKILL)
					}
					if kill == "inner" { // so that the wrapper sees it
						for _, pid := range pids[:len(pids)-1] {
							syscall.Kill(pid, syscall.SIGCONT)
						}
					}
					h.recovered()
					wantIs(t, "the tool in flight", next(t, "the tool in flight", tool), supervised.ErrPeerLost)
					want(t, "the list in flight", "ok", kind(next(t, "the list in flight", list)))
				}
				if err := s.use(context.Background(), h); err != nil {
					t.Fatal(err)
				}
				want(t, "restarts", 3, h.Stats().Restarts)
				left = append(left, group(leader(t))...)
				want(t, "Close", nil, h.Close())
				for _, pid := range left {
					if stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err == nil && !strings.Contains(string(stat), ") Z ") {
						t.Errorf("process %d is left: %s", pid, stat) // a zombie is its new parent's to reap
					}
				}
			})
		}
	}
	text, err := os.ReadFile(memory)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	for line := range strings.Lines(string(text)) {
		var entity struct{ Name string }
		if err := json.Unmarshal([]byte(line), &entity); err != nil {
			t.Fatal(err)
		}
		seen[entity.Name]++
	}
	wanted := map[string]int{}
	for i := range writes {
		wanted[fmt.Sprint("entity-", i+1)] = 1
	}
	want(t, "writes in the file of server-memory", wanted, seen)
}

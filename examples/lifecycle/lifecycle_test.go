package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The path of a transport whose server was killed twice, as arrows between states.
const wantSequence = `sequenceDiagram
    autonumber
    participant s0 as idle
    participant s1 as connecting
    participant s2 as serving
    participant s3 as respawn-pending
    participant s5 as closed
    s0->>s1: start
    Note over s1: after TIME, connection 0
    s1->>s2: connected [first connection]
    Note over s2: after TIME, connection 0
    s2->>s3: peer-died [budget left] / onClose
    Note over s3: after TIME, connection 0#58; stdio#58; signal#58; killed
    s3->>s1: respawn
    Note over s1: after TIME, connection 1
    s1->>s2: connected [else] / onReconnect
    Note over s2: after TIME, connection 1
    s2->>s3: peer-died [budget left] / onClose
    Note over s3: after TIME, connection 1#58; stdio#58; signal#58; killed
    s3->>s1: respawn
    Note over s1: after TIME, connection 2
    s1->>s2: connected [else] / onReconnect
    Note over s2: after TIME, connection 2
    s2->>s5: close / onDrain, onClose
    Note over s5: after TIME, connection 2
`

func TestLifecycle(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and runs a program")
	}
	dir := t.TempDir()
	program := filepath.Join(dir, "lifecycle.exe")
	if out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	if out, err := exec.Command(program, dir).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	_, sequence, _ := strings.Cut(read("sequence.mmd"), "\n---\n")
	sequence = regexp.MustCompile(`after [0-9.]+m?s, connection`).ReplaceAllString(sequence, "after TIME, connection")
	if runtime.GOOS == "windows" { // where nothing dies of a signal
		sequence = strings.ReplaceAll(sequence, "exit status 1", "signal#58; killed")
	}
	if d := cmp.Diff(wantSequence, sequence); d != "" {
		t.Errorf("sequence.mmd (-want +got):\n%s", d)
	}
	for name, wants := range map[string][]string{
		"path.dot": {
			`class="edge stem taken" label="peer-died ×2"`, `class="edge branch emphasis taken" label="3 [budget left]\l/ onClose ×2\l"`,
			`label="respawn ×2"`, `label="start ×1"`, `class="edge everywhere taken" label="close ×1\l`, `class="state end visited current"`,
			`"state-exhausted" [id="state-exhausted" class="state" `,
		},
		"path.mmd": {"s3 --> s1 : respawn ×2\n", "class s5 current\n", "class s0,s1,s2,s3 visited\n"},
	} {
		text := read(name)
		for _, want := range wants {
			if !strings.Contains(text, want) {
				t.Errorf("%s: not in it: %s", name, want)
			}
		}
	}
}

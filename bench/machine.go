package bench

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
)

// Machine says in a line what the figures depend on: processor, cores, Go, system and kernel.
func Machine() string {
	return fmt.Sprintf("%s, %d cores, GOMAXPROCS %d, %s, %s/%s %s",
		cpuModel(), runtime.NumCPU(), runtime.GOMAXPROCS(0), runtime.Version(), runtime.GOOS, runtime.GOARCH, kernel())
}

func cpuModel() string {
	switch runtime.GOOS {
	case "linux":
		f, err := os.Open("/proc/cpuinfo")
		if err != nil {
			break
		}
		defer f.Close()
		for lines := bufio.NewScanner(f); lines.Scan(); {
			if key, value, _ := strings.Cut(lines.Text(), ":"); strings.TrimSpace(key) == "model name" {
				return strings.TrimSpace(value)
			}
		}
	case "darwin":
		return output("sysctl", "-n", "machdep.cpu.brand_string")
	}
	return "unknown processor"
}

func kernel() string { return output("uname", "-r") }

func output(name string, args ...string) string {
	out, err := exec.Command(name, args...).Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}

// Load1 is the machine's load average of a minute before now, "" where the system does not tell.
func Load1() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return ""
	}
	one, _, _ := strings.Cut(string(text), " ")
	return one
}

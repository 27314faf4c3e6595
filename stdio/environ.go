package stdio

import (
	"runtime"
	"slices"
	"strings"
)

// inherited are the variables that a server needs to run at all. They hold no secrets, as the host's others may.
var inherited = []string{
	"APPDATA", "HOME", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA", "LOGNAME", "PATH", "PROCESSOR_ARCHITECTURE",
	"SHELL", "SYSTEMDRIVE", "SYSTEMROOT", "TEMP", "TERM", "USER", "USERNAME", "USERPROFILE",
}

// environ returns what of host a server inherits, followed by own. Each variable is in it once, with its last
// value: which of two counts is else up to the server's language.
func environ(host []string, everything bool, own []string) []string {
	all := make([]string, 0, len(host)+len(own))
	for _, entry := range host {
		if everything || isInherited(entry) {
			all = append(all, entry)
		}
	}
	all = append(all, own...)

	last := make(map[string]int, len(all))
	for i, entry := range all {
		last[variable(entry)] = i
	}
	env := make([]string, 0, len(last))
	for i, entry := range all {
		if last[variable(entry)] == i {
			env = append(env, entry)
		}
	}
	return env
}

// isInherited says whether the entry of the host's environment is on the list and no shell function: bash
// exports those as values that start with "()", and runs what it finds in one.
func isInherited(entry string) bool {
	_, value, _ := strings.Cut(entry, "=")
	return slices.Contains(inherited, variable(entry)) && !strings.HasPrefix(value, "()")
}

// variable returns the name in an entry as the system compares it. Windows ignores case, and has hidden
// variables whose name starts with "=".
func variable(entry string) string {
	if runtime.GOOS != "windows" {
		name, _, _ := strings.Cut(entry, "=")
		return name
	}
	if i := strings.Index(entry[min(1, len(entry)):], "="); i >= 0 {
		entry = entry[:1+i]
	}
	return strings.ToUpper(entry)
}

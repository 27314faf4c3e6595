//go:build unix

package stdio_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed7990db67/supervised/stdio"
)

func TestMint_refusesBadFields(t *testing.T) {
	args := []string{"/bin/sh"}
	for _, tt := range []struct {
		name string
		cmd  stdio.Command
		want string
	}{
		{"no arguments", stdio.Command{}, "stdio: Args is empty: want the name of an executable first"},
		{"empty name", stdio.Command{Args: []string{"", "x"}}, "stdio: Args is empty: want the name of an executable first"},
		{"NUL in an argument", stdio.Command{Args: []string{"sh", "a\x00b"}}, `stdio: Args[1] is "a\x00b": holds a NUL byte`},
		{"negative MaxLine", stdio.Command{Args: args, MaxLine: -1}, "stdio: MaxLine is -1: want 0 or more"},
		{"negative StopGrace", stdio.Command{Args: args, StopGrace: -time.Second}, "stdio: StopGrace is -1s: want 0 or more"},
		{"entry without =", stdio.Command{Args: args, Env: []string{"A=1", "s3cret"}}, `stdio: Env[1] is malformed: want "KEY=value"`},
		{"entry without a key", stdio.Command{Args: args, Env: []string{"=s3cret"}}, `stdio: Env[0] is malformed: want "KEY=value"`},
		{"NUL in an entry", stdio.Command{Args: args, Env: []string{"A=s3cret\x00"}}, "stdio: Env[0] is malformed: holds a NUL byte"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			transport, err := tt.cmd.Mint(t.Context())
			if err == nil || transport != nil {
				t.Fatalf("got %v, %v", transport, err)
			}
			if err.Error() != tt.want {
				t.Errorf("want %q, got %q", tt.want, err)
			}
		})
	}
}

func TestMint_mayBeCalledAgain(t *testing.T) {
	cmd := shell(`exit 5`)
	for range 3 {
		spawn(t, cmd).wantExit(5)
	}
}

func TestMint_keepsTheCommandAsItWas(t *testing.T) {
	args := []string{"/bin/sh", "-c", "exit 5"}
	transport, err := stdio.Command{Args: args}.Mint(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	args[2] = "exit 6"
	conn, err := transport.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s := &server{t: t, connection: conn.(connection)}
	s.wantExit(5)
	s.wantClosed()
}

func TestConnect_isForOneProcess(t *testing.T) {
	transport, err := self("echo").Mint(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := transport.Connect(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("context done: got %v", err)
	}
	conn, err := transport.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := transport.Connect(t.Context()); err == nil {
		t.Error("connected twice")
	}
}

func TestConnect_contextBoundsTheStartAlone(t *testing.T) {
	transport, err := self("echo").Mint(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	conn, err := transport.Connect(ctx)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	s := &server{t: t, connection: conn.(connection)}
	s.write(1, `{}`)
	s.want(1)
	s.wantClosed()
}

func TestStart_failureIsTheSystemsAndLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string, mode fs.FileMode) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return name
	}
	plain := file("plain", "", 0o644)
	for _, tt := range []struct {
		name string
		cmd  stdio.Command
		want error
	}{
		{"not in PATH", stdio.Command{Args: []string{"no-such-server-here"}}, exec.ErrNotFound},
		{"no such file", stdio.Command{Args: []string{filepath.Join(dir, "missing")}}, fs.ErrNotExist},
		{"not executable", stdio.Command{Args: []string{plain}}, syscall.EACCES},
		{"not executable, as fs has it", stdio.Command{Args: []string{plain}}, fs.ErrPermission},
		{"a directory", stdio.Command{Args: []string{dir}}, syscall.EISDIR},
		{"no interpreter", stdio.Command{Args: []string{file("script", "#!/no/such/interpreter\n", 0o755)}}, fs.ErrNotExist},
		{"no executable format", stdio.Command{Args: []string{file("text", "hello\n", 0o755)}}, syscall.ENOEXEC},
		{"no such Dir", stdio.Command{Args: []string{"sh"}, Dir: filepath.Join(dir, "missing")}, fs.ErrNotExist},
		{"Dir is a file", stdio.Command{Args: []string{"sh"}, Dir: plain}, syscall.ENOTDIR},
	} {
		t.Run(tt.name, func(t *testing.T) {
			attempt := func() error {
				transport, err := tt.cmd.Mint(t.Context())
				if err != nil {
					return err
				}
				_, err = transport.Connect(t.Context())
				return err
			}
			if err := attempt(); !errors.Is(err, tt.want) || !strings.HasPrefix(err.Error(), "stdio: ") {
				t.Fatalf("want an error that is %v, got %v", tt.want, err)
			}
			before := descriptors(t)
			for range 20 {
				attempt()
			}
			if diff := cmp.Diff(before, descriptors(t)); diff != "" {
				t.Errorf("descriptors (-before +after):\n%s", diff)
			}
		})
	}
}

func TestP1_noShellComesBetween(t *testing.T) {
	weird := []string{"$HOME", "a b", "*", `"`, "`id`", "", ";exit 1", "-x"}
	script := `for a; do printf '<%s>' "$a" >&2; done`
	s := spawn(t, stdio.Command{Args: append([]string{"sh", "-c", script, "sh"}, weird...)})
	want := "<" + strings.Join(weird, "><") + ">"
	if got := s.wantExit(0).Stderr; got != want {
		t.Errorf("want %q, got %q", want, got)
	}
}

func TestP1_directoryIsThatOfTheCommand(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "here"), []byte("#!/bin/sh\npwd -P >&2\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"./here", filepath.Join(dir, "here")} {
		if got := spawn(t, stdio.Command{Args: []string{name}, Dir: dir}).wantExit(0).Stderr; got != dir+"\n" {
			t.Errorf("%s ran in %q, want %q", name, got, dir)
		}
	}
}

func TestP1_environment(t *testing.T) {
	allowed := strings.Fields(`APPDATA HOME HOMEDRIVE HOMEPATH LOCALAPPDATA LOGNAME PATH PROCESSOR_ARCHITECTURE
		SHELL SYSTEMDRIVE SYSTEMROOT TEMP TERM USER USERNAME USERPROFILE`)
	for _, name := range allowed {
		t.Setenv(name, "of the host: "+name)
	}
	t.Setenv("PATH", os.Getenv("PATH"))
	t.Setenv("TERM", "() { :; }; echo shellshock")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "s3cret")
	t.Setenv("LD_PRELOAD", "")

	own := append(self("env").Env, "EXTRA=first", "USER=own", "EXTRA=a=b")
	added := append(self("env").Env, "USER=own", "EXTRA=a=b")

	var base []string
	for _, name := range allowed {
		if name != "TERM" && name != "USER" {
			base = append(base, name+"="+os.Getenv(name))
		}
	}
	var everything []string
	for _, entry := range os.Environ() {
		if !strings.HasPrefix(entry, "USER=") {
			everything = append(everything, entry)
		}
	}
	for _, tt := range []struct {
		name    string
		inherit bool
		want    []string
	}{
		{"P1 the allowlist, exactly", false, append(base, added...)},
		{"P1 everything where asked for", true, append(everything, added...)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cmd := self("env")
			cmd.Env, cmd.InheritEnv = own, tt.inherit
			cmd.Stderr = new(strings.Builder)
			s := spawn(t, cmd)
			s.wantExit(0)
			var got []string
			if err := json.Unmarshal([]byte(cmd.Stderr.(*strings.Builder).String()), &got); err != nil {
				t.Fatal(err)
			}
			slices.Sort(got)
			slices.Sort(tt.want)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("environment (-want +got):\n%s", diff)
			}
		})
	}
}

func TestP1_hostDescriptorsAreNotInherited(t *testing.T) {
	before := descriptors(t)
	f, err := os.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	spawn(t, self("echo")) // another server's pipes are the host's as well
	host := descriptors(t)
	listing := spawn(t, shell(`ls -l /proc/$$/fd >&2`)).wantExit(0).Stderr
	for _, open := range host {
		_, target, _ := strings.Cut(open, " ")
		if !slices.Contains(before, open) && !strings.HasPrefix(target, "anon_inode:") && strings.Contains(listing, target) {
			t.Errorf("%s is open in the server:\n%s", target, listing)
		}
	}
}

func TestP1_pipesOfTheServerBlock(t *testing.T) {
	// A server does not expect EAGAIN. The flags are octal; 04000 is O_NONBLOCK.
	s := spawn(t, shell(`cat /proc/$$/fdinfo/0 /proc/$$/fdinfo/1 /proc/$$/fdinfo/2 | while read -r key value; do
		[ "$key" != flags: ] || echo $((value & 04000)) >&2; done`))
	if diff := cmp.Diff("0\n0\n0\n", s.wantExit(0).Stderr); diff != "" {
		t.Errorf("O_NONBLOCK (-want +got):\n%s", diff)
	}
}

// descriptors returns what the host has open.
func descriptors(t *testing.T) []string {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip(err)
	}
	var open []string
	for _, e := range entries {
		target, err := os.Readlink("/proc/self/fd/" + e.Name())
		if err == nil && !strings.HasPrefix(target, "/proc/") { // not the directory that is being read
			open = append(open, fmt.Sprintf("%s %s", e.Name(), target))
		}
	}
	return open
}

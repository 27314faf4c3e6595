package stdio_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"github.com/seed7990db67/supervised/stdio"
)

// Faults of the system at a start. Limits are of a process, so that those tests run in one of their own: the test binary
// again, in a role that says what is wrong on its stdout.

func init() {
	roles["without descriptors"] = startWithoutDescriptors
	roles["without processes"] = startWithoutProcesses
}

// tryStart starts a server and kills it again.
func tryStart() error {
	transport, err := stdio.Command{Args: []string{"/bin/cat"}}.Mint(context.Background())
	if err != nil {
		return err
	}
	conn, err := transport.Connect(context.Background())
	if err != nil {
		return err
	}
	return conn.(connection).Kill()
}

// openHere is how many descriptors this process has open.
func openHere() int {
	entries, _ := os.ReadDir("/proc/self/fd")
	return len(entries)
}

// startWithoutDescriptors starts a server with room for one descriptor more each time, until that is enough.
func startWithoutDescriptors() {
	if err := tryStart(); err != nil { // whatever is made once and kept is made now
		fmt.Println("with descriptors:", err)
	}
	before := openHere()
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		fmt.Println(err)
	}
	refused := 0
	for room := 0; ; room++ {
		few := limit
		few.Cur = uint64(before - 1 + room) // one of those was the directory that was read
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &few); err != nil {
			fmt.Println(err)
		}
		err := tryStart()
		if e := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); e != nil {
			fmt.Println(e)
		}
		if n := openHere(); n != before {
			fmt.Printf("room for %d: %d descriptors before, %d after\n", room, before, n)
		}
		if err == nil {
			break
		}
		refused++
		if !errors.Is(err, syscall.EMFILE) || !strings.HasPrefix(err.Error(), "stdio: start: ") || room > 20 {
			fmt.Printf("room for %d: %v\n", room, err)
			return
		}
	}
	if refused < 6 {
		fmt.Printf("three pipes were made with room for %d descriptors\n", refused)
	}
}

// startWithoutProcesses starts a server where no process may be made, and then where one may.
func startWithoutProcesses() {
	// What the runtime needs threads for it has: they count as processes.
	var warm sync.WaitGroup
	for range 32 {
		warm.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			pause := unix.Timespec{Nsec: 50_000_000}
			_ = unix.Nanosleep(&pause, nil)
		})
	}
	warm.Wait()
	if err := tryStart(); err != nil { // whatever is made once and kept is made now
		fmt.Println("with processes:", err)
	}
	before := openHere()
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NPROC, &limit); err != nil {
		fmt.Println(err)
	}
	none := limit
	none.Cur = 1
	if err := unix.Setrlimit(unix.RLIMIT_NPROC, &none); err != nil {
		fmt.Println(err)
	}
	err := tryStart()
	if e := unix.Setrlimit(unix.RLIMIT_NPROC, &limit); e != nil {
		fmt.Println(e)
	}
	if !errors.Is(err, syscall.EAGAIN) || !strings.HasPrefix(err.Error(), "stdio: start: ") {
		fmt.Println("without processes:", err)
	}
	if n := openHere(); n != before {
		fmt.Printf("%d descriptors before, %d after\n", before, n)
	}
	if err := tryStart(); err != nil {
		fmt.Println("with processes:", err)
	}
}

// wantSilence runs the test binary in a role, and fails with what it says.
func wantSilence(t *testing.T, cmd *exec.Cmd, name string) {
	t.Helper()
	cmd.Env = append(os.Environ(), role+"="+name, "GORACE=atexit_sleep_ms=0")
	out, err := cmd.CombinedOutput()
	if err != nil || len(out) > 0 {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestStart_withoutDescriptors(t *testing.T) {
	wantSilence(t, exec.Command(os.Args[0]), "without descriptors")
}

func TestStart_withoutProcesses(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	if os.Geteuid() == 0 {
		// No limit is for root. Another user has to get at the binary.
		dir, err := os.MkdirTemp("", "stdio")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		cmd.Path = filepath.Join(dir, "test")
		if err := errors.Join(os.Chmod(dir, 0o755), copyFile(cmd.Path, os.Args[0])); err != nil {
			t.Fatal(err)
		}
		cmd.Dir = "/"
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 54321, Gid: 54321}}
		probe := exec.Command("/bin/true")
		probe.SysProcAttr = cmd.SysProcAttr
		if err := probe.Run(); err != nil {
			t.Skip("cannot be another user: ", err)
		}
	}
	wantSilence(t, cmd, "without processes")
}

func copyFile(to, from string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// A server that is being written, as during its installation, cannot be started, and can be as soon as it is there.
func TestStart_executableThatIsBeingWritten(t *testing.T) {
	name := filepath.Join(t.TempDir(), "server")
	if err := copyFile(name, "/bin/cat"); err != nil {
		t.Fatal(err)
	}
	writing, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	attempt := func() error {
		transport, err := stdio.Command{Args: []string{name}}.Mint(t.Context())
		if err != nil {
			return err
		}
		conn, err := transport.Connect(t.Context())
		if err != nil {
			return err
		}
		return conn.(connection).Kill()
	}
	if err := attempt(); !errors.Is(err, syscall.ETXTBSY) || !strings.HasPrefix(err.Error(), "stdio: start: ") {
		t.Errorf("want ETXTBSY, got %v", err)
	}
	writing.Close()
	// A child that another test forked meanwhile may hold the file for a moment, until it is another program.
	eventually(t, "the server starts", func() bool { return attempt() == nil })
}

// A logger that blocked left stderr full, and the server with it.
func TestP5_loggerThatBlocksHoldsUpNothing(t *testing.T) {
	out := make(blocking)
	logger := logrus.New()
	logger.SetOutput(out)
	cmd := self("noisy")
	cmd.Logger = logger
	s := spawn(t, cmd)
	for i := range int64(4) { // 256 KiB of stderr before each answer, and a pipe that holds 64
		s.write(i, `{}`)
		s.want(i)
	}
	s.wantClosed()
	if exit := s.wantExit(0); len(exit.Stderr) != 8<<10 {
		t.Errorf("%d bytes of stderr are kept", len(exit.Stderr))
	}
	close(out)
}

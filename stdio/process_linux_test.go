package stdio

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestP4_groupAliveDoesNotCountZombies(t *testing.T) {
	if _, err := exec.LookPath("setsid"); err != nil {
		t.Skip(err)
	}
	// A parent that does not wait for its child, and the child leads the group.
	parent := exec.Command("sh", "-c", `setsid sh -c 'echo $$; exec sleep 1000' & exec sleep 1000`)
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	defer parent.Wait()
	defer parent.Process.Kill()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	pgid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Kill(-pgid, syscall.SIGKILL) // a zombie still, whose id is nobody else's
	if !groupAlive(pgid) {
		t.Error("a running member does not count")
	}
	if err := syscall.Kill(pgid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(10 * time.Second); groupAlive(pgid); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("a zombie counts")
		}
	}
	if _, err := os.Stat("/proc/" + strconv.Itoa(pgid)); err != nil {
		t.Error("there is no zombie, which proves nothing")
	}
	if groupAlive(1 << 22) {
		t.Error("a group that cannot be counts")
	}
}

// TestP4_awaitExitLeavesTheZombie, and takes a thread only where no descriptor of the process can be had.
func TestP4_awaitExitLeavesTheZombie(t *testing.T) {
	for _, test := range []struct {
		name       string
		descriptor bool
		waits      string // the stack of who waits
	}{
		{"in the poller", true, `\[IO wait[],].*(\n.+)*\.pollExit\(`},
		{"without a descriptor", false, `\[syscall[],].*(\n.+)*\.waitid\(`},
	} {
		t.Run(test.name, func(t *testing.T) {
			r, w := pipe(t)
			p, err := os.StartProcess("/bin/sh", []string{"sh", "-c", "read line; exit 3"}, &os.ProcAttr{Files: []*os.File{r}})
			if err != nil {
				t.Fatal(err)
			}
			defer p.Wait() // the second time it does nothing
			defer w.Close()
			allow := func() {}
			if !test.descriptor {
				allow = noMoreDescriptors(t)
			} else if err := p.WithHandle(func(uintptr) {}); err != nil {
				t.Skip(err)
			}
			waited := make(chan error, 1)
			go func() { waited <- awaitExit(p) }()
			waits := regexp.MustCompile(test.waits)
			for deadline := time.Now().Add(10 * time.Second); ; runtime.Gosched() {
				stacks := make([]byte, 1<<20)
				stacks = stacks[:runtime.Stack(stacks, true)]
				if waits.Match(stacks) {
					break
				}
				if time.Now().After(deadline) {
					t.Fatalf("no stack is like %s:\n%s", waits, stacks)
				}
			}
			w.Close()
			if err := <-waited; err != nil {
				t.Fatal(err)
			}
			if err := awaitExit(p); err != nil {
				t.Fatal(err)
			}
			allow()
			state, err := p.Wait()
			if err != nil || state.ExitCode() != 3 {
				t.Errorf("got %v, %v", state, err)
			}
			if err := awaitExit(p); err == nil {
				t.Error("there is nothing left to wait for")
			}
		})
	}
}

// TestP4_pollExitWithoutAPoller: what cannot be polled is left to the system call, at once.
func TestP4_pollExitWithoutAPoller(t *testing.T) {
	f, err := os.Open(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	p, err := os.StartProcess("/bin/sleep", []string{"sleep", "1000"}, &os.ProcAttr{})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Wait()
	defer p.Kill()
	if polled, err := pollExit(f, p.Pid); polled || err != nil {
		t.Errorf("got %t, %v", polled, err)
	}
}

// noMoreDescriptors has the system refuse to open any, until the function that it returns is called. The limit is that of
// the whole process, which is well as long as no test here is parallel.
func noMoreDescriptors(t *testing.T) (allow func()) {
	var was unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	now := was
	now.Cur = 0
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &now); err != nil {
		t.Fatal(err)
	}
	allow = sync.OnceFunc(func() {
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &was); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(allow)
	if f, err := os.Open("/dev/null"); !errors.Is(err, unix.EMFILE) {
		f.Close()
		t.Fatalf("opened a file without a descriptor: %v", err)
	}
	return allow
}

// A host may wait for every child that it has.
func TestP4_statusTakenByAnotherWait(t *testing.T) {
	p, err := start("/bin/sh", Command{Args: []string{"sh", "-c", "exit 3"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := syscall.Wait4(p.leader.Pid, nil, 0, nil); err != nil {
		t.Fatal(err)
	}
	p.await()
	if !p.reaped {
		t.Error("the id may be a stranger's, and signals would still go there")
	}
	if err := p.kill(); err != nil {
		t.Errorf("kill: %v", err)
	}
	if code, signal := p.reap(); code != -1 || signal != nil {
		t.Errorf("got %d, %v", code, signal)
	}
}

// TestP4_orphansOfTheGroupAreReaped: as process 1 of a container, or as a subreaper, we are the parent of what a
// server leaves behind.
func TestP4_orphansOfTheGroupAreReaped(t *testing.T) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		t.Skip(err)
	}
	defer unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
	transport, err := Command{Args: []string{"sh", "-c", "sleep 1000 & echo $! >&2; exec sleep 1000"}}.Mint(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	conn, err := transport.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c := conn.(*connection)
	defer c.Kill()
	for deadline := time.Now().Add(10 * time.Second); c.stderr.last() == ""; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the server does not tell its child")
		}
	}
	orphan := strings.TrimSpace(c.stderr.last())
	if err := c.Kill(); err != nil {
		t.Fatal(err)
	}
	if stat, err := os.ReadFile("/proc/" + orphan + "/stat"); err == nil {
		t.Errorf("the orphan is still there: %s", stat)
	}
}

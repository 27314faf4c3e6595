//go:build unix

package chaostest

import (
	"errors"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seed7990db67/supervised"
)

var errHung = errors.New("the killer says that it hangs")

// A killer does from outside what a server cannot do to itself. Servers tell it over a socket that their moment has
// come; it acts a little later.
type killer struct {
	token     string
	transport *supervised.Transport
	socket    *net.UnixConn
	acts      sync.WaitGroup

	mu     sync.Mutex
	chance *rand.Rand
}

func newKiller(token, socket string, seed uint64, t *supervised.Transport) (*killer, error) {
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		return nil, err
	}
	k := &killer{token: token, transport: t, socket: conn, chance: rand.New(rand.NewPCG(seed, 1))}
	k.acts.Go(k.listen)
	return k, nil
}

// stop returns when the killer has done all that it was told to do.
func (k *killer) stop() {
	_ = k.socket.Close()
	k.acts.Wait()
}

func (k *killer) listen() {
	packet := make([]byte, 256)
	for {
		n, err := k.socket.Read(packet)
		if err != nil {
			return
		}
		first, fault, _ := strings.Cut(string(packet[:n]), " ")
		pid, err := strconv.Atoi(first)
		if err != nil {
			continue
		}
		k.acts.Go(func() { k.act(pid, Fault(fault)) })
	}
}

func (k *killer) pause(atLeast, atMost time.Duration) {
	k.mu.Lock()
	d := atLeast + time.Duration(k.chance.Int64N(int64(atMost-atLeast)))
	k.mu.Unlock()
	time.Sleep(d)
}

func (k *killer) act(pid int, f Fault) {
	// The handle is the process itself, where the system has such handles: from here on its number may become another's.
	p, err := os.FindProcess(pid)
	if err != nil || !ours(pid, k.token) {
		return
	}
	defer p.Release()
	switch f {
	case Kill:
		k.pause(0, 3*time.Millisecond)
		_ = p.Signal(syscall.SIGKILL)
	case Term:
		k.pause(0, 3*time.Millisecond)
		_ = p.Signal(syscall.SIGTERM)
	case StopCont:
		_ = p.Signal(syscall.SIGSTOP)
		k.pause(10*time.Millisecond, 100*time.Millisecond)
		_ = p.Signal(syscall.SIGCONT)
	case StopKill:
		_ = p.Signal(syscall.SIGSTOP)
		k.pause(10*time.Millisecond, 100*time.Millisecond)
		_ = p.Signal(syscall.SIGKILL)
	case StopRestart:
		_ = p.Signal(syscall.SIGSTOP)
		k.restart(p)
	case Restart:
		k.restart(p)
	case OrphanAbroad:
		k.pause(50*time.Millisecond, 400*time.Millisecond)
		_ = p.Signal(syscall.SIGKILL)
	}
}

// restart asks for the end of a server that hangs. Where none serves it is one that hangs before it does: the connect
// timeout is for that, or where nothing is waited for, this.
func (k *killer) restart(p *os.Process) {
	k.pause(10*time.Millisecond, 100*time.Millisecond)
	if k.transport.Restart(errHung) == nil {
		return
	}
	k.pause(200*time.Millisecond, 400*time.Millisecond)
	_ = p.Signal(syscall.SIGKILL)
}

// ours reports whether the process pid is one of the run with this token, by its arguments.
func ours(pid int, token string) bool {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
	if errors.Is(err, os.ErrNotExist) {
		if _, err := os.Stat("/proc/self/cmdline"); err == nil {
			return false
		}
		text, _ = exec.Command("ps", "-ww", "-o", "command=", "-p", strconv.Itoa(pid)).Output()
	}
	return strings.Contains(string(text), token)
}

// reachable returns the processes of the run with this token that live, but for the grandchildren outside their group.
func reachable(token string) map[int]string {
	found := left(token)
	maps.DeleteFunc(found, abroad)
	return found
}

// abroad reports whether a process is in another session than this one, where servers are not.
func abroad(pid int, _ string) bool {
	theirs, err := unix.Getsid(pid)
	ours, _ := unix.Getsid(0)
	return err == nil && theirs != ours
}

// left returns the processes of the run with this token that live, by number, with their arguments; zombies apart.
func left(token string) map[int]string {
	found := make(map[int]string)
	add := func(pid int, args string) {
		if pid != os.Getpid() && strings.Contains(args, token) {
			found[pid] = args
		}
	}
	if _, err := os.Stat("/proc/self/cmdline"); err == nil {
		entries, _ := os.ReadDir("/proc")
		for _, e := range entries {
			if pid, err := strconv.Atoi(e.Name()); err == nil {
				args, _ := os.ReadFile("/proc/" + e.Name() + "/cmdline")
				add(pid, strings.ReplaceAll(string(args), "\x00", " "))
			}
		}
		return found
	}
	out, _ := exec.Command("ps", "-axww", "-o", "pid=,command=").Output()
	for line := range strings.Lines(string(out)) {
		number, args, _ := strings.Cut(strings.TrimSpace(line), " ")
		if pid, err := strconv.Atoi(number); err == nil {
			add(pid, args)
		}
	}
	return found
}

// sweep ends the grandchildren outside their group of which the killer was not told, because their parent or the round
// ended in that moment.
func (k *killer) sweep() {
	for pid, args := range left(k.token) {
		if abroad(pid, args) {
			k.act(pid, OrphanAbroad)
		}
	}
}

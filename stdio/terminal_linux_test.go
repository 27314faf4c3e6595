package stdio_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func init() { roles["host"] = hostOnTerminal }

// hostOnTerminal has a server answer before and after a Ctrl-C.
func hostOnTerminal() {
	interrupts := make(chan os.Signal, 1)
	signal.Notify(interrupts, os.Interrupt)
	ctx := context.Background()
	transport, err := self("echo").Mint(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	conn, err := transport.Connect(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer conn.Close()
	serves := func() bool {
		if err := conn.Write(ctx, call(1, `{}`)); err != nil {
			fmt.Println(err)
			return false
		}
		_, err := conn.Read(ctx)
		if err != nil {
			fmt.Println(err)
		}
		return err == nil
	}
	if serves() {
		fmt.Println("ready")
		<-interrupts
		if serves() {
			fmt.Println("still served")
		}
	}
}

func TestP6_ctrlCReachesTheHostAlone(t *testing.T) {
	master, terminal := openTerminal(t)
	host := exec.Command(os.Args[0])
	host.Env = append(os.Environ(), role+"=host", "GORACE=atexit_sleep_ms=0")
	host.Stdin = terminal
	host.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	out, err := host.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := host.Start(); err != nil {
		t.Fatal(err)
	}
	defer host.Wait()
	defer host.Process.Kill()
	lines := bufio.NewScanner(out)
	want := func(line string) {
		t.Helper()
		if !lines.Scan() || lines.Text() != line {
			t.Fatalf("want %q, got %q (%v)", line, lines.Text(), lines.Err())
		}
	}
	want("ready")
	if _, err := master.WriteString("\x03"); err != nil {
		t.Fatal(err)
	}
	want("still served")
}

// openTerminal makes a pseudo terminal.
func openTerminal(t *testing.T) (master, terminal *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { master.Close() })
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Skip(err)
	}
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Skip(err)
	}
	terminal, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { terminal.Close() })
	return master, terminal
}

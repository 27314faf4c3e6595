//go:build unix

package chaostest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// The roles that a process of a run can have, as its first argument.
const (
	roleServer = "chaos-server"
	roleOrphan = "chaos-orphan"
)

// lifetime ends what nobody ends: a server or a grandchild whose host is gone.
const lifetime = 2 * time.Minute

// Play plays the role that the command line asks for and reports whether there was one; the process is to end then.
// A binary that runs rounds calls it first.
func Play() bool {
	if len(os.Args) < 2 {
		return false
	}
	switch os.Args[1] {
	case roleServer:
		serve(os.Args[3])
	case roleOrphan:
		time.Sleep(lifetime)
	default:
		return false
	}
	return true
}

// A server is one life. Requests are read and handled by one goroutine, which is also the one that goes wrong;
// answers that take a while have one each.
type server struct {
	Plan
	in     *bufio.Reader
	ledger *os.File
	killer net.Conn // nil: none listens
	chance *rand.Rand
	feeds  []feed // those that somebody listens to
	count  int    // requests so far

	mu   sync.Mutex // held over each line that is written, and for ever where one was written in part
	seq  int        // lines written
	next int        // the number of the next notification

	slow sync.Map // id of a request that is answered later -> true; without it: it is not answered
}

// A feed is what somebody listens to: numbered notifications about a resource.
type feed struct {
	id  string // as JSON, of the listen request; empty in the old protocol
	uri string
}

// A message is what of a JSON-RPC message a server looks at.
type message struct {
	ID     json.RawMessage
	Method string
	Params struct {
		Meta struct {
			N    int64 // the number of the call
			Want int   // how long the answer is to be
		} `json:"_meta"`
		URI           string
		RequestID     json.RawMessage
		Notifications struct{ ResourceSubscriptions []string }
	}
}

func serve(plan string) {
	s := &server{in: bufio.NewReaderSize(os.Stdin, 64<<10)}
	if err := json.Unmarshal([]byte(plan), &s.Plan); err != nil {
		panic(err)
	}
	s.chance = rand.New(rand.NewPCG(s.Seed, uint64(s.Life)))
	var err error
	if s.ledger, err = os.OpenFile(s.Ledger, os.O_APPEND|os.O_WRONLY, 0); err != nil {
		panic(err)
	}
	time.AfterFunc(lifetime, func() {
		s.note("e %d its plan did not end it in %v: %v", s.Life, lifetime, s.Plan)
		os.Exit(97)
	})
	s.note("b %d %d", s.Life, os.Getpid())
	lock, err := os.Open(s.Lock)
	if err != nil {
		panic(err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		s.note("o %d", s.Life) // another server lives
	}
	s.killer, _ = net.Dial("unixgram", s.Socket)
	s.born()
	s.run()
}

// note writes a line to the ledger, in one write, before what it tells of can be known to anybody. A kill may cut even
// that write short: so a line begins with the end of the one before, and ends with a mark.
func (s *server) note(format string, args ...any) {
	if _, err := fmt.Fprintf(s.ledger, "\n"+format+endMark+"\n", args...); err != nil {
		panic(err)
	}
}

// endMark is what a whole line of the ledger ends with.
const endMark = " ."

// tell has the killer act.
func (s *server) tell(f Fault, pid int) {
	if s.killer != nil {
		fmt.Fprintf(s.killer, "%d %s", pid, f)
	}
}

// born goes wrong where the plan says so before a first request is served.
func (s *server) born() {
	switch s.Birth {
	case DiesAtStart:
		os.Exit(s.Code)
	case HangsAtStart:
		s.hang()
	}
}

// hang goes on without doing anything, and leaves it to the killer to notice.
func (s *server) hang() {
	s.tell(Restart, os.Getpid())
	time.Sleep(lifetime)
}

func (s *server) run() {
	for read := 0; ; read++ {
		line, err := s.in.ReadBytes('\n')
		if err != nil {
			return
		}
		switch {
		case s.Birth == DiesGreeting && read >= s.Lines:
			os.Exit(s.Code)
		case s.Birth == HangsGreeting && read >= s.Lines:
			s.hang()
		}
		var m message
		if err := json.Unmarshal(line, &m); err != nil {
			s.note("e %d %v", s.Life, err)
			os.Exit(98)
		}
		s.handle(m)
	}
}

func (s *server) handle(m message) {
	switch m.Method {
	case "server/discover":
		if s.Old {
			s.write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no such method"}}`, m.ID))
			return
		}
		s.answer(m, `"supportedVersions":["2026-07-28"],"capabilities":{"tools":{},"prompts":{},"completions":{},"resources":{"subscribe":true}}`)
	case "initialize":
		s.answer(m, `"protocolVersion":"2025-06-18","serverInfo":{"name":"chaos","version":"1"},"capabilities":{"tools":{},"prompts":{},"completions":{},"logging":{},"resources":{"subscribe":true}}`)
	case "subscriptions/listen":
		for _, uri := range m.Params.Notifications.ResourceSubscriptions {
			s.feeds = append(s.feeds, feed{string(m.ID), uri})
			s.written(func(seq int) string {
				s.note("k %d %d %s", s.Life, seq, uri)
				return fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":%s},"notifications":{"resourceSubscriptions":[%q]}}}`, m.ID, uri)
			})
		}
	case "resources/subscribe":
		s.feeds = append(s.feeds, feed{"", m.Params.URI})
		s.written(func(seq int) string {
			s.note("k %d %d %s", s.Life, seq, m.Params.URI)
			return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{}}`, m.ID)
		})
	case "notifications/cancelled":
		s.cancelled(string(m.Params.RequestID))
	case "":
		s.note("p %d %s", s.Life, m.ID) // an answer of the client's
	case "tools/call":
		s.request(m, 'x', `"content":[{"type":"text","text":"%s"}]`)
	case "resources/read":
		s.request(m, 'r', `"contents":[{"uri":"chaos://read","text":"%s"}]`)
	case "prompts/get":
		s.request(m, 'r', `"messages":[],"description":"%s"`)
	case "tools/list":
		s.request(m, 'r', `"tools":[{"name":"effect","description":"%s","inputSchema":{"type":"object"}}]`)
	case "completion/complete":
		s.request(m, 'r', `"completion":{"values":["%s"]}`)
	default:
		if m.ID != nil {
			s.answer(m, "")
		}
	}
}

func (s *server) cancelled(id string) {
	for i, f := range s.feeds {
		if f.id == id {
			s.feeds = append(s.feeds[:i], s.feeds[i+1:]...)
			return
		}
	}
	if s.chance.IntN(2) == 0 {
		s.slow.Delete(id)
	}
}

// request executes a request, answers it, and goes wrong on the way if it is time.
func (s *server) request(m message, kind byte, result string) {
	now := s.count
	s.count++
	s.due(now, Taken, "")
	s.note("%c %d %d", kind, s.Life, m.Params.Meta.N)
	s.due(now, Executed, "")

	reply := func(seq int) string {
		meta := fmt.Sprintf(`"_meta":{"n":%d,"life":%d,"seq":%d},`, m.Params.Meta.N, s.Life, seq)
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{%s`+result+`}}`, m.ID, meta, strings.Repeat("x", m.Params.Meta.Want))
	}
	s.mu.Lock()
	half := reply(s.seq + 1)
	s.mu.Unlock()
	switch wrote := s.due(now, Half, half); {
	case wrote: // both halves of the answer
	case s.chance.IntN(50) == 0:
		id, pause := string(m.ID), time.Duration(s.chance.IntN(20))*time.Millisecond
		s.slow.Store(id, true)
		go func() {
			time.Sleep(pause)
			if _, wanted := s.slow.LoadAndDelete(id); wanted {
				s.written(reply)
			}
		}()
	default:
		s.written(reply)
	}
	s.due(now, Answered, "")
	s.emit()
}

// emit has something happen that somebody listens to, now and then.
func (s *server) emit() {
	if len(s.feeds) == 0 || s.chance.IntN(4) != 0 {
		return
	}
	f := s.feeds[s.chance.IntN(len(s.feeds))]
	s.written(func(seq int) string {
		s.next++
		uri := fmt.Sprintf("%s/%d/%d", f.uri, s.Life, s.next)
		s.note("u %d %d %s", s.Life, seq, uri)
		meta := ""
		if f.id != "" {
			meta = fmt.Sprintf(`"_meta":{"io.modelcontextprotocol/subscriptionId":%s},`, f.id)
		}
		return fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{%s"uri":%q}}`, meta, uri)
	})
	if s.Old && s.chance.IntN(4) == 0 {
		s.written(func(seq int) string { // the ids of a life are those of any other
			s.note("q %d %d", s.Life, s.next)
			return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"roots/list"}`, s.next)
		})
	}
}

// answer answers a request with a result of these members.
func (s *server) answer(m message, members string) {
	s.write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{%s}}`, m.ID, members))
}

func (s *server) write(line string) { s.written(func(int) string { return line }) }

// written writes a line that may depend on its number in this life.
func (s *server) written(line func(seq int) string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seq++
	_, _ = os.Stdout.WriteString(line(s.seq) + "\n")
}

// due goes wrong if this is a moment of the plan, or two of them. At the point Half it writes the first half of line
// before that and, where it goes on, the other after it; it reports whether it has.
func (s *server) due(request int, at Point, line string) (wrote bool) {
	for _, m := range s.On {
		if m.Request != request || m.Point != at {
			continue
		}
		if at == Half && !wrote {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.seq++
			_, _ = os.Stdout.WriteString(line[:len(line)/2])
			wrote = true
		}
		s.strike(m.Fault)
	}
	if wrote {
		_, _ = os.Stdout.WriteString(line[len(line)/2:] + "\n")
	}
	return wrote
}

// strike goes wrong. It returns where the server goes on, be it only until the killer comes.
func (s *server) strike(f Fault) {
	switch f {
	case Kill, Term, StopKill, StopRestart, StopCont, Restart:
		s.tell(f, os.Getpid())
	case Silent:
		s.hang()
	case ExitZero:
		os.Exit(0)
	case ExitOther:
		os.Exit(s.Code)
	case CloseStdout:
		_ = os.Stdout.Close()
		time.Sleep(lifetime)
	case CloseStdin:
		_ = os.Stdin.Close()
		time.Sleep(lifetime)
	case Garbage:
		s.garbage()
		os.Exit(s.Code)
	case StrayLines:
		if s.mu.TryLock() { // else half of an answer is out, which it must not spoil
			s.garbage()
			s.mu.Unlock()
		}
	case Oversized:
		for {
			if _, err := os.Stdout.Write(bytes.Repeat([]byte{'o'}, 64<<10)); err != nil {
				time.Sleep(lifetime)
			}
		}
	case Flood:
		s.flood()
		os.Exit(s.Code)
	case StderrFlood:
		s.flood()
	case Orphan, OrphanAbroad:
		s.orphan(f == OrphanAbroad)
		os.Exit(s.Code)
	}
}

// garbage writes what is no message.
func (s *server) garbage() {
	noise := make([]byte, s.chance.IntN(2000))
	for i := range noise {
		noise[i] = byte(s.chance.Uint32())
	}
	_, _ = os.Stdout.Write(noise)
	_, _ = os.Stdout.WriteString("\n{\"status\":200}\n\nwarning: \x1b[31mred\x1b[0m\n[]\nnull\n")
}

func (s *server) flood() {
	line := bytes.Repeat([]byte("flood "), 200)
	for range 200 + s.chance.IntN(400) {
		_, _ = os.Stderr.Write(line)
	}
	_, _ = os.Stderr.WriteString("\n")
}

// orphan leaves a process behind that holds all three pipes. One abroad has left the group, where nobody but the
// killer can reach it.
func (s *server) orphan(abroad bool) {
	cmd := exec.Command(os.Args[0], roleOrphan, s.Token)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: abroad}
	if err := cmd.Start(); err != nil {
		panic(err)
	}
	if abroad {
		s.tell(OrphanAbroad, cmd.Process.Pid)
	}
}

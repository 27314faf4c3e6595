package stdio

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"sync"
	"unicode/utf8"

	"github.com/sirupsen/logrus"

	"github.com/seed7990db67/supervised/internal/records"
)

const (
	tailMax = 8 << 10 // bytes of stderr that are kept
	lineMax = 1 << 10 // bytes of a logged line
)

// A stderr reads the server's stderr for as long as anything comes, whatever becomes of it: a server whose
// stderr is full stands still.
type stderr struct {
	file    *os.File
	to      io.Writer // nil after it failed
	log     logrus.FieldLogger
	report  func(error)
	drained chan struct{} // closed by drain

	mu   sync.Mutex
	tail []byte
}

func newStderr(file *os.File, cmd Command, report func(error)) *stderr {
	s := &stderr{file: file, to: cmd.Stderr, log: cmd.Logger, report: report, drained: make(chan struct{})}
	if s.to == nil {
		s.to = &lineLog{log: cmd.Logger}
	}
	return s
}

// drain reads until the pipe ends or stop is called. It runs on a goroutine of its own.
func (s *stderr) drain() {
	defer close(s.drained)
	defer s.stop()
	chunk := make([]byte, 16<<10)
	for {
		n, err := s.file.Read(chunk)
		s.keep(chunk[:n])
		s.pass(chunk[:n])
		if err != nil {
			break
		}
	}
	if l, ok := s.to.(*lineLog); ok {
		l.flush()
		<-records.Idle(s.log) // the last words precede the exit
	}
}

// stop closes the pipe, also under a drain that waits for it. A drain that waits for the writer goes on waiting.
func (s *stderr) stop() { _ = s.file.Close() }

func (s *stderr) pass(text []byte) {
	if s.to == nil || len(text) == 0 {
		return
	}
	if _, err := s.to.Write(text); err != nil {
		s.to = nil
		s.log.Warn("the writer for stderr failed and gets no more")
		s.report(fmt.Errorf("stdio: writer for stderr failed: %w", err))
	}
}

func (s *stderr) keep(text []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tail = append(s.tail, text...)
	if len(s.tail) > 2*tailMax { // seldom, so that a byte is moved once
		s.tail = append(s.tail[:0], s.tail[len(s.tail)-tailMax:]...)
	}
}

// last returns the end of what was read so far.
func (s *stderr) last() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return string(s.tail[max(0, len(s.tail)-tailMax):])
}

// A lineLog is a writer that logs each line. Its Write never fails.
type lineLog struct {
	log  logrus.FieldLogger
	line []byte // begun, with one character more than is logged
	some bool   // a line was begun, be it empty
}

func (l *lineLog) Write(text []byte) (int, error) {
	for rest := text; len(rest) > 0; {
		piece, after, whole := bytes.Cut(rest, newline)
		l.some = true
		l.line = append(l.line, piece[:min(len(piece), lineMax+utf8.UTFMax-len(l.line))]...)
		if whole {
			l.flush()
		}
		rest = after
	}
	return len(text), nil
}

// flush logs the line that was begun, if any.
func (l *lineLog) flush() {
	if l.some {
		text := printable(bytes.TrimSuffix(l.line, []byte("\r")), lineMax)
		l.log.WithField("line", text).Info("server wrote to its stderr")
	}
	l.line, l.some = l.line[:0], false
}

// Package records keeps a logger that blocks from holding up who logs.
//
// A logger is its user's code, and what is behind it may be a disk that is full or a pipe that nobody reads. No step
// of a lifecycle, no message and no process may wait for that.
package records

import (
	"sync"
	"time"

	"github.com/benbjohnson/clock"
	"github.com/sirupsen/logrus"

	"github.com/seed7990db67/supervised/internal/ambient"
)

// limit is how many records wait for a logger. What comes then is dropped, and counted. Those at info or below, of
// which a server makes as many as it likes, get half of it.
const limit = 2048

// patience is for how long who logs a warning or worse waits for it to be passed on, so that what comes of it does not
// come before it. Once that was not enough, nobody waits until all is passed on.
const patience = 20 * time.Millisecond

// A Logger passes its records on to another one: in order, as of the time when they were made, from a goroutine that
// lives while there are any. It waits for nothing but its patience. It is safe for concurrent use; Behind makes one.
type Logger struct {
	*logrus.Logger
	to logrus.FieldLogger

	mu      sync.Mutex
	queue   []record
	dropped int           // since one was passed on that says so
	idle    chan struct{} // closed when all is passed on; nil: it is
	slow    bool          // somebody has lost patience since
}

type record struct {
	at      time.Time
	level   logrus.Level
	message string
	data    logrus.Fields
}

// Behind returns a logger that passes its records on to l: l itself where it does so already.
func Behind(l logrus.FieldLogger) logrus.FieldLogger {
	if _, already := l.(*Logger); already {
		return l
	}
	b := &Logger{Logger: ambient.Discard().(*logrus.Logger), to: l}
	b.SetLevel(logrus.TraceLevel)
	b.SetFormatter(unformatted{})
	b.AddHook(queueing{b})
	return b
}

// unformatted spares the forming of what goes nowhere.
type unformatted struct{}

func (unformatted) Format(*logrus.Entry) ([]byte, error) { return nil, nil }

// queueing is how a Logger gets its records from its logrus.Logger.
type queueing struct{ l *Logger }

func (queueing) Levels() []logrus.Level { return logrus.AllLevels }

func (q queueing) Fire(e *logrus.Entry) error {
	q.l.add(record{e.Time, e.Level, e.Message, e.Data})
	return nil
}

func (l *Logger) add(r record) {
	if !l.wanted(r.level) {
		return
	}
	if idle := l.put(r); idle != nil {
		l.await(idle)
	}
}

// put queues r. What it returns is closed when r is passed on, and nil where nobody waits for that.
func (l *Logger) put(r record) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	room := limit - len(l.queue)
	if r.level >= logrus.InfoLevel {
		room -= limit / 2
	}
	if room <= 0 {
		l.dropped++
		return nil
	}
	l.queue = append(l.queue, r)
	if l.idle == nil {
		l.idle = make(chan struct{})
		go l.pass()
	}
	if l.slow || r.level >= logrus.InfoLevel {
		return nil
	}
	return l.idle
}

// await waits for idle, and loses patience.
func (l *Logger) await(idle <-chan struct{}) {
	timer := clock.New().Timer(patience) // the system's: what it bounds has nothing to do with any other
	defer timer.Stop()
	select {
	case <-idle:
	case <-timer.C:
		l.mu.Lock()
		defer l.mu.Unlock()
		l.slow = l.idle != nil
	}
}

// wanted reports whether the logger behind takes records of a level, as far as it can be asked.
func (l *Logger) wanted(level logrus.Level) bool {
	switch to := l.to.(type) {
	case *logrus.Logger:
		return to.IsLevelEnabled(level)
	case *logrus.Entry:
		return to.Logger.IsLevelEnabled(level)
	}
	return true
}

func (l *Logger) pass() {
	for {
		rs, dropped := l.next()
		for _, r := range rs {
			l.to.WithFields(r.data).WithTime(r.at).Log(r.level, r.message)
		}
		switch {
		case dropped > 0:
			l.to.WithField("records", dropped).Warn("the logger was too slow, and records were dropped")
		case len(rs) == 0:
			return
		}
	}
}

// next takes what there is. Where that is nothing, all is passed on.
func (l *Logger) next() (rs []record, dropped int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	rs, dropped = l.queue, l.dropped
	l.queue, l.dropped = nil, 0
	if len(rs) == 0 && dropped == 0 {
		close(l.idle)
		l.idle, l.slow = nil, false
	}
	return rs, dropped
}

// Idle returns a channel that is closed when all is passed on that l has got. For a logger that is no Logger it is
// closed.
func Idle(l logrus.FieldLogger) <-chan struct{} {
	if l, ok := l.(*Logger); ok {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.idle != nil {
			return l.idle
		}
	}
	return passed
}

var passed = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

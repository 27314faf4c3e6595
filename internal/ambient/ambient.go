// Package ambient carries the supervisor's logger and clock to the transports that its factory mints.
//
// A factory is called with a context and nothing else, so what belongs to the supervisor and is wanted by a
// wrapped transport travels there. Neither side imports the other.
package ambient

import (
	"context"
	"io"

	"github.com/benbjohnson/clock"
	"github.com/sirupsen/logrus"
)

type loggerKey struct{}

type clockKey struct{}

// With returns a context that carries l and c.
func With(ctx context.Context, l logrus.FieldLogger, c clock.Clock) context.Context {
	return context.WithValue(context.WithValue(ctx, loggerKey{}, l), clockKey{}, c)
}

// Logger returns own, or where that is nil the logger that ctx carries, or where there is none one that
// discards.
func Logger(ctx context.Context, own logrus.FieldLogger) logrus.FieldLogger {
	if own != nil {
		return own
	}
	if l, ok := ctx.Value(loggerKey{}).(logrus.FieldLogger); ok {
		return l
	}
	return Discard()
}

// Clock returns own, or where that is nil the clock that ctx carries, or where there is none the system's.
func Clock(ctx context.Context, own clock.Clock) clock.Clock {
	if own != nil {
		return own
	}
	if c, ok := ctx.Value(clockKey{}).(clock.Clock); ok {
		return c
	}
	return clock.New()
}

// Discard returns a logger that writes nothing. Its level is the lowest there is, so that a record costs no
// formatting.
func Discard() logrus.FieldLogger {
	l := logrus.New()
	l.SetOutput(io.Discard)
	l.SetLevel(logrus.PanicLevel)
	return l
}

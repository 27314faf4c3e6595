package supervised

import (
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/benbjohnson/clock"
	"github.com/sirupsen/logrus"

	"github.com/seed7990db67/supervised/budget"
	"github.com/seed7990db67/supervised/internal/ambient"
	"github.com/seed7990db67/supervised/internal/records"
	"github.com/seed7990db67/supervised/retry"
)

// The defaults of the options.
const (
	DefaultMaxRestarts    = 3
	DefaultRestartDelay   = 100 * time.Millisecond
	DefaultRestartWindow  = 60 * time.Second
	DefaultConnectTimeout = 30 * time.Second
	DefaultProbeTimeout   = 10 * time.Second
	DefaultDrainTimeout   = 5 * time.Second
	DefaultStreamBuffer   = 1024
)

// An Option changes how New builds a Transport. Where one is given twice, the last counts.
type Option func(*options) error

type options struct {
	maxRestarts    int
	restartDelay   time.Duration
	restartWindow  time.Duration
	tumbling       string // the last option given that a budget of the caller's own replaces; "": none
	budget         budget.Budget
	clock          clock.Clock
	logger         logrus.FieldLogger
	retain         retry.Policy
	connectTimeout time.Duration
	probeTimeout   time.Duration
	drainTimeout   time.Duration
	streamBuffer   int
	refresh        bool
}

// newOptions applies opts to the defaults. The error names every option that is wrong, not only the first.
func newOptions(opts []Option) (options, error) {
	o := options{
		maxRestarts:    DefaultMaxRestarts,
		restartDelay:   DefaultRestartDelay,
		restartWindow:  DefaultRestartWindow,
		retain:         retry.Never,
		connectTimeout: DefaultConnectTimeout,
		probeTimeout:   DefaultProbeTimeout,
		drainTimeout:   DefaultDrainTimeout,
		streamBuffer:   DefaultStreamBuffer,
	}
	var errs []error
	for _, opt := range opts {
		if opt == nil {
			errs = append(errs, errors.New("supervised: nil Option"))
			continue
		}
		errs = append(errs, opt(&o))
	}
	if o.budget != nil && o.tumbling != "" {
		errs = append(errs, fmt.Errorf("supervised: WithBudget replaces %s: give one of them", o.tumbling))
	}
	if err := errors.Join(errs...); err != nil {
		return options{}, err
	}
	if o.budget == nil {
		b, err := budget.NewTumbling(o.maxRestarts, o.restartWindow, o.restartDelay)
		if err != nil {
			return options{}, err
		}
		o.budget = b
	}
	if o.clock == nil {
		o.clock = clock.New()
	}
	if o.logger == nil {
		o.logger = ambient.Discard()
	} else {
		o.logger = records.Behind(o.logger)
	}
	return o, nil
}

// WithMaxRestarts sets how many restarts the window allows: by default DefaultMaxRestarts, at least 1.
func WithMaxRestarts(n int) Option {
	return func(o *options) error {
		o.maxRestarts, o.tumbling = n, "WithMaxRestarts"
		if n < 1 {
			return fmt.Errorf("supervised: WithMaxRestarts(%d): want at least 1", n)
		}
		return nil
	}
}

// WithRestartDelay sets how long after a death its replacement is minted: by default DefaultRestartDelay; 0 is at once.
// Reaping the old peer and the OnClose hooks run in that time, and may make it longer.
func WithRestartDelay(d time.Duration) Option {
	return func(o *options) error {
		o.restartDelay, o.tumbling = d, "WithRestartDelay"
		return notNegative("WithRestartDelay", d)
	}
}

// WithRestartWindow sets the time in which the restarts are counted: by default DefaultRestartWindow, more than 0.
func WithRestartWindow(d time.Duration) Option {
	return func(o *options) error {
		o.restartWindow, o.tumbling = d, "WithRestartWindow"
		if d <= 0 {
			return fmt.Errorf("supervised: WithRestartWindow(%v): want more than 0", d)
		}
		return nil
	}
}

// WithBudget sets a budget in place of WithMaxRestarts, WithRestartDelay and WithRestartWindow. One budget may
// be shared by several transports.
func WithBudget(b budget.Budget) Option {
	return func(o *options) error {
		o.budget = b
		return notNil("WithBudget", b)
	}
}

// WithClock sets the clock that all time is taken from: clock.New(). It must be monotonic.
func WithClock(c clock.Clock) Option {
	return func(o *options) error {
		o.clock = c
		return notNil("WithClock", c)
	}
}

// WithLogger sets where the log records go; without it they are discarded. Messages are constant, what varies
// is in the fields. A transport of package stdio logs there too, unless it has a logger of its own.
//
// The logger is called from one goroutine at a time, and nothing waits for it: one that blocks, or that is behind by
// more than two thousand records, misses what comes then, and is told how many those were. Close waits a quarter of a
// second at most for the last records to be taken.
func WithLogger(l logrus.FieldLogger) Option {
	return func(o *options) error {
		o.logger = l
		return notNil("WithLogger", l)
	}
}

// WithRetryLostRequests keeps the calls in flight at a death that only read (retry.ReadOnly): they are sent again
// to the replacement under the same id, and the caller never learns that the peer changed. Without it they fail
// with ErrPeerLost.
func WithRetryLostRequests() Option { return WithRetryPolicy(retry.ReadOnly) }

// WithRetryPolicy sets which of the calls in flight at a death are sent again to the replacement, under the
// same id, instead of failing with ErrPeerLost: retry.Never. A call that is sent again may run twice.
func WithRetryPolicy(p retry.Policy) Option {
	return func(o *options) error {
		o.retain = p
		return notNil("WithRetryPolicy", p)
	}
}

// WithConnectTimeout bounds one replacement's mint, start, handshake and replay together:
// by default DefaultConnectTimeout; 0 is no bound. The first connection is bounded by the context of Connect alone.
func WithConnectTimeout(d time.Duration) Option {
	return func(o *options) error {
		o.connectTimeout = d
		return notNegative("WithConnectTimeout", d)
	}
}

// WithProbeTimeout bounds how long a server may take to answer server/discover where that is the first request
// of all: by default DefaultProbeTimeout; 0 is no bound. Servers of an older protocol may exit on it or stay silent. A fresh
// process then gets the older handshake, and no restart is spent.
func WithProbeTimeout(d time.Duration) Option {
	return func(o *options) error {
		o.probeTimeout = d
		return notNegative("WithProbeTimeout", d)
	}
}

// WithDrainTimeout bounds the context of the OnDrain hooks, and with it how long Close leaves the connection
// open for them: by default DefaultDrainTimeout; 0 is no bound.
func WithDrainTimeout(d time.Duration) Option {
	return func(o *options) error {
		o.drainTimeout = d
		return notNegative("WithDrainTimeout", d)
	}
}

// WithStreamBuffer sets by how many deliveries the handler of a Stream may lag before the stream ends with
// ErrDeliveryDropped: by default DefaultStreamBuffer, at least 1.
func WithStreamBuffer(n int) Option {
	return func(o *options) error {
		o.streamBuffer = n
		if n < 1 {
			return fmt.Errorf("supervised: WithStreamBuffer(%d): want at least 1", n)
		}
		return nil
	}
}

// WithRefreshNotices has the client told after each respawn, when the OnReconnect hooks have returned, that the
// lists of tools, prompts and resources have changed, those of them that the server has: so that it drops what
// it has cached of a server that is gone.
func WithRefreshNotices() Option {
	return func(o *options) error {
		o.refresh = true
		return nil
	}
}

func notNegative(option string, d time.Duration) error {
	if d < 0 {
		return fmt.Errorf("supervised: %s(%v): negative", option, d)
	}
	return nil
}

func notNil(option string, v any) error {
	if isNil(v) {
		return fmt.Errorf("supervised: %s(nil)", option)
	}
	return nil
}

// isNil reports whether v is nil or holds a nil pointer or func.
func isNil(v any) bool {
	if v == nil {
		return true
	}
	switch r := reflect.ValueOf(v); r.Kind() {
	case reflect.Pointer, reflect.Func:
		return r.IsNil()
	}
	return false
}

package deliver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
	"github.com/informd/informd/pkg/sink"
)

// The bounds of one batch. A single event may exceed the bytes.
const (
	maxBatchEvents = 256
	maxBatchBytes  = 1 << 20
)

// closeTimeout is how long a sink may take to close, and how long Drain waits
// for a sink that does not return from a cancelled write.
const closeTimeout = 5 * time.Second

// Options describe one sink to deliver to.
type Options struct {
	// Name is unique among the sinks; it names the cursor, too.
	Name string
	// Setup is what the sink begins with.
	Setup
	// DeadLetters takes what the sink refuses for good.
	DeadLetters *DeadLetters
	// Logger already names the sink.
	Logger *slog.Logger
	// Registerer takes the sink's metrics. Those of one name must not be
	// registered twice at a time.
	Registerer prometheus.Registerer
}

// Cursor is a [journal.Cursor], or what a test plays in its place.
type Cursor interface {
	Read(ctx context.Context, limit int) ([]journal.Entry, error)
	Commit(seq uint64) error
	Reset(ctx context.Context) error
	Rewind(ctx context.Context, since time.Time) (uint64, error)
	Rewindable() error
	Request(ctx context.Context, r journal.Resnapshot) error
	Requests() []journal.Resnapshot
	Complete(run uint64) (bool, error)
	Lag() journal.Lag
	Note() string
	SetNote(note string)
	KeepGap(e event.Event)
	Log() string
	Acknowledged() uint64
	Acknowledge(seq uint64)
	Close() error
}

// Runner delivers from a journal to one sink. Run does the work; the other
// methods may be called concurrently with it.
type Runner struct {
	options Options
	setup   Setup // of now; of Run
	cursor  Cursor
	end     func() uint64 // the last sequence of the journal
	health  *health
	metrics *metrics
	// requests are what an operator asks for meanwhile.
	requests    *requests
	resnapshots resnapshots
	stopped     bool // Stop was called; of Run

	drainOnce sync.Once
	until     uint64          // the last sequence to deliver, valid once draining has ended
	draining  context.Context //nolint:containedctx // ends: deliver up to until, then end
	drain     context.CancelFunc
	aborted   context.Context //nolint:containedctx // ends: end now
	abort     context.CancelFunc
	done      chan struct{} // closed when Run has ended
	left      uint64        // what was not delivered, valid once done is closed
}

// New takes over the sink's cursor and registers its metrics; it does not contact
// the destination. End returns the last sequence of the journal. Run must be called
// once, also to give both back: with a context that has ended it does no more than that.
func New(cursor Cursor, end func() uint64, o Options) (*Runner, error) {
	r := &Runner{
		options:     o,
		setup:       o.Setup,
		cursor:      cursor,
		end:         end,
		health:      &health{logger: o.Logger, status: Status{Name: o.Name, Type: o.Setup.Type, State: Opening}},
		requests:    newRequests(),
		resnapshots: resnapshots{waiting: make(map[uint64]chan map[string]int)},
		done:        make(chan struct{}),
	}
	r.draining, r.drain = context.WithCancel(context.Background())
	r.aborted, r.abort = context.WithCancel(context.Background())
	state := func() State { return r.health.snapshot().State }
	var err error
	if r.metrics, err = registerMetrics(o.Registerer, o.Name, cursor.Lag, state); err != nil {
		return nil, errors.Join(fmt.Errorf("sink %q: %w", o.Name, err), cursor.Close())
	}
	return r, nil
}

// Note returns the last note about the sink, also of an earlier process, or an empty string.
func (r *Runner) Note() string { return r.cursor.Note() }

// SetNote replaces the note.
func (r *Runner) SetNote(note string) { r.cursor.SetNote(note) }

// KeepGap keeps a gap event of the sink for [journal.History].
func (r *Runner) KeepGap(e event.Event) { r.cursor.KeepGap(e) }

// Status describes the sink now.
func (r *Runner) Status() Status {
	s := r.health.snapshot()
	lag := r.cursor.Lag()
	if s.State == Stopped {
		lag = journal.Lag{Events: r.left}
	}
	s.LagEvents, s.LagSeconds, s.Resnapshots = lag.Events, lag.Seconds, r.pending()
	return s
}

// Run opens the sink, trying until it works, and delivers until ctx ends, until
// [Runner.Drain] is complete, or until the journal is closed, which is the only
// error. Then it closes the sink and the cursor. A write in progress when ctx
// ends may or may not arrive; it is not committed.
func (r *Runner) Run(ctx context.Context) error {
	defer close(r.done)
	ctx, cancel := context.WithCancel(ctx)
	// The idle context also ends when draining begins, to wake a waiting read.
	idle, wake := context.WithCancel(ctx)
	defer context.AfterFunc(r.draining, wake)()
	defer context.AfterFunc(r.aborted, cancel)()
	err := r.runAll(ctx, idle)
	wake()
	cancel()
	r.finish()
	if errors.Is(err, journal.ErrClosed) {
		return fmt.Errorf("deliver to sink %q: %w", r.options.Name, err)
	}
	return nil
}

// finish gives back what New took.
func (r *Runner) finish() {
	r.left = r.cursor.Lag().Events
	r.metrics.unregister()
	if err := r.cursor.Close(); err != nil && !errors.Is(err, journal.ErrClosed) {
		r.options.Logger.Warn("cursor not closed; recent events may repeat", "err", err)
	}
	r.health.setState(Stopped) // a reload may open the cursor again
}

// Drain lets Run deliver what the journal holds at this moment, and end. It
// blocks until Run has ended; when ctx ends first, delivery is cut off. It
// returns how many events the journal still holds for this sink. Run must have
// been started. The error says
// that the sink does not return from a write although its context ended.
func (r *Runner) Drain(ctx context.Context) (left uint64, err error) {
	r.drainOnce.Do(func() {
		r.until = r.end()
		r.drain()
	})
	select {
	case <-r.done:
		return r.left, nil
	case <-ctx.Done():
	}
	r.abort()
	select {
	case <-r.done:
		return r.left, nil
	case <-time.After(2 * closeTimeout):
		return r.cursor.Lag().Events, fmt.Errorf("sink %q does not stop: it hangs in a write or close", r.options.Name)
	}
}

// isDraining reports whether Drain was called.
func (r *Runner) isDraining() bool { return r.draining.Err() != nil }

// runAll delivers by one setup after the other.
func (r *Runner) runAll(ctx, idle context.Context) error {
	for {
		limited, end := r.changeable(ctx)
		err := r.run(limited, idle)
		end()
		if ctx.Err() != nil || !r.requests.changed() || errors.Is(err, journal.ErrClosed) {
			return err
		}
		if err := r.makeChanges(ctx); err != nil || r.stopped {
			return err
		}
	}
}

// run opens the sink, delivers, and closes the sink.
func (r *Runner) run(ctx, idle context.Context) error {
	s, err := r.open(ctx)
	if s == nil {
		return err
	}
	r.health.setState(Running)
	w := &writer{runner: r, sink: s}
	in := &reader{runner: r, route: r.setup.Route, idle: idle}
	if r.setup.Lanes > 1 {
		err = runLanes(ctx, r.setup.Lanes, in, w)
	} else {
		err = runPlain(ctx, in, w)
	}
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	if err := r.guard(func() error { return s.Close(closing) }); err != nil {
		r.options.Logger.Warn("sink not closed cleanly; recent events may repeat", "err", err)
	}
	return err
}

// open opens the sink, with backoff until it works or ctx ends, or another setup is
// wanted. It returns no sink and no error if draining finds nothing to deliver.
func (r *Runner) open(ctx context.Context) (sink.Sink, error) {
	t := trouble{runner: r}
	for ctx.Err() == nil {
		if r.isDraining() && r.cursor.Lag().Events == 0 {
			return nil, nil //nolint:nilnil // nothing to do is no error
		}
		if r.requests.changed() {
			return nil, errReplaced
		}
		var s sink.Sink
		err := r.guard(func() (err error) {
			s, err = r.setup.Open(ctx)
			return err
		})
		if err == nil {
			t.over()
			return s, nil
		}
		t.pause(ctx, fmt.Errorf("open: %w", err))
	}
	return nil, ctx.Err()
}

// guard calls into the sink and turns a panic into a *panicError.
func (r *Runner) guard(f func() error) (err error) {
	defer func() {
		if value := recover(); value != nil {
			p := &panicError{value: value, stack: debug.Stack()}
			r.health.panicked(p)
			r.metrics.panics.Inc()
			err = p
		}
	}()
	return f()
}

// panicError is a panic in a sink's code.
type panicError struct {
	value any
	stack []byte
}

func (p *panicError) Error() string { return fmt.Sprintf("sink panicked: %v", p.value) }

// runPlain delivers in the order of the journal, one batch after the other.
func runPlain(ctx context.Context, in *reader, w *writer) error {
	events := make([]event.Event, 0, maxBatchEvents)
	seqs := make([]uint64, 0, maxBatchEvents)
	var rest []uint64
	handled := func(n int) {
		if rest = rest[n:]; len(rest) > 0 && rest[0] > 0 {
			in.commit(rest[0] - 1)
		}
	}
	for {
		entries, err := in.next(ctx)
		if len(entries) == 0 {
			return err
		}
		for i := range entries {
			if in.admits(&entries[i]) {
				events, seqs = append(events, entries[i].Event), append(seqs, entries[i].Seq)
			}
		}
		last := entries[len(entries)-1].Seq
		rest = seqs
		if err = w.deliver(ctx, events, seqs, handled); err != nil {
			return err
		}
		in.commit(last)
		in.conclude()
		clear(events) // let go of the objects while waiting for the next
		events, seqs = events[:0], seqs[:0]
	}
}

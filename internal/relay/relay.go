// Package relay keeps a journal in the user's NATS server usable over the accidents that
// happen there: a stream is deleted or purged, the lease could not be refreshed in time.
// A call that an accident breaks off waits until the journal works again, and is repeated.
//
// If the journal has lost its events, the relay opens it again, which creates missing
// streams. It appends the newest events that a sink has not committed, and has the caller
// announce every object again. Sequences count up over the replacement.
//
// Package daemon makes a relay for journal.type nats. The embedded journal and the memory
// journal need none.
package relay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
	"github.com/informd/informd/pkg/journal/jetstream"
	"github.com/informd/informd/pkg/journal/lease"
)

// Options are what a relay works by. All fields are required.
type Options struct {
	// Open opens the journal, at first with nil.
	Open func(ctx context.Context, replaces *jetstream.Journal) (*jetstream.Journal, error)
	// Wait blocks while the lease is paused: [lease.Lease.Wait].
	Wait func(ctx context.Context) error
	// Replaced is called when the journal was opened again, and says whether events were
	// lost.
	Replaced func(lost bool)
	Logger   *slog.Logger
}

// Journal is a [journal.Journal].
type Journal struct {
	options Options
	life    context.Context //nolint:containedctx // ends with Close
	end     context.CancelFunc
	// failed ends with the failure that only a new process resolves.
	failed  context.Context //nolint:containedctx // has the failure as its cause
	fail    context.CancelCauseFunc
	running sync.WaitGroup

	mu      sync.Mutex
	now     *generation
	cursors map[*cursor]struct{}
	bound   string // UID of the cluster, empty before Bind
	// passed sums up what earlier generations have counted.
	passed journal.Stats
	// lost is since when the journal is being opened again, zero if it is not.
	lost time.Time
	// problem says why it could not be opened again yet.
	problem error
}

// generation is one opening of the journal.
type generation struct {
	journal *jetstream.Journal
	// base is what its sequences are shifted by.
	base uint64
	// over is closed when the next generation is there.
	over chan struct{}
}

// Open opens the journal for the first time.
func Open(ctx context.Context, o Options) (*Journal, error) {
	first, err := o.Open(ctx, nil)
	if err != nil {
		return nil, err
	}
	j := &Journal{
		options: o, now: &generation{journal: first, over: make(chan struct{})}, cursors: make(map[*cursor]struct{}),
	}
	j.life, j.end = context.WithCancel(context.WithoutCancel(ctx))
	j.failed, j.fail = context.WithCancelCause(context.WithoutCancel(ctx))
	j.running.Go(func() { j.watch(j.life) })
	return j, nil
}

func (j *Journal) current() *generation {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.now
}

// do calls f with the journal until it succeeds, or fails for good.
func (j *Journal) do(ctx context.Context, f func(g *generation) error) error {
	for {
		g := j.current()
		err := f(g)
		if err == nil {
			return nil
		}
		if err := j.again(ctx, g, err); err != nil {
			return err
		}
	}
}

// again waits until a call that failed can be repeated. It returns the error of a call
// that cannot.
func (j *Journal) again(ctx context.Context, g *generation, err error) error {
	if j.life.Err() != nil {
		return journal.ErrClosed
	}
	if errors.Is(err, lease.ErrPaused) {
		return j.options.Wait(ctx)
	}
	lost := errors.Is(g.journal.Failure(), jetstream.ErrLost)
	if !errors.Is(err, jetstream.ErrLost) && (!lost || !errors.Is(err, journal.ErrClosed)) {
		if errors.Is(err, jetstream.ErrFenced) {
			j.fail(err)
		}
		return err
	}
	select {
	case <-g.over:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("journal lost and not replaced yet: %w", ctx.Err())
	case <-j.life.Done():
		return journal.ErrClosed
	}
}

// Append implements [journal.Journal]. A repetition leaves out the events that were stored:
// if their stream was deleted meanwhile, they are appended again as unread ones.
func (j *Journal) Append(ctx context.Context, events []event.Event) error {
	return j.do(ctx, func(g *generation) (err error) {
		events, err = g.journal.AppendRest(ctx, events)
		return err
	})
}

// Await implements [journal.Log].
func (j *Journal) Await(ctx context.Context, events []event.Event) (n int, err error) {
	err = j.do(ctx, func(g *generation) (err error) {
		n, err = g.journal.Await(ctx, events)
		return err
	})
	return n, err
}

// Restore implements [journal.Journal].
func (j *Journal) Restore(ctx context.Context, target string, last func(event.Event)) (c journal.Checkpoint, err error) {
	err = j.do(ctx, func(g *generation) (err error) {
		c, err = g.journal.Restore(ctx, target, last)
		return err
	})
	return c, err
}

// Mark implements [journal.Journal].
func (j *Journal) Mark(ctx context.Context, target string, mark []byte) error {
	return j.do(ctx, func(g *generation) error { return g.journal.Mark(ctx, target, mark) })
}

// Last implements [journal.Journal].
func (j *Journal) Last(ctx context.Context, of *event.Event) (last event.Event, found bool, err error) {
	err = j.do(ctx, func(g *generation) (err error) {
		last, found, err = g.journal.Last(ctx, of)
		return err
	})
	return last, found, err
}

// Failed implements [journal.Log]. A journal that can be opened again has not failed.
func (j *Journal) Failed() <-chan struct{} { return j.failed.Done() }

// Failure implements [journal.Log].
func (j *Journal) Failure() error { return context.Cause(j.failed) }

// Bind is [jetstream.Journal.Bind], repeated after every replacement.
func (j *Journal) Bind(ctx context.Context, clusterUID string) error {
	err := j.do(ctx, func(g *generation) error { return g.journal.Bind(ctx, clusterUID) })
	if err == nil {
		j.mu.Lock()
		j.bound = clusterUID
		j.mu.Unlock()
	}
	return err
}

// Stats implements [journal.Journal].
func (j *Journal) Stats() journal.Stats {
	j.mu.Lock()
	g, passed := j.now, j.passed
	passed.Dropped = maps.Clone(passed.Dropped)
	j.mu.Unlock()
	s := g.journal.Stats()
	s.LastSeq += g.base
	s.Lost += passed.Lost
	s.Oversize += passed.Oversize
	s.Foreign += passed.Foreign
	s.Overtaken += passed.Overtaken
	s.Unstorable += passed.Unstorable
	s.Dropped = addDropped(passed.Dropped, s.Dropped)
	return s
}

// Close implements [journal.Journal].
func (j *Journal) Close() error {
	if j.life.Err() != nil {
		return journal.ErrClosed
	}
	j.end()
	j.running.Wait()
	err := j.current().journal.Close()
	if errors.Is(err, journal.ErrClosed) {
		return nil // it was lost, and could not be opened again
	}
	return err
}

// Problem says why the journal is being opened again, empty if it is not.
func (j *Journal) Problem() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.lost.IsZero() {
		return ""
	}
	text := fmt.Sprintf("%v; informd creates its streams again", j.now.journal.Failure())
	if j.problem != nil {
		text += fmt.Sprintf(", which fails since %s: %v", time.Since(j.lost).Round(time.Second), j.problem)
	}
	return text
}

const (
	// keepFor is how long the lease is kept while the journal cannot be opened again, out
	// of every fitCycle: in the rest another informd can take the lease and try.
	keepFor  = 10 * time.Second
	fitCycle = 30 * time.Second
)

// Fit reports whether this process should keep the lease.
func (j *Journal) Fit() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.lost.IsZero() || time.Since(j.lost)%fitCycle < keepFor
}

// Verify is for [lease.Options.Resume].
func (j *Journal) Verify(ctx context.Context) error {
	err := j.current().journal.Owned(ctx)
	if errors.Is(err, jetstream.ErrFenced) {
		return fmt.Errorf("%w: %w", lease.ErrLost, err)
	}
	return err
}

var _ journal.Journal = (*Journal)(nil)

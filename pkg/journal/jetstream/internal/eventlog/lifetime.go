package eventlog

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/informd/informd/pkg/journal"
	"github.com/informd/informd/pkg/journal/jetstream/internal/conflict"
)

// Lifetime is how long the journal works: until Close, or until its streams are no longer what
// they were. Its methods may be called concurrently.
type Lifetime struct {
	logger *slog.Logger
	stream string
	// permitted returns why nothing may be appended or read now, besides a failure.
	permitted func() error
	// wake wakes the reads in progress.
	wake func()

	Life context.Context //nolint:containedctx // ends with Close; bounds what outlives a call
	End  context.CancelCauseFunc
	// Lost is [journal.Stats.Lost].
	Lost atomic.Uint64

	mu      sync.Mutex
	failure error // the log is not the one it was; nil while it is
	// Failed ends with failure, or when another process has a newer event of an object.
	Failed context.Context //nolint:containedctx // has the failure as its cause
	Fail   context.CancelCauseFunc
}

// NewLifetime returns a Lifetime that has begun. Wake is called after a failure.
func NewLifetime(ctx context.Context, logger *slog.Logger, stream string, permitted func() error, wake func()) *Lifetime {
	l := &Lifetime{logger: logger, stream: stream, permitted: permitted, wake: wake}
	l.Life, l.End = context.WithCancelCause(context.WithoutCancel(ctx))
	l.Failed, l.Fail = context.WithCancelCause(context.WithoutCancel(ctx))
	return l
}

// Usable returns why a call cannot even begin.
func (l *Lifetime) Usable(ctx context.Context) error {
	if l.Life.Err() != nil {
		return journal.ErrClosed
	}
	return ctx.Err()
}

// Allowed returns why nothing may be appended or read now.
func (l *Lifetime) Allowed() error {
	if err := l.permitted(); err != nil {
		return err
	}
	return l.Loss()
}

// Lose makes all later calls fail: the server contradicts an earlier answer.
func (l *Lifetime) Lose(err error) {
	l.Stop(err, 1)
}

// Stop makes all later calls fail, and the reads in progress. It adds lost to
// [journal.Stats.Lost] before it closes [Journal.Failed], whose readers take the counts.
func (l *Lifetime) Stop(err error, lost uint64) {
	l.mu.Lock()
	if l.failure != nil {
		l.mu.Unlock()
		return
	}
	l.failure = err
	l.Lost.Add(lost)
	l.Fail(err)
	l.mu.Unlock()
	logger := l.logger.With(slog.String("stream", l.stream), slog.Any("err", err))
	switch {
	case errors.Is(err, conflict.ErrFenced):
		logger.Warn("another informd wrote to the journal; informd stops")
	case errors.Is(err, conflict.ErrLost):
		logger.Warn("journal stream changed; reopening the journal")
	default:
		logger.Warn("journal unusable; restart the program")
	}
	l.wake()
}

// Loss returns the failure, nil if there is none.
func (l *Lifetime) Loss() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failure
}

// Within returns a context that also ends with the journal.
func (l *Lifetime) Within(ctx context.Context) (context.Context, context.CancelFunc) {
	return Both(ctx, l.Life)
}

// Cause returns the reason of a failed call: ctx is the caller's.
func (l *Lifetime) Cause(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case l.Life.Err() != nil:
		return journal.ErrClosed
	}
	return err
}

// Both returns a context that ends with either.
func Both(ctx, other context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(other, func() { cancel(context.Cause(other)) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

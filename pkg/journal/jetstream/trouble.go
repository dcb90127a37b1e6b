package jetstream

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"
)

// trouble logs when something begins to fail and when it works again, not what
// is between. Its methods may be called concurrently.
type trouble struct {
	logger *slog.Logger
	what   string
	report func(call string, err error) // nil: no caller asks

	mu    sync.Mutex
	since time.Time // zero: there is none
	full  bool
}

func (t *trouble) begin(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	full := isFull(err)
	if t.report != nil {
		t.report(t.what, err)
	}
	if !t.since.IsZero() && (t.full || !full) {
		return
	}
	if t.since.IsZero() {
		t.since = time.Now()
	}
	t.full = full
	if storage, ok := errors.AsType[*StorageError](err); ok {
		t.logger.Error("journal not opened; retrying", slog.Any("err", storage))
		return
	}
	if full {
		t.logger.Error("journal full; watches paused until space is free", slog.Any("err", err),
			slog.String("next", "raise journal.maxBytes and the stream's max_bytes, lower journal.historyPerObject, or free disk space on the NATS server"))
		return
	}
	t.logger.Warn("journal unavailable; retrying", slog.String("call", t.what), slog.Any("err", err))
}

func (t *trouble) over() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.since.IsZero() {
		return
	}
	if t.report != nil {
		t.report(t.what, nil)
	}
	t.logger.Info("journal recovered", slog.String("call", t.what), slog.Duration("outage", time.Since(t.since).Round(time.Millisecond)))
	t.since, t.full = time.Time{}, false
}

const (
	firstPause = 20 * time.Millisecond
	// shortPause is the longest pause in the first shortPauses: a server that elects a
	// leader works again at any moment.
	shortPause  = 400 * time.Millisecond
	shortPauses = 60
	lastPause   = 2 * time.Second
)

// backoff is the pause between attempts: it grows, with jitter.
type backoff struct {
	next   time.Duration
	pauses int
}

func (b *backoff) wait(ctx context.Context) error {
	longest := shortPause
	if b.pauses++; b.pauses > shortPauses {
		longest = lastPause
	}
	b.next = min(max(2*b.next, firstPause), longest)
	jitter := rand.N(b.next / 2) //nolint:gosec // spreads attempts, no secret
	return sleep(ctx, b.next/2+jitter)
}

// sleep waits, or returns why ctx ended.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// finalError ends a retry: trying again would not help.
type finalError struct{ err error }

func (f *finalError) Error() string { return f.err.Error() }
func (f *finalError) Unwrap() error { return f.err }

// final marks an error as one that trying again does not mend. final(nil) is nil.
func final(err error) error {
	if err == nil {
		return nil
	}
	return &finalError{err}
}

// retry calls do until it succeeds, returns a final error, or ctx ends. Each call
// has requestTimeout.
func retry(ctx context.Context, t *trouble, do func(ctx context.Context) error) error {
	var pause backoff
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		limited, cancel := context.WithTimeout(ctx, requestTimeout)
		err := do(limited)
		cancel()
		if err == nil {
			t.over()
			return nil
		}
		if f, ok := errors.AsType[*finalError](err); ok {
			return f.err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		t.begin(err)
		if err := pause.wait(ctx); err != nil {
			return err
		}
	}
}

// retrySoon is retry for one request: a call has a short time, as the server may lose it
// while it elects a leader.
func (j *Journal) retrySoon(ctx context.Context, t *trouble, do func(ctx context.Context) error) error {
	return retry(ctx, t, func(ctx context.Context) error { return j.ask(ctx, do) })
}

// ask puts one question to the server and waits as long as an answer may take.
func (j *Journal) ask(ctx context.Context, question func(ctx context.Context) error) error {
	limited, cancel := context.WithTimeout(ctx, j.patience.Now())
	defer cancel()
	began := time.Now()
	err := question(limited)
	switch {
	case err == nil:
		j.patience.Answered(time.Since(began))
	case limited.Err() != nil && ctx.Err() == nil:
		j.patience.Unanswered()
	}
	return err
}

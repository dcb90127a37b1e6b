package server

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/nats-io/nats.go"
)

// Timeout bounds a request to the server.
const Timeout = 5 * time.Second

const (
	firstPause = 20 * time.Millisecond
	// shortPause is the longest pause in the first shortPauses: a server that elects a
	// leader works again at any moment.
	shortPause  = 400 * time.Millisecond
	shortPauses = 60
	// LastPause is the longest pause between two attempts.
	LastPause = 2 * time.Second
)

// Backoff is the pause between attempts: it grows, with jitter.
type Backoff struct {
	next   time.Duration
	pauses int
}

// Wait waits for the next pause, or returns why ctx ended.
func (b *Backoff) Wait(ctx context.Context) error {
	longest := shortPause
	if b.pauses++; b.pauses > shortPauses {
		longest = LastPause
	}
	b.next = min(max(2*b.next, firstPause), longest)
	jitter := rand.N(b.next / 2) //nolint:gosec // spreads attempts, no secret
	return Sleep(ctx, b.next/2+jitter)
}

// Sleep waits, or returns why ctx ended.
func Sleep(ctx context.Context, d time.Duration) error {
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

// Final marks an error as one that trying again does not mend. Final(nil) is nil.
func Final(err error) error {
	if err == nil {
		return nil
	}
	return &finalError{err}
}

// Retry calls do until it succeeds, returns a [Final] error, the connection was closed for good,
// or ctx ends. Each call has [Timeout].
func Retry(ctx context.Context, o *Outage, do func(ctx context.Context) error) error {
	return RetryUnbounded(ctx, o, func(ctx context.Context) error {
		limited, cancel := context.WithTimeout(ctx, Timeout)
		defer cancel()
		return do(limited)
	})
}

// withoutDeadline calls do with a context that ends with ctx and has no deadline.
func withoutDeadline(ctx context.Context, do func(ctx context.Context) error) error {
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	return do(own)
}

// RetryUnbounded is Retry for work without a bound in time. Do gets a context without a deadline:
// then it is the client library that bounds each request.
func RetryUnbounded(ctx context.Context, o *Outage, do func(ctx context.Context) error) error {
	var pause Backoff
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		err := withoutDeadline(ctx, do)
		if err == nil {
			o.Over()
			return nil
		}
		if f, ok := errors.AsType[*finalError](err); ok {
			return f.err
		}
		if errors.Is(err, nats.ErrConnectionClosed) {
			return err // the client library never connects again
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		o.Begin(err)
		if err := pause.Wait(ctx); err != nil {
			return err
		}
	}
}

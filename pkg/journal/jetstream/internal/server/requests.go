package server

import (
	"context"
	"time"

	js "github.com/nats-io/nats.go/jetstream"

	"github.com/informd/informd/pkg/internal/ackwait"
)

// Requests are single requests to the server, each with the time that an answer may take. That
// is short after fast answers, because a server that elects a leader can lose a request.
// Methods may be called concurrently.
type Requests struct{ Patience *ackwait.Wait }

// New returns requests that have not measured any answer yet.
func New() *Requests { return &Requests{ackwait.New(Timeout)} }

// Do calls request once.
func (r *Requests) Do(ctx context.Context, request func(ctx context.Context) error) error {
	limited, cancel := context.WithTimeout(ctx, r.Patience.Now())
	defer cancel()
	began := time.Now()
	err := request(limited)
	switch {
	case err == nil:
		r.Patience.Answered(time.Since(began))
	case limited.Err() != nil && ctx.Err() == nil:
		r.Patience.Unanswered()
	}
	return err
}

// Repeat is [Retry] for one request.
func (r *Requests) Repeat(ctx context.Context, o *Outage, request func(ctx context.Context) error) error {
	return Retry(ctx, o, func(ctx context.Context) error { return r.Do(ctx, request) })
}

// Info returns the present state of a stream.
func (r *Requests) Info(ctx context.Context, stream js.Stream) (info *js.StreamInfo, err error) {
	err = r.Do(ctx, func(ctx context.Context) (err error) {
		info, err = stream.Info(ctx)
		return err
	})
	return info, err
}

package nats

import (
	"context"
	"errors"
	"fmt"
	"time"

	client "github.com/nats-io/nats.go"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/sink"
)

// flushTimeout bounds the wait for the server to have read a batch.
const flushTimeout = 30 * time.Second

// coreSink publishes without a stream.
type coreSink struct {
	link *link
	form form
}

// Write implements [sink.Sink]. It publishes and waits until the server has read
// everything; that is all an acknowledgement there is. Nothing counts as delivered
// if the connection broke in between, so that a repeated batch may be seen twice.
func (s *coreSink) Write(ctx context.Context, batch []event.Event) (int, error) {
	if len(batch) == 0 {
		return 0, nil
	}
	guarded, release := s.link.guard(ctx)
	defer release()
	n, err := s.write(guarded, batch)
	return n, sink.WithContext(ctx, err)
}

func (s *coreSink) write(ctx context.Context, batch []event.Event) (int, error) {
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	conn, err := s.link.connection(ctx)
	if err != nil {
		return 0, err
	}
	before := conn.LastError()
	published, permanent, err := s.publish(ctx, conn, batch)
	if err != nil {
		return 0, err
	}
	if err := s.flush(ctx, conn); err != nil {
		return 0, err
	}
	// The server answers in order: what it has to say against the messages came
	// before its answer to the flush.
	if after := conn.LastError(); after != nil && !errors.Is(after, before) && errors.Is(after, client.ErrPermissionViolation) {
		return 0, explain(after)
	}
	return published, permanent
}

// publish hands the batch to the connection, up to the first event that can never
// be delivered, of which permanent tells.
func (s *coreSink) publish(ctx context.Context, conn *client.Conn, batch []event.Event) (n int, permanent, err error) {
	limit := conn.MaxPayload()
	made := maker{form: s.form} // the client copies what it publishes
	for i := range batch {
		if ctx.Err() != nil {
			return i, nil, context.Cause(ctx) // for example that the server denies a permission
		}
		m := made.message(&batch[i])
		if !made.fits(limit) {
			if err := checkSize(m, limit); err != nil {
				return i, err, nil
			}
		}
		if err := conn.PublishMsg(m); err != nil {
			return i, nil, fmt.Errorf("publish: %w", err)
		}
	}
	return len(batch), nil, nil
}

func (s *coreSink) flush(ctx context.Context, conn *client.Conn) error {
	limited, cancel := context.WithTimeout(ctx, flushTimeout)
	defer cancel()
	err := conn.FlushWithContext(limited)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, client.ErrConnectionClosed):
		return errors.New("connection lost while the server read the events")
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case limited.Err() != nil:
		return fmt.Errorf("the server has not read the events within %v", flushTimeout)
	}
	return fmt.Errorf("flush: %w", err)
}

func (s *coreSink) Close(ctx context.Context) error { return s.link.close(ctx) }

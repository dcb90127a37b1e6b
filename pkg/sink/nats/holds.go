package nats

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/sink"
)

// holdsWait is how long a message may take that the server has.
const holdsWait = 10 * time.Second

var errNoStream = errors.New("jetstream is false, and without a stream there is nothing to read; set jetstream: true")

// Holds implements [sink.Holder]: it reads the last message of every subject of the
// cluster. The user needs to be allowed to make a consumer on the stream.
func (c *Config) Holds(ctx context.Context, env sink.Env, take func(event.Event) error) error {
	if !c.JetStream {
		return errNoStream
	}
	options, err := c.options("informd/" + env.Cluster + "/" + env.Name + "/verify")
	if err != nil {
		return err
	}
	conn, err := options.Connect()
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn, jetstream.WithDefaultTimeout(requestTimeout))
	if err != nil {
		return fmt.Errorf("use JetStream: %w", err)
	}
	stream, err := js.Stream(ctx, c.Stream)
	if err != nil {
		return fmt.Errorf("read stream %s: %w", c.Stream, explainAPI(err))
	}
	consumer, err := stream.CreateConsumer(ctx, jetstream.ConsumerConfig{
		DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy, AckPolicy: jetstream.AckNonePolicy, MemoryStorage: true,
		FilterSubject: c.SubjectPrefix + "." + event.EscapeToken(env.Cluster) + ".>",
		HeadersOnly:   c.Format != CloudEvents, InactiveThreshold: time.Minute,
	})
	if err != nil {
		return fmt.Errorf("read stream %s: %w", c.Stream, explainAPI(err))
	}
	defer func() {
		ended, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTimeout)
		defer cancel()
		_ = stream.DeleteConsumer(ended, consumer.CachedInfo().Name) // the server does it after a while
	}()
	info, err := stream.Info(ctx) // after the consumer, which has a list of what was before
	if err != nil {
		return fmt.Errorf("read stream %s: %w", c.Stream, explainAPI(err))
	}
	return c.readHeld(ctx, consumer, info.State.LastSeq, take)
}

// readHeld reads up to the sequence end, or until the server has no more. A server that is slow does not make
// objects look as if they were missing.
func (c *Config) readHeld(ctx context.Context, consumer jetstream.Consumer, end uint64, take func(event.Event) error) error {
	messages, err := consumer.Messages()
	if err != nil {
		return fmt.Errorf("read stream %s: %w", c.Stream, err)
	}
	defer messages.Stop()
	pending := consumer.CachedInfo().NumPending
	for at := (jetstream.SequencePair{}); pending > 0 && at.Stream < end; {
		limited, cancel := context.WithTimeoutCause(ctx, holdsWait,
			fmt.Errorf("the server has %d more messages and delivers none; try again", pending))
		m, err := messages.Next(jetstream.NextContext(limited))
		if err != nil && limited.Err() != nil {
			err = context.Cause(limited)
		}
		cancel()
		if err != nil {
			return fmt.Errorf("read stream %s: %w", c.Stream, err)
		}
		meta, err := m.Metadata()
		if err == nil && meta.Sequence.Consumer != at.Consumer+1 {
			err = fmt.Errorf("message %d was delivered after %d; try again", meta.Sequence.Consumer, at.Consumer)
		}
		if err != nil {
			return fmt.Errorf("read stream %s: %w", c.Stream, err)
		}
		at, pending = meta.Sequence, meta.NumPending
		if err := c.takeHeld(m, take); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// takeHeld hands on the event of a message, if it is that of an object.
func (c *Config) takeHeld(m jetstream.Msg, take func(event.Event) error) error {
	e, ok := c.parse(m)
	if !ok || e.Op.Control() {
		return nil
	}
	return take(e)
}

// parse reads the event of a message; it reports false for one that is somebody else's.
func (c *Config) parse(m jetstream.Msg) (event.Event, bool) {
	if c.Format == CloudEvents {
		e, err := event.ParseJSON(m.Data())
		return e, err == nil
	}
	headers := m.Headers()
	e, err := event.ParseHeaders(func(name string) string {
		if values := headers[name]; len(values) > 0 {
			return values[0]
		}
		return ""
	})
	return e, err == nil
}

var _ sink.Holder = (*Config)(nil)

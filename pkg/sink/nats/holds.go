package nats

import (
	"context"
	"errors"
	"fmt"
	"time"

	client "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/sink"
)

const (
	holdsBatch = 500
	// holdsWait is how long a read waits for messages that may not be there.
	holdsWait = 2 * time.Second
	// holdsAttempts is how many reads in a row may bring nothing of what the server has.
	holdsAttempts = 5
)

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
	options.RetryOnFailedConnect = false // whoever asked waits for the answer
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

// place is how far a stream was read: the sequences of the last message, and how many
// messages the server had behind it.
type place struct {
	jetstream.SequencePair
	pending uint64
}

// readHeld reads up to the sequence end, or until the server has no more. A server that is
// slow does not make objects look as if they were missing.
func (c *Config) readHeld(ctx context.Context, consumer jetstream.Consumer, end uint64, take func(event.Event) error) error {
	at, empty := place{pending: consumer.CachedInfo().NumPending}, 0
	for at.Stream < end && ctx.Err() == nil {
		before := at
		messages, err := consumer.Fetch(holdsBatch, jetstream.FetchMaxWait(holdsWait))
		if err == nil {
			at, err = c.takeBatch(messages, at, take)
		}
		if err != nil {
			return fmt.Errorf("read stream %s: %w", c.Stream, err)
		}
		switch empty++; {
		case at != before:
			empty = 0
		case at.pending == 0:
			return ctx.Err()
		case empty >= holdsAttempts:
			return fmt.Errorf("read stream %s: the server has %d more messages and delivers none; try again", c.Stream, at.pending)
		}
	}
	return ctx.Err()
}

// takeBatch hands on the events of a batch, which follows after a place in the stream. It
// returns the place of its last message.
func (c *Config) takeBatch(messages jetstream.MessageBatch, after place, take func(event.Event) error) (place, error) {
	at := after
	for m := range messages.Messages() {
		meta, err := m.Metadata()
		if err == nil && meta.Sequence.Consumer != at.Consumer+1 {
			err = fmt.Errorf("message %d was delivered after %d; try again", meta.Sequence.Consumer, at.Consumer)
		}
		if err != nil {
			return at, err
		}
		at = place{meta.Sequence, meta.NumPending}
		if err := c.takeHeld(m, take); err != nil {
			return at, err
		}
	}
	if err := messages.Error(); !errors.Is(err, client.ErrTimeout) {
		return at, err
	}
	return at, nil
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

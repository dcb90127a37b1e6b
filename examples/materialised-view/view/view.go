// Package view builds a materialised view: a table of the objects of a cluster as they
// are, from the JetStream stream of an informd sink. It is an example, written from
// docs/materialised-view.md alone: it imports nothing of informd.
//
// The sink is of type nats with the defaults `jetstream: true` and `format: binary`. It has
// no `start: now`, and its `match` leaves out no operation and has no condition on contents
// that change.
package view

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Options say what a view reads.
type Options struct {
	// Stream is the name of the sink's stream.
	Stream string
	// Subjects are those to read, as in "k8s.prod-eu1.>"; none are all. They must
	// include the control events: "<prefix>.<cluster>._informd.>".
	Subjects []string
	Logger   *slog.Logger
}

// View is a table that follows a stream. Its methods may be called concurrently.
type View struct {
	js      jetstream.JetStream
	options Options

	mu      sync.Mutex
	table   *table
	created time.Time // of the stream that was read last
	read    uint64    // the last sequence of it that was read
	until   uint64    // the last sequence that it had when the reading began
	reached bool      // that sequence was read, or no message was pending
}

// New makes an empty view. Run fills it.
func New(conn *nats.Conn, o Options) (*View, error) {
	js, err := jetstream.New(conn, jetstream.WithDefaultTimeout(answerTimeout))
	if err != nil {
		return nil, fmt.Errorf("view of stream %s: %w", o.Stream, err)
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &View{js: js, options: o, table: newTable()}, nil
}

// Objects returns the objects that exist, as far as the stream was read.
func (v *View) Objects() map[Key]Object {
	v.mu.Lock()
	defer v.mu.Unlock()
	all := make(map[Key]Object, len(v.table.rows))
	for key, r := range v.table.rows {
		all[key] = r.Object
	}
	return all
}

// Complete reports whether the view has a whole snapshot of a target, as in
// "apps/deployments" or "core/pods@shop", and was once at the end of the stream. Until then
// objects may be missing: the stream trims older events of an object, so that its first one
// may be behind the end of the snapshot.
func (v *View) Complete(cluster, name string) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.reached && v.table.complete[target{cluster, name}]
}

// Position returns when the stream that is read was created, and the last sequence that
// was read.
func (v *View) Position() (created time.Time, read uint64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.created, v.read
}

const (
	answerTimeout = 5 * time.Second
	// idleTime is how long a read waits for messages; then the stream is checked.
	idleTime   = 2 * time.Second
	batch      = 256
	retryPause = 500 * time.Millisecond
	// consumerLife is how long the server keeps a consumer that asks for nothing.
	consumerLife = time.Minute
)

// Run reads the stream until ctx ends, across all outages of the server. If the stream is
// deleted and created again, it reads the new one from the beginning and keeps the table:
// informd begins the new stream with a snapshot of every target, and the end of each takes
// out what was deleted meanwhile.
func (v *View) Run(ctx context.Context) error {
	logged := ""
	reading := func() {
		if logged != "" {
			v.options.Logger.Info("reading the stream again", "stream", v.options.Stream)
			logged = ""
		}
	}
	for ctx.Err() == nil {
		err := v.follow(ctx, reading)
		if ctx.Err() != nil {
			break
		}
		if text := err.Error(); text != logged {
			v.options.Logger.Warn("stream cannot be read; retrying", "stream", v.options.Stream, "err", err)
			logged = text
		}
		select {
		case <-ctx.Done():
		case <-time.After(retryPause):
		}
	}
	return ctx.Err()
}

// follow reads until an error. It calls reading after each answer of the server.
func (v *View) follow(ctx context.Context, reading func()) error {
	stream, err := v.js.Stream(ctx, v.options.Stream)
	if err != nil {
		return fmt.Errorf("find stream: %w", err)
	}
	info := stream.CachedInfo()
	from := v.begin(info.Created, info.State.LastSeq)
	consumer, err := stream.CreateConsumer(ctx, jetstream.ConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: from, FilterSubjects: v.options.Subjects,
		AckPolicy: jetstream.AckNonePolicy, MemoryStorage: true, InactiveThreshold: consumerLife,
	})
	if err != nil {
		return fmt.Errorf("read stream from %d: %w", from, err)
	}
	defer v.forget(ctx, stream, consumer)
	for delivered := uint64(0); ; {
		messages, err := consumer.Fetch(batch, jetstream.FetchMaxWait(idleTime))
		if err != nil {
			return fmt.Errorf("fetch: %w", err)
		}
		before := delivered
		for m := range messages.Messages() {
			if delivered, err = v.take(m, delivered); err != nil {
				return err
			}
		}
		if err := messages.Error(); err != nil && !errors.Is(err, nats.ErrTimeout) && !errors.Is(err, jetstream.ErrNoMessages) {
			return fmt.Errorf("fetch: %w", err)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		reading()
		if delivered == before {
			if err := v.idle(ctx, stream, consumer, delivered); err != nil {
				return err
			}
		}
	}
}

// errReplaced says that the stream is another one of the same name.
var errReplaced = errors.New("the stream was deleted and created again")

// idle is called when no message came for a while. If none is pending or on its way, the end of
// the stream is reached. It returns an error if the stream is not the one that is read.
func (v *View) idle(ctx context.Context, stream jetstream.Stream, consumer jetstream.Consumer, delivered uint64) error {
	info, err := stream.Info(ctx)
	if err != nil {
		return fmt.Errorf("look at stream: %w", err)
	}
	if created, _ := v.Position(); !info.Created.Equal(created) {
		return errReplaced
	}
	state, err := consumer.Info(ctx)
	if err != nil {
		return fmt.Errorf("look at consumer: %w", err)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.reached = v.reached || state.NumPending == 0 && state.Delivered.Consumer == delivered
	return nil
}

// begin returns the sequence to read from, in a stream that was created then and has
// messages up to last.
func (v *View) begin(created time.Time, last uint64) (from uint64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.created.Equal(created) {
		v.created, v.read = created, 0
	}
	v.until = last
	return v.read + 1
}

// take applies a message. The server numbers what it delivers: a hole means that
// something was lost on the way, and that reading begins again behind what was applied.
func (v *View) take(m jetstream.Msg, delivered uint64) (uint64, error) {
	meta, err := m.Metadata()
	if err != nil {
		return delivered, fmt.Errorf("message on %s: %w", m.Subject(), err)
	}
	if meta.Sequence.Consumer != delivered+1 {
		return delivered, fmt.Errorf("message %d was delivered after %d", meta.Sequence.Consumer, delivered)
	}
	e, err := decode(m.Headers(), m.Data())
	v.mu.Lock()
	defer v.mu.Unlock()
	if err != nil {
		v.options.Logger.Error("message left out", "sequence", meta.Sequence.Stream, "err", err)
	} else {
		v.table.apply(e)
	}
	v.read = meta.Sequence.Stream
	v.reached = v.reached || v.read >= v.until
	return meta.Sequence.Consumer, nil
}

// forget deletes the consumer. If that fails, the server does it after a while.
func (v *View) forget(ctx context.Context, stream jetstream.Stream, consumer jetstream.Consumer) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerTimeout)
	defer cancel()
	_ = stream.DeleteConsumer(ctx, consumer.CachedInfo().Name)
}

// Targets returns the targets of a cluster that are complete.
func (v *View) Targets(cluster string) (names []string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for of := range v.table.complete {
		if of.cluster == cluster && v.reached {
			names = append(names, of.name)
		}
	}
	return names
}

package kafka

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/sink"
)

const (
	// ackTimeout is how long Write waits for acknowledgements before it returns an error. It
	// is more than the client's own retries take where a broker answers.
	ackTimeout = 15 * time.Second
	// connectPatience is how long it waits if there is no connection.
	connectPatience = 5 * time.Second
)

// producer is the sink.
type producer struct {
	logger     *slog.Logger
	connect    func(f *failures) (*kgo.Client, error)
	pattern    pattern
	create     Create
	tombstones bool
	structured bool

	client   *kgo.Client // nil after a failure, until the next Write
	failures failures
	known    map[string]struct{} // topics that were found, or made
	ids      map[string]topicID  // of all topics that were ever known
	found    func(string)        // takes the identity of the single topic; may be nil
	identity string              // that found took last
	ends     map[partition]int64 // the highest acknowledged offset

	wave *wave      // is on its way; nil if nothing is
	left []delivery // what the last Write has left undone of its batch, in order
}

// Write implements [sink.Sink]. It returns when the brokers have acknowledged the
// batch, or what they hold of it up to the first failure.
func (s *producer) Write(ctx context.Context, batch []event.Event) (int, error) {
	if len(batch) == 0 {
		return 0, nil
	}
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	// What is still on its way goes before everything that is to be sent. Whether
	// it arrives or not, left knows by then.
	if err := s.settle(ctx); err != nil {
		return 0, sink.WithContext(ctx, err)
	}
	f := flight{producer: s, batch: batch, deliveries: s.plan(batch), limit: len(batch)}
	n, err := f.send(ctx)
	s.left = f.deliveries[n:]
	return n, sink.WithContext(ctx, err)
}

// plan makes the deliveries of the batch. Those that the last Write has begun, and
// that come again, are taken over with what is known of them. One that it could not
// deliver may be missing: it is in the dead letters.
func (s *producer) plan(batch []event.Event) []delivery {
	if len(s.left) > 0 && s.left[0].id != batch[0].ID {
		s.left = s.left[1:]
	}
	all := make([]delivery, len(batch))
	again := true
	for i := range batch {
		if again = again && i < len(s.left) && s.left[i].id == batch[i].ID; again {
			all[i] = s.left[i]
			continue
		}
		all[i] = s.newDelivery(&batch[i])
	}
	return all
}

// wave is a number of records that were handed to the client together. No two
// have the same key.
type wave struct {
	parts []*part
	left  atomic.Int64  // without an answer yet
	done  chan struct{} // closed when none is left
}

// produce sends a wave and waits for it.
func (s *producer) produce(ctx context.Context, parts []*part, records []*kgo.Record) error {
	w := &wave{parts: parts, done: make(chan struct{})}
	w.left.Store(int64(len(parts)))
	s.wave = w
	for i, record := range records {
		// Not with ctx: a record that was sent cannot be called back, and one that
		// was not is sent later, see [producer.Write].
		s.client.Produce(context.Background(), record, func(r *kgo.Record, err error) {
			parts[i].err, parts[i].at = err, place{r.Topic, r.Partition, r.Offset}
			if w.left.Add(-1) == 0 {
				close(w.done)
			}
		})
	}
	return s.settle(ctx)
}

// settle waits for the wave that is on its way, and notes what has arrived.
//
// The client goes after a failure: some errors stay with it, as does what it
// believes about topics. Nothing of it is under way then.
func (s *producer) settle(ctx context.Context) error {
	if s.wave == nil {
		return s.reconnect()
	}
	if err := s.await(ctx); err != nil {
		return err
	}
	failed := false
	for _, p := range s.wave.parts {
		p.held = p.err == nil
		failed = failed || p.err != nil && !tooLarge(p.err)
	}
	s.noteOffsets(s.wave)
	s.wave = nil
	if failed {
		s.client.Close()
		s.client = nil
		clear(s.known)
	}
	return s.reconnect()
}

// await waits until the wave is done.
func (s *producer) await(ctx context.Context) error {
	for _, limit := range []time.Duration{connectPatience, ackTimeout - connectPatience} {
		select {
		case <-s.wave.done:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(limit):
		}
		if err := s.failures.reason(); err != nil {
			return fmt.Errorf("no connection: %w", err)
		}
	}
	return fmt.Errorf("the brokers have not acknowledged within %v; check their load, the partitions without a leader and the in-sync replicas", ackTimeout)
}

func (s *producer) reconnect() (err error) {
	if s.client == nil {
		s.client, err = s.connect(&s.failures)
	}
	return err
}

// Close implements [sink.Sink]. It waits for what is on its way, until ctx ends.
func (s *producer) Close(ctx context.Context) error {
	var left error
	if s.wave != nil {
		select {
		case <-s.wave.done:
		case <-ctx.Done():
			left = fmt.Errorf("%d records are in flight: %w", s.wave.left.Load(), ctx.Err())
		}
	}
	if s.client != nil {
		s.client.Close()
	}
	return left
}

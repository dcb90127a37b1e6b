package nats

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	client "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/sink"
)

const (
	// window is how many events of one Write may be sent without an
	// acknowledgement. No event that far behind the first unacknowledged one has
	// ever been sent, on which streamSink.doubt relies.
	window = 256
	// ackTimeout is how long the stream may take at most to acknowledge one event.
	ackTimeout = 10 * time.Second
	// electionPatience is for how long a Write tries again by itself while the stream has
	// no leader, and electionPause is between two attempts.
	electionPatience = 10 * time.Second
	electionPause    = 100 * time.Millisecond
)

// streamSink publishes into a JetStream stream.
type streamSink struct {
	link    *link
	logger  *slog.Logger
	form    form
	cluster string
	config  jetstream.StreamConfig // of a stream that the sink creates
	create  bool                   // a stream that does not exist

	dest destination
	// doubt is how many further events, one after the other, have to be found
	// missing in the stream before it is certain that no later one has been sent
	// before, by this process or by the one before it.
	doubt int
	// found takes the identity of the stream; nil: no caller asks.
	found func(identity string)
	// patience is how long an acknowledgement may take, and asking an answer.
	patience, asking *ackWait
}

func newStreamSink(l *link, f form, cluster string, config jetstream.StreamConfig) *streamSink {
	return &streamSink{
		link: l, logger: l.logger, form: f, cluster: cluster, config: config, doubt: window,
		patience: newAckWait(ackTimeout), asking: newAckWait(requestTimeout),
	}
}

// Write implements [sink.Sink]. It returns when the stream has acknowledged the
// batch, or what it holds of it up to the first failure.
func (s *streamSink) Write(ctx context.Context, batch []event.Event) (int, error) {
	if len(batch) == 0 {
		return 0, nil
	}
	guarded, release := s.link.guard(ctx)
	defer release()
	written := 0
	for began := time.Now(); ; {
		n, err := s.write(guarded, batch[written:])
		written += n
		if s.dest.again {
			s.dest.stream, s.dest.again = nil, false
			if err := s.locate(guarded); err != nil {
				s.logger.Debug("stream with new sequences not found; retrying with the next event", slog.Any("err", err))
			}
		}
		if !passing(err) || time.Since(began) >= electionPatience {
			return written, sink.WithContext(ctx, err)
		}
		s.logger.Debug("stream has no leader, or a replica was behind; retrying", slog.Any("err", err))
		select {
		case <-time.After(electionPause):
		case <-ctx.Done():
			return written, ctx.Err()
		}
	}
}

// errNoAnswer is the lack of an answer in time.
var errNoAnswer = errors.New("no answer in time")

// passing reports whether an error is one that a stream has while it elects a leader, that
// comes with a connection which is made again at once, or
// when the last message of a subject was read from a copy that was a moment behind: after
// another informd has died, the newest messages are its own.
func passing(err error) bool {
	return errors.Is(err, jetstream.ErrNoStreamResponse) || errors.Is(err, errNoAnswer) || errors.Is(err, client.ErrConnectionClosed) ||
		refusalOf(err) == refusedStale
}

func (s *streamSink) Close(ctx context.Context) error { return s.link.close(ctx) }

func (s *streamSink) write(ctx context.Context, batch []event.Event) (int, error) {
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	if err := s.locate(ctx); err != nil {
		return 0, err
	}
	found, err := s.review(ctx, batch)
	if err != nil {
		s.dest.stream = nil // it may be gone, or changed
		return 0, fmt.Errorf("find earlier events in stream %s: %w", s.config.Name, explainAPI(err))
	}
	f := flight{sink: s, batch: batch, futures: make([]jetstream.PubAckFuture, len(batch)), last: map[string]int{}}
	err = f.send(ctx, found)
	if err != nil && f.acked < f.sent {
		s.dest.stream = nil
		s.doubt = window
	}
	return f.acked, err
}

// flight is one batch on its way.
type flight struct {
	sink    *streamSink
	batch   []event.Event
	futures []jetstream.PubAckFuture // nil for events that the stream held before
	last    map[string]int           // subject -> its last event that was sent
	bound   int                      // behind the last bound of a snapshot that was sent
	sent    int                      // batch[:sent] has been sent or was there
	acked   int                      // batch[:acked] is in the stream
	timer   *time.Timer              // of await; nil before the first
	failed  error                    // why batch[acked] is not; a future tells it once only
}

// send publishes the batch and waits for the acknowledgements. It stops at the
// first failure.
func (f *flight) send(ctx context.Context, found []finding) error {
	for i := range f.batch {
		var was finding
		if i < len(found) {
			was = found[i]
		}
		if was.held {
			f.sent++
			continue
		}
		if err := f.publish(ctx, i, was.condition); err != nil {
			// What was sent before counts if it arrives; if it does not, that
			// is the failure to tell of.
			if earlier := f.settle(ctx, i); earlier != nil {
				return earlier
			}
			return err
		}
	}
	return f.settle(ctx, len(f.batch))
}

// publish sends batch[i] as soon as it may: within the window, and after what was
// sent about the same object.
func (f *flight) publish(ctx context.Context, i int, condition string) error {
	m := f.sink.form.streamMessage(&f.batch[i])
	if condition != "" {
		m.Header[jetstream.ExpectedLastSubjSeqHeader] = []string{condition}
	}
	if err := checkSize(m, f.sink.dest.limit); err != nil {
		return err
	}
	until := max(i+1-window, f.bound)
	if before, ok := f.last[m.Subject]; ok {
		until = max(until, before+1)
	}
	if f.batch[i].Op.Bounds() { // the order says what belongs to a snapshot
		until, f.bound = i, i+1
	}
	if err := f.settle(ctx, until); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	f.sent++ // even if it fails: a write that ends half way may have brought it over
	// The library's own retry would send again behind later messages.
	future, err := f.sink.dest.js.PublishMsgAsync(m, jetstream.WithRetryAttempts(0))
	if err != nil {
		return fmt.Errorf("publish: %w", explainAck(err, f.sink.config.Name))
	}
	f.futures[i], f.last[m.Subject] = future, i
	return nil
}

// settle waits until batch[:until] is acknowledged, or for the first of them
// that is not going to be.
func (f *flight) settle(ctx context.Context, until int) error {
	for ; f.acked < until && f.failed == nil; f.acked++ {
		if future := f.futures[f.acked]; future != nil {
			if f.failed = f.await(ctx, future); f.failed != nil {
				break
			}
		}
	}
	return f.failed
}

// await waits for the acknowledgement of batch[f.acked].
func (f *flight) await(ctx context.Context, future jetstream.PubAckFuture) error {
	select {
	case ack := <-future.Ok():
		return f.accept(ctx, ack)
	default:
	}
	began, limit := time.Now(), f.sink.patience.Now()
	defer f.within(limit).Stop()
	select {
	case <-f.timer.C:
		f.sink.patience.Unanswered()
		return fmt.Errorf("stream %s has not acknowledged within %v: %w; check its leader, its load and its disk", f.sink.config.Name, limit, errNoAnswer)
	case ack := <-future.Ok():
		f.sink.patience.Answered(time.Since(began))
		return f.accept(ctx, ack)
	case err := <-future.Err():
		return explainAck(err, f.sink.config.Name)
	case <-f.sink.link.ended:
		return explainAck(f.sink.link.lost(), f.sink.config.Name)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// within starts the timer, which is made once.
func (f *flight) within(limit time.Duration) *time.Timer {
	if f.timer == nil {
		f.timer = time.NewTimer(limit)
	} else {
		f.timer.Reset(limit)
	}
	return f.timer
}

// accept judges the acknowledgement of batch[f.acked].
func (f *flight) accept(ctx context.Context, ack *jetstream.PubAck) error {
	if name := f.sink.config.Name; ack.Stream != name {
		return fmt.Errorf("stream %s stored the event instead of %s; check the subjects of both streams", ack.Stream, name)
	}
	if !ack.Duplicate {
		if ack.Sequence <= f.sink.dest.last {
			f.sink.dest.again = true // it counts from 1 again: somebody has created it again
		}
		f.sink.dest.last = ack.Sequence
		return nil
	}
	return f.sink.restate(ctx, &f.batch[f.acked])
}

// restate looks at an event that the stream did not store again because it had
// its id within the duplicate window. That is as it should be, unless the subject
// has ended with an earlier state since: where an object came back in the state
// that it had before it left, or where an earlier event had to be repeated. Then
// the event is stored once more, so that the last message is the latest state.
func (s *streamSink) restate(ctx context.Context, e *event.Event) error {
	m := s.form.message(e)
	last, err := s.lastMessages(ctx, []string{m.Subject})
	if err != nil {
		return fmt.Errorf("read the last message of a repeated event's subject: %w", explainAPI(err))
	}
	if last[0].covers(e, true) {
		return nil
	}
	m.Header[jetstream.ExpectedLastSubjSeqHeader] = []string{last[0].condition()}
	return s.ask(ctx, func(ctx context.Context) error {
		_, err := s.dest.js.PublishMsg(ctx, m, jetstream.WithRetryAttempts(0))
		return explainAck(err, s.config.Name)
	})
}

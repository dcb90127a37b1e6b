package jetstream

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"github.com/nats-io/nats.go"
	js "github.com/nats-io/nats.go/jetstream"

	"github.com/informd/informd/pkg/event"
)

// flight is one event on its way into the stream, over one attempt or more.
type flight struct {
	event   event.Event
	message *nats.Msg
	subject uint64 // hash
	id      uint64 // hash
	sent    uint64 // the sequence that was expected to be the subject's last
	copyOf  uint64 // of a copy: the sequence of the original
	kept    uint64 // the sequence of the end that was copied before it
	outcome chan error
	flying  bool  // the outcome of an attempt is still to come
	landed  bool  // it is in the stream
	err     error // why the last attempt failed
	refused int   // how often the object store did not take its object
	shrunk  int   // how often the server found it too large all the same
}

// flights are those that wait for an acknowledgement. Its methods may be called
// concurrently.
type flights struct {
	room chan struct{} // one for each

	mu    sync.Mutex
	index map[*nats.Msg]*flight
}

func newFlights() *flights {
	return &flights{room: make(chan struct{}, window), index: map[*nats.Msg]*flight{}}
}

func (f *flights) add(ctx context.Context, fl *flight) error {
	select {
	case f.room <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.index[fl.message] = fl
	return nil
}

// take removes the flight of a message; nil if it is gone already.
func (f *flights) take(m *nats.Msg) *flight {
	f.mu.Lock()
	defer f.mu.Unlock()
	fl := f.index[m]
	if fl != nil {
		delete(f.index, m)
		<-f.room
	}
	return fl
}

// none reports whether nothing is on its way.
func (f *flights) none() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.index) == 0
}

// launch sends the event on the condition that the subject's last message is the
// one we know. The outcome comes through the flight's channel.
func (j *Journal) launch(ctx context.Context, f *flight) error {
	last := j.heads.get(f.subject)
	if last.seq != 0 && last.id == f.id {
		f.flying = true
		f.outcome <- nil // an earlier call, which was given up, has brought it in
		return nil
	}
	f.sent = last.seq
	f.message.Header[js.ExpectedLastSubjSeqHeader] = []string{strconv.FormatUint(f.sent, 10)}
	return j.send(ctx, f)
}

// send brings the event on its way.
func (j *Journal) send(ctx context.Context, f *flight) error {
	if err := j.flights.add(ctx, f); err != nil {
		return err
	}
	f.flying = true
	// The library's own retry would send again behind later messages.
	if _, err := j.client.PublishMsgAsync(f.message, js.WithRetryAttempts(0)); err != nil {
		j.failed(nil, f.message, err)
	}
	return nil
}

// acknowledged is called by the client library in the order of the
// acknowledgements, also for events that nobody waits for any more.
func (j *Journal) acknowledged(_ js.JetStream, m *nats.Msg, ack *js.PubAck) {
	f := j.flights.take(m)
	if f == nil {
		return
	}
	if ack.Stream != j.config.Stream {
		f.outcome <- fmt.Errorf("stream %s took the event instead of %s", ack.Stream, j.config.Stream)
		return
	}
	if f.copyOf == 0 {
		j.heads.add(f.subject, head{seq: ack.Sequence, id: f.id, ends: f.event.Op.Ends()})
	}
	if !j.tail.push(ack.Sequence, f.event, f.copyOf) {
		j.lose(fmt.Errorf("%w: it counts from %d again and was at %d", ErrLost, ack.Sequence, j.tail.end()))
	}
	if f.event.Op.Ends() {
		j.janitor.note(tombstone{subject: m.Subject, seq: ack.Sequence, copied: f.copyOf != 0})
	}
	f.outcome <- nil
}

// failed is called by the client library, which may hold its lock.
func (j *Journal) failed(_ js.JetStream, m *nats.Msg, err error) {
	if f := j.flights.take(m); f != nil {
		f.outcome <- err
	}
}

// isStale reports whether the server refused the condition.
func isStale(err error) bool {
	var refusal *js.APIError
	return errors.As(err, &refusal) && (refusal.ErrorCode == js.JSErrCodeStreamWrongLastSequence ||
		refusal.ErrorCode == js.JSErrCodeStreamWrongLastSequenceConstant)
}

package jetstream

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	js "github.com/nats-io/nats.go/jetstream"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal/jetstream/internal/lastindex"
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
	most    int64     // the message as it was made is no larger
	values  []string  // of the headers
	last    [1]string // of the header with the condition
	since   time.Time // when it was sent
	flying  bool      // the outcome of an attempt is still to come
	landed  bool      // it is in the stream
	at      int       // its place among the events of the call
	err     error     // why the last attempt failed
	refused int       // how often the object store did not take its object
	shrunk  int       // how often the server found it too large all the same
	// unknownSince is when the server first refused it with an unknown error, unknownAt
	// where the log ended then.
	unknownSince time.Time
	unknownAt    uint64
}

func newFlight() *flight {
	return &flight{message: &nats.Msg{Header: make(nats.Header, 24)}, outcome: make(chan error, 1)}
}

// empty makes it ready for another event. Nobody else may know it any more.
func (f *flight) empty() {
	clear(f.message.Header)
	*f.message = nats.Msg{Header: f.message.Header}
	clear(f.values)
	*f = flight{message: f.message, outcome: f.outcome, values: f.values[:0]}
}

// launch sends the event on the condition that the subject's last message is the
// one we know. The outcome comes through the flight's channel.
func (j *Journal) launch(ctx context.Context, f *flight) error {
	last := j.subjects.Get(f.subject)
	if last.Seq != 0 && last.ID == f.id {
		f.flying = true
		f.outcome <- nil // an earlier call, which was given up, has brought it in
		return nil
	}
	f.sent = last.Seq
	f.last[0] = strconv.FormatUint(f.sent, 10)
	f.message.Header[js.ExpectedLastSubjSeqHeader] = f.last[:]
	return j.flights.send(ctx, f)
}

// landed is called for every event that the server has stored, also for those that
// nobody waits for any more.
func (j *Journal) landed(f *flight, ack js.PubAck) {
	if ack.Stream != j.config.Stream {
		f.outcome <- fmt.Errorf("stream %s stored the event instead of stream %s", ack.Stream, j.config.Stream)
		return
	}
	if f.copyOf == 0 {
		j.subjects.Add(f.subject, lastindex.Entry{Seq: ack.Sequence, ID: f.id, Ends: f.event.Op.Ends()})
	}
	if !j.tail.Push(ack.Sequence, f.event, f.copyOf) {
		j.lose(fmt.Errorf("%w: its sequence is %d, and was %d", ErrLost, ack.Sequence, j.tail.End()))
	}
	if f.event.Op.Ends() {
		j.janitor.note(tombstone{subject: f.message.Subject, seq: ack.Sequence, copied: f.copyOf != 0})
	}
	f.outcome <- nil
}

package publish

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	js "github.com/nats-io/nats.go/jetstream"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal/jetstream/internal/conflict"
	"github.com/informd/informd/pkg/journal/jetstream/internal/lastindex"
	"github.com/informd/informd/pkg/journal/jetstream/internal/message"
)

// Flight is one event on its way into the stream, over one attempt or more.
type Flight struct {
	event   event.Event
	Message *nats.Msg
	subject uint64 // hash
	id      uint64 // hash
	sent    uint64 // the sequence that was expected to be the subject's last
	copyOf  uint64 // of a copy: the sequence of the original
	kept    uint64 // the sequence of the end that was copied before it
	Outcome chan error
	most    int64     // the message as it was made is no larger
	values  []string  // of the headers
	last    [1]string // of the header with the condition
	since   time.Time // when it was sent
	flying  bool      // the outcome of an attempt is still to come
	landed  bool      // it is in the stream
	at      int       // its place among the events of the call
	err     error     // why the last attempt failed
	refused int       // how often in a row the object store did not take its object
	shrunk  int       // how often the server found it too large all the same
	// refusedSince is when the first of these attempts began.
	refusedSince time.Time
	// unknownSince is when the server first refused it with an unknown error, unknownAt
	// where the log ended then.
	unknownSince time.Time
	unknownAt    uint64
}

// NewFlight returns one for any event.
func NewFlight() *Flight {
	return &Flight{Message: &nats.Msg{Header: make(nats.Header, 24)}, Outcome: make(chan error, 1)}
}

// empty makes it ready for another event. Nobody else may know it any more.
func (f *Flight) empty() {
	clear(f.Message.Header)
	*f.Message = nats.Msg{Header: f.Message.Header}
	clear(f.values)
	*f = Flight{Message: f.Message, Outcome: f.Outcome, values: f.values[:0]}
}

// noteRefusal notes that the object store did not take the object in an attempt that began at a
// time. It reports whether the object is to be given up.
func (f *Flight) noteRefusal(began time.Time) bool {
	if f.refused == 0 {
		f.refusedSince = began
	}
	f.refused++
	return f.refused >= message.ObjectAttempts && time.Since(f.refusedSince) >= message.ObjectRefusal
}

// launch sends the event on the condition that the subject's last message is the
// one we know. The outcome comes through the flight's channel.
func (p *Publisher) launch(ctx context.Context, f *Flight) error {
	last := p.Subjects.Get(f.subject)
	if last.Seq != 0 && last.ID == f.id {
		f.flying = true
		f.Outcome <- nil // an earlier call, which was given up, has brought it in
		return nil
	}
	f.sent = last.Seq
	f.last[0] = strconv.FormatUint(f.sent, 10)
	f.Message.Header[js.ExpectedLastSubjSeqHeader] = f.last[:]
	return p.Flights.Send(ctx, f)
}

// landed is called for every event that the server has stored, also for those that
// nobody waits for any more.
func (p *Publisher) landed(f *Flight, ack js.PubAck) {
	if ack.Stream != p.StreamName {
		f.Outcome <- fmt.Errorf("stream %s stored the event instead of stream %s", ack.Stream, p.StreamName)
		return
	}
	if f.copyOf == 0 {
		p.Subjects.Add(f.subject, lastindex.Entry{Seq: ack.Sequence, ID: f.id, Ends: f.event.Op.Ends()})
	}
	if !p.Tail.Push(ack.Sequence, f.event, f.copyOf) {
		p.Lose(fmt.Errorf("%w: its sequence is %d, and was %d", conflict.ErrLost, ack.Sequence, p.Tail.End()))
	}
	if f.event.Op.Ends() {
		p.Ended(f.Message.Subject, ack.Sequence, f.copyOf != 0)
	}
	f.Outcome <- nil
}

package jetstream

import (
	"context"
	"time"

	"github.com/nats-io/nats.go"
	js "github.com/nats-io/nats.go/jetstream"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/internal/ackwait"
	"github.com/informd/informd/pkg/journal"
	"github.com/informd/informd/pkg/journal/jetstream/internal/message"
	"github.com/informd/informd/pkg/journal/jetstream/internal/publish"
	"github.com/informd/informd/pkg/journal/jetstream/internal/retention"
)

// SweepObjects removes the bodies that are older than grace and that no event
// refers to.
func (j *Journal) SweepObjects(ctx context.Context, grace time.Duration) error {
	return j.janitor.SweepObjects(ctx, grace)
}

// Look does now what is done every few seconds.
func (j *Journal) Look(ctx context.Context) { j.look(ctx) }

// SetStandstill replaces for how long a cursor that is waited for may commit nothing.
func (j *Journal) SetStandstill(d time.Duration) { j.standstill = d }

// SetCloseTimeout replaces how long Close waits for the server.
func (j *Journal) SetCloseTimeout(d time.Duration) { j.closeTimeout = d }

// Awaits is how many calls of Await check the cursors now.
func (j *Journal) Awaits() int { return int(j.awaits.Load()) }

// Durable is the sequence up to which a cursor of a Journal reads nothing again, as far as
// it knows.
func Durable(c journal.Cursor) uint64 {
	if own, ok := c.(*cursor); ok {
		return own.durable()
	}
	return 0
}

// Saving reports whether the position of a cursor is being saved, or may not be.
func Saving(c journal.Cursor) bool {
	own, ok := c.(*cursor)
	if ok && own.saving.TryLock() {
		own.saving.Unlock()
		return false
	}
	return ok
}

// Remembered is how many sequences are kept in mind of subjects that Await was asked
// about, and about how many may be.
func (j *Journal) Remembered() (held, limit int) { return j.log.Subjects.Remembered() }

// Message is what is published of an event.
func (c *Config) Message(e *event.Event) *nats.Msg {
	m := &nats.Msg{Header: nats.Header{}}
	message.NewCodec(c.SubjectPrefix, nil, nil, nil).Fill(m, nil, e)
	return m
}

// Sender sends messages as Append does.
type Sender struct{ flights *publish.Flights }

// NewSender returns a sender to the subjects of a stream. What is acknowledged is told
// to landed.
func NewSender(conn *nats.Conn, stream string, patience time.Duration, landed func(ack js.PubAck)) (*Sender, error) {
	f := publish.NewFlights(conn, stream, func(fl *publish.Flight, ack js.PubAck) {
		landed(ack)
		fl.Outcome <- nil
	})
	f.Patience = ackwait.New(patience)
	return &Sender{flights: f}, f.Listen()
}

// Send returns where the outcome will come.
func (s *Sender) Send(ctx context.Context, subject string) (<-chan error, error) {
	f := publish.NewFlight()
	f.Message.Subject, f.Message.Data = subject, []byte("{}")
	return f.Outcome, s.flights.Send(ctx, f)
}

// Watch looks at the connection until ctx ends.
func (s *Sender) Watch(ctx context.Context) { s.flights.Watch(ctx) }

// Waiting is how many have no outcome yet, and how many places they take.
func (s *Sender) Waiting() (waiting, places int) {
	return s.flights.Waiting()
}

// Close ends the wait for acknowledgements.
func (s *Sender) Close() { s.flights.Close() }

// BytesByNamespace is what the janitor counts of the stream.
func (j *Journal) BytesByNamespace(ctx context.Context) (map[string]uint64, error) {
	c := retention.NewCensus(j.log, j.config.root(), 0)
	err := c.Count(ctx)
	all := map[string]uint64{}
	for _, u := range c.All {
		all[u.Namespace] = u.Bytes
	}
	return all, err
}

// MakeSpace does now what the janitor does when the stream is short of space, as often as it
// may.
func (j *Journal) MakeSpace(ctx context.Context) error {
	n := retention.New(j.log, j.sweeping()) // another one: the journal's own belongs to its goroutine
	err := n.Reclaim(ctx)
	if err == nil {
		err = n.Share(ctx)
	}
	return err
}

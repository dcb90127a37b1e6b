package publish

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal/jetstream/internal/eventlog"
	"github.com/informd/informd/pkg/journal/jetstream/internal/server"
)

// Publisher appends events to the stream.
type Publisher struct {
	*eventlog.Log
	Options
	Flights *Flights
	spare   sync.Pool     // of *flight
	turn    chan struct{} // held by the call that is sending
	// unknownFor is [unknownFor], shorter in tests.
	unknownFor time.Duration
	appending  *server.Outage
	Blocked    atomic.Int64
	Refused    atomic.Uint64 // events that the stream never takes
}

// Options are the settings, questions and findings of a publisher. The functions may be
// called concurrently; only unstorable may block.
type Options struct {
	// Ended is called for each last event of an object that is in the stream.
	Ended func(subject string, seq uint64, copied bool)
	// Short is called when the stream has no free space, missing when it seems not to exist.
	Short, Missing func()
	// Root is the subject prefix with the cluster.
	Root       string
	Conn       *nats.Conn
	StreamName string
	// Unstorable takes an event that the stream never takes; nil takes none.
	Unstorable func(ctx context.Context, e *event.Event, reason error) error
	// AfterLoss: the journal is known to have lost events.
	AfterLoss bool
	// Unread reports whether a sink has yet to read the event with a sequence.
	Unread func(seq uint64) bool
}

// New returns a publisher; appending reports its outages.
func New(log *eventlog.Log, appending *server.Outage, o Options) *Publisher {
	p := &Publisher{Log: log, Options: o, turn: make(chan struct{}, 1), unknownFor: unknownFor, appending: appending}
	p.Flights = NewFlights(o.Conn, o.StreamName, p.landed)
	return p
}

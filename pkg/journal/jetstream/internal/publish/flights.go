package publish

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	js "github.com/nats-io/nats.go/jetstream"

	"github.com/informd/informd/pkg/internal/ackwait"
)

const (
	// window is how many events may be on their way without an acknowledgement.
	window = 512
	// ackTimeout is how long the acknowledgement of one event may take.
	ackTimeout = 5 * time.Second
)

// Flights sends what is on its way and knows what waits for an acknowledgement. It
// does what the client library's asynchronous publishing does, which makes a timer and a
// future for each message and parses a JSON document. Its methods may be called concurrently.
type Flights struct {
	conn *nats.Conn
	// landed is called in the order of the acknowledgements, from one goroutine.
	landed func(f *Flight, ack js.PubAck)
	room   chan struct{} // one for each
	// Patience is how long an acknowledgement may take.
	Patience *ackwait.Wait

	stream  string
	usual   []byte // what an acknowledgement begins with that tells the sequence alone
	inbox   string // what the subjects of the acknowledgements begin with
	replies *nats.Subscription
	status  chan nats.Status

	mu      sync.Mutex
	index   map[uint64]*Flight // by number
	number  uint64             // of what was sent last
	overdue *time.Timer        // runs at least while the index holds something
}

// NewFlights returns the flights to a stream. Landed is called for each acknowledged event.
func NewFlights(conn *nats.Conn, stream string, landed func(*Flight, js.PubAck)) *Flights {
	return &Flights{
		conn: conn, landed: landed, room: make(chan struct{}, window), Patience: ackwait.New(ackTimeout), index: map[uint64]*Flight{},
		stream: stream, usual: fmt.Appendf(nil, `{"stream":%q,"seq":`, stream),
	}
}

// Listen begins to take acknowledgements. Without an error, close ends that.
func (f *Flights) Listen() error {
	f.inbox = f.conn.NewInbox() + "."
	var err error
	if f.replies, err = f.conn.Subscribe(f.inbox+"*", f.answered); err != nil {
		return fmt.Errorf("subscribe to acknowledgements: %w", err)
	}
	f.status = f.conn.StatusChanged(nats.RECONNECTING, nats.CLOSED)
	return nil
}

// Close ends the subscription and the timer.
func (f *Flights) Close() {
	f.conn.RemoveStatusListener(f.status)
	_ = f.replies.Unsubscribe() // it fails if the connection is closed, which does the same
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.overdue != nil {
		f.overdue.Stop()
	}
}

// Watch ends the wait for acknowledgements that were lost with the connection they
// should have come through, until ctx ends.
func (f *Flights) Watch(ctx context.Context) {
	for {
		select {
		case _, open := <-f.status:
			if !open {
				return
			}
			f.giveUp(func(*Flight) bool { return true }, nats.ErrDisconnected)
		case <-ctx.Done():
			return
		}
	}
}

// Send brings the event on its way. The outcome comes through the flight's channel;
// the error is that of ctx.
func (f *Flights) Send(ctx context.Context, fl *Flight) error {
	select {
	case f.room <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	fl.flying = true
	number := f.add(fl)
	var reply [64]byte
	fl.Message.Reply = string(strconv.AppendUint(append(reply[:0], f.inbox...), number, 36))
	if err := f.conn.PublishMsg(fl.Message); err != nil {
		if fl := f.take(number); fl != nil {
			fl.Outcome <- err
		}
	}
	return nil
}

func (f *Flights) add(fl *Flight) (number uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	fl.since = time.Now()
	f.number++
	f.index[f.number] = fl
	switch {
	case f.overdue == nil:
		f.overdue = time.AfterFunc(f.Patience.Now(), f.expire)
	case len(f.index) == 1:
		f.overdue.Reset(f.Patience.Now())
	}
	return f.number
}

// take removes a flight; nil if it is gone already. Whoever takes it says what became
// of it.
func (f *Flights) take(number uint64) *Flight {
	f.mu.Lock()
	defer f.mu.Unlock()
	fl := f.index[number]
	if fl != nil {
		delete(f.index, number)
		<-f.room
	}
	return fl
}

// None reports whether nothing is on its way.
func (f *Flights) None() bool {
	events, _ := f.Waiting()
	return events == 0
}

// Waiting returns how many events have no acknowledgement yet, and how many places of the window
// they take.
func (f *Flights) Waiting() (events, places int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.index), len(f.room)
}

// expire gives up what has waited for too long, and comes again when the next one will
// have.
func (f *Flights) expire() {
	now, patience := time.Now(), f.Patience.Now()
	if f.giveUp(func(fl *Flight) bool { return now.Sub(fl.since) >= patience }, js.ErrAsyncPublishTimeout) {
		f.Patience.Unanswered()
		patience = f.Patience.Now()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.index) == 0 {
		return
	}
	oldest := now
	for _, fl := range f.index {
		if fl.since.Before(oldest) {
			oldest = fl.since
		}
	}
	f.overdue.Reset(max(patience-now.Sub(oldest), time.Millisecond))
}

// giveUp ends the wait for an acknowledgement: if it comes after all, it counts for
// nothing. It reports whether there was any.
func (f *Flights) giveUp(which func(*Flight) bool, why error) (found bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for number, fl := range f.index {
		if which(fl) {
			delete(f.index, number)
			<-f.room
			fl.Outcome <- why
			found = true
		}
	}
	return found
}

// answered is called by the client library, one reply after the other.
func (f *Flights) answered(m *nats.Msg) {
	token, _ := strings.CutPrefix(m.Subject, f.inbox)
	number, err := strconv.ParseUint(token, 36, 64)
	if err != nil {
		return
	}
	fl := f.take(number)
	if fl == nil {
		return
	}
	f.Patience.Answered(time.Since(fl.since))
	ack, err := f.read(m)
	if err != nil {
		fl.Outcome <- err
		return
	}
	f.landed(fl, ack)
}

// read returns what the server says to a message.
func (f *Flights) read(m *nats.Msg) (js.PubAck, error) {
	if rest, ok := bytes.CutPrefix(m.Data, f.usual); ok {
		if digits, ok := bytes.CutSuffix(rest, []byte("}")); ok {
			if seq, err := strconv.ParseUint(string(digits), 10, 64); err == nil {
				return js.PubAck{Stream: f.stream, Sequence: seq}, nil
			}
		}
	}
	if len(m.Data) == 0 && m.Header.Get("Status") == "503" {
		return js.PubAck{}, js.ErrNoStreamResponse
	}
	var answer struct {
		js.PubAck
		Error *js.APIError `json:"error"`
	}
	switch err := json.Unmarshal(m.Data, &answer); {
	case err != nil:
		return js.PubAck{}, js.ErrInvalidJSAck
	case answer.Error != nil:
		return js.PubAck{}, answer.Error
	case answer.Stream == "":
		return js.PubAck{}, js.ErrInvalidJSAck
	}
	return answer.PubAck, nil
}

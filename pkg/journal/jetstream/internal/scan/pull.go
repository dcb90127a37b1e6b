package scan

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	js "github.com/nats-io/nats.go/jetstream"
)

const (
	apiPrefix = "$JS.API."
	// pullDelay is how long the server may take to read the next message from its disk.
	pullDelay = time.Second
	// consumerLife is how long the server keeps an unused consumer.
	consumerLife = 5 * time.Minute
	// closeTimeout bounds the deletion of a consumer.
	closeTimeout = 1500 * time.Millisecond
	// FollowerDelay is how long a replica may be behind the acknowledgement of a
	// message before it counts as gone.
	FollowerDelay = 2 * time.Second
)

// HeaderBatch is how many headers a pull asks for.
const HeaderBatch = 2000

// Puller reads a stream in pulls, without acknowledgements, through a consumer in the server's
// memory. It belongs to one goroutine. After any error it must be closed; another one
// continues behind the last message.
//
// The stream decides whether messages are left, not the consumer. The server (2.15) counts too
// few messages as pending, by dozens at times, if messages were removed while it made the
// consumer. At a count of 0, a pull that does not wait gets nothing.
//
// The pulls of the client library are not used. They allocate for a million messages if only
// bytes are bounded. They also miss a connection that is lost between delivery and receipt:
// for the server, such messages are read.
type Puller struct {
	stream   *Stream
	scan     Scan
	consumer js.Consumer
	sub      *nats.Subscription
	inbox    string
	wait     time.Duration
	// overdue ends a fetch when nothing has come for limit.
	overdue *time.Timer
	limit   time.Duration

	pulls    int
	received uint64 // consumer sequence of the last message
	// Pending is the server's count of the messages behind the last one that was returned.
	Pending uint64
	// Last is the sequence of the last message that was returned.
	Last uint64
	// Over is set when no message is left. For the last messages of subjects,
	// [LastPerSubject] finds that out.
	Over bool
}

// Message is a stored message. With headers only it has no body.
type Message struct {
	*nats.Msg
	Seq  uint64
	Time time.Time
}

// Value returns a header; "" if there is none, or no message.
func (m Message) Value(key string) string {
	if m.Msg == nil {
		return ""
	}
	return m.Header.Get(key)
}

// Scan describes what to read.
type Scan struct {
	Policy js.DeliverPolicy
	// From is the first sequence, for DeliverByStartSequencePolicy. To is the last one to
	// return; 0 is no bound.
	From, To uint64
	Filters  []string
	// Headers leaves out the bodies.
	Headers bool
	// Batch and Bytes bound a pull; 0 bytes are no bound.
	Batch, Bytes int
}

// listed: the server makes a list at the beginning, and reads from that.
func (s *Scan) listed() bool { return s.Policy == js.DeliverLastPerSubjectPolicy }

// Pull begins a scan.
func (s *Stream) Pull(ctx context.Context, what Scan) (*Puller, error) {
	p := &Puller{stream: s, scan: what, inbox: s.conn.NewInbox()}
	config := js.ConsumerConfig{
		DeliverPolicy:     what.Policy,
		AckPolicy:         js.AckNonePolicy,
		FilterSubjects:    what.Filters,
		HeadersOnly:       what.Headers,
		MemoryStorage:     true,
		InactiveThreshold: consumerLife,
	}
	if what.Policy == js.DeliverByStartSequencePolicy {
		config.OptStartSeq, p.Last = what.From, what.From-1
	}
	// A pull of a list never waits: what the server comes to when the wait is over, it
	// has taken off the list, and delivers to nobody.
	if !what.listed() && s.Replicated() {
		p.wait = FollowerDelay
	}
	err := s.requests.Do(ctx, func(ctx context.Context) (err error) {
		p.consumer, err = s.CreateConsumer(ctx, config)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("create a consumer: %w", err)
	}
	p.Pending = p.consumer.CachedInfo().NumPending
	if p.sub, err = s.conn.SubscribeSync(p.inbox + ".*"); err != nil {
		p.Close(ctx)
		return nil, fmt.Errorf("subscribe: %w", err)
	}
	return p, nil
}

// Close gives the consumer back, if the server can be reached; else it expires.
func (p *Puller) Close(ctx context.Context) {
	if p.sub != nil {
		_ = p.sub.Unsubscribe() // fails only if the connection is closed
	}
	if !p.stream.conn.IsConnected() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	_ = p.stream.DeleteConsumer(ctx, p.consumer.CachedInfo().Name) // it expires if this fails
}

// Next returns the next messages, possibly none. Afterwards over says whether nothing is
// left.
func (p *Puller) Next(ctx context.Context) ([]Message, error) {
	found, err := p.fetch(ctx)
	if err != nil {
		return nil, err
	}
	if n := len(found); n > 0 {
		p.Last = found[n-1].Seq
	}
	if found = p.within(found); p.Over || p.scan.listed() || !p.isOver(len(found)) {
		return found, nil
	}
	return found, p.confirm(ctx, len(found) == 0)
}

// fetch is a pull. It ends when nothing comes for longer than the server may take.
func (p *Puller) fetch(ctx context.Context) ([]Message, error) {
	patience := p.stream.requests.Patience
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	p.limit = p.wait + pullDelay + patience.Now()
	p.overdue = time.AfterFunc(p.limit, func() {
		patience.Unanswered()
		cancel(errNothing)
	})
	defer p.overdue.Stop()
	found, tooLarge, err := p.request(ctx, p.scan.Batch, p.scan.Bytes)
	if err == nil && tooLarge && len(found) == 0 {
		found, _, err = p.request(ctx, 1, 0) // one message that alone is above the bound
	}
	if err != nil && errors.Is(context.Cause(ctx), errNothing) {
		return nil, fmt.Errorf("pull: %w", errNothing)
	}
	return found, err
}

// errNothing: the server, or the one that has the consumer, has not answered a pull.
var errNothing = errors.New("the NATS server does not answer")

// isOver reports whether nothing seems to be left after a pull that has brought so many.
func (p *Puller) isOver(found int) bool { return found == 0 || p.Pending == 0 }

// within cuts off what lies behind the end of the scan.
func (p *Puller) within(found []Message) []Message {
	if p.scan.To == 0 {
		return found
	}
	n := slices.IndexFunc(found, func(m Message) bool { return m.Seq > p.scan.To })
	if n < 0 {
		p.Over = p.Last == p.scan.To
		return found
	}
	p.Over = true
	return found[:n]
}

// confirm asks the stream whether nothing is left. If that is not so and the pull has
// brought nothing, the next ones wait: those get what there is, whatever is counted.
func (p *Puller) confirm(ctx context.Context, nothing bool) error {
	var next uint64
	err := p.stream.requests.Do(ctx, func(ctx context.Context) (err error) {
		next, err = p.stream.nextSequence(ctx, p.scan, p.Last+1)
		return err
	})
	if err != nil {
		return err
	}
	p.Over = next == 0 || p.scan.To > 0 && next > p.scan.To
	switch {
	case next == 0 && p.Pending > 0:
		return p.stream.nothingFrom(ctx, p.scan, p.Last+1)
	case p.Over, !nothing:
	case p.wait == 0:
		p.wait = FollowerDelay
	default:
		return fmt.Errorf("pull: the server has message %d, and does not deliver it", next)
	}
	return nil
}

// pullRequest is the server's form of it.
type pullRequest struct {
	Batch    int           `json:"batch"`
	MaxBytes int           `json:"max_bytes,omitempty"`
	NoWait   bool          `json:"no_wait,omitempty"`
	Expires  time.Duration `json:"expires,omitempty"`
}

func (p *Puller) request(ctx context.Context, batch, bytes int) (found []Message, tooLarge bool, err error) {
	body, err := json.Marshal(pullRequest{Batch: batch, MaxBytes: bytes, NoWait: p.wait == 0, Expires: p.wait})
	if err != nil {
		return nil, false, err
	}
	p.pulls++
	reply := p.inbox + "." + strconv.Itoa(p.pulls)
	info := p.consumer.CachedInfo()
	if err := p.stream.conn.PublishRequest(apiPrefix+"CONSUMER.MSG.NEXT."+info.Stream+"."+info.Name, reply, body); err != nil {
		return nil, false, fmt.Errorf("pull: %w", err)
	}
	for len(found) < batch && (len(found) == 0 || p.scan.listed() || !p.isOver(len(found))) {
		m, err := p.sub.NextMsgWithContext(ctx)
		if err != nil {
			return nil, false, fmt.Errorf("pull: %w", err)
		}
		p.overdue.Reset(p.limit)
		if status := m.Header.Get("Status"); status != "" && m.Reply == "" {
			if m.Subject != reply {
				continue // the end of an earlier pull, which was known before
			}
			end, large, err := judgeStatus(status, m.Header.Get("Description"))
			if err != nil || end {
				return found, large, err
			}
			continue
		}
		received, err := p.accept(m)
		if err != nil {
			return nil, false, err
		}
		found = append(found, received)
	}
	return found, false, nil
}

// accept takes a message if it is the next one.
func (p *Puller) accept(m *nats.Msg) (Message, error) {
	meta, err := m.Metadata()
	if err != nil {
		return Message{}, fmt.Errorf("pull: %w", err)
	}
	if p.received++; meta.Sequence.Consumer != p.received {
		return Message{}, errors.New("pull: messages are missing")
	}
	p.Pending = meta.NumPending
	return Message{Msg: m, Seq: meta.Sequence.Stream, Time: meta.Timestamp}, nil
}

// judgeStatus says what a message without content means.
func judgeStatus(status, description string) (end, tooLarge bool, err error) {
	switch {
	case status == "100":
		return false, false, nil
	case status == "404", status == "408":
		return true, false, nil
	case status == "409" && strings.Contains(description, "MaxBytes"):
		return true, true, nil
	default:
		return false, false, fmt.Errorf("pull: the server answers %s %s", status, description)
	}
}

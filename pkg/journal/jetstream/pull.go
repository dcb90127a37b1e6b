package jetstream

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
	// consumerLife is how long the server keeps a consumer that nobody asks.
	consumerLife = 5 * time.Minute
	// followerDelay is how long a replica may be behind the acknowledgement of a
	// message before it counts as gone.
	followerDelay = 2 * time.Second
)

// puller reads a stream in pulls, without acknowledgements, through a consumer
// that lives in the server's memory. It belongs to one goroutine. After any error
// it must be closed: another one goes on behind what was returned.
//
// That nothing is left says the stream, not the consumer: what the server (2.15) counts as
// pending for a consumer is too low, by dozens of messages at times, if messages were
// removed while it was made, and a pull that does not wait gets nothing once that is down
// to zero.
//
// The client library's own way is not used because it allocates for a million
// messages where only bytes are bounded, and does not notice when a connection is
// lost between delivery and receipt: the server takes such messages for read.
type puller struct {
	journal  *Journal
	conn     *nats.Conn
	scan     scan
	consumer js.Consumer
	sub      *nats.Subscription
	inbox    string
	wait     time.Duration
	// overdue ends a fetch when nothing has come for limit.
	overdue *time.Timer
	limit   time.Duration

	pulls    int
	received uint64 // consumer sequence of the last message
	pending  uint64 // behind the last message returned; at first, all
	last     uint64 // sequence of the last message
	// over: nothing is left. Of what comes from a list, lasts says that.
	over bool
}

// message is a stored message. With headers only it has no body.
type message struct {
	*nats.Msg
	seq  uint64
	time time.Time
}

// header returns a header of a message that may be none.
func (m message) header(key string) string {
	if m.Msg == nil {
		return ""
	}
	return m.Header.Get(key)
}

// scan describes what to read.
type scan struct {
	stream  js.Stream
	policy  js.DeliverPolicy
	from    uint64 // for DeliverByStartSequencePolicy
	to      uint64 // what lies behind is not returned; 0: all is
	filters []string
	headers bool // without bodies
	batch   int
	bytes   int // 0: not bounded
}

// listed: the server makes a list at the beginning, and reads from that.
func (s *scan) listed() bool { return s.policy == js.DeliverLastPerSubjectPolicy }

// pull begins a scan.
func (j *Journal) pull(ctx context.Context, s scan) (*puller, error) {
	p := &puller{journal: j, conn: j.config.Conn, scan: s, inbox: j.config.Conn.NewInbox()}
	config := js.ConsumerConfig{
		DeliverPolicy:     s.policy,
		AckPolicy:         js.AckNonePolicy,
		FilterSubjects:    s.filters,
		HeadersOnly:       s.headers,
		MemoryStorage:     true,
		InactiveThreshold: consumerLife,
	}
	if s.policy == js.DeliverByStartSequencePolicy {
		config.OptStartSeq, p.last = s.from, s.from-1
	}
	// A pull of a list never waits: what the server comes to when the wait is over, it
	// has taken off the list, and delivers to nobody.
	if !s.listed() && replicated(s.stream) {
		p.wait = followerDelay
	}
	err := j.ask(ctx, func(ctx context.Context) (err error) {
		p.consumer, err = s.stream.CreateConsumer(ctx, config)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("create a consumer: %w", err)
	}
	p.pending = p.consumer.CachedInfo().NumPending
	if p.sub, err = p.conn.SubscribeSync(p.inbox + ".*"); err != nil {
		p.close(ctx)
		return nil, fmt.Errorf("subscribe: %w", err)
	}
	return p, nil
}

// close gives the consumer back, if the server can be reached; else it expires.
func (p *puller) close(ctx context.Context) {
	if p.sub != nil {
		_ = p.sub.Unsubscribe() // fails only if the connection is closed
	}
	if !p.conn.IsConnected() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closePatience)
	defer cancel()
	_ = p.scan.stream.DeleteConsumer(ctx, p.consumer.CachedInfo().Name) // it expires if this fails
}

// next returns the next messages, possibly none. Afterwards over says whether nothing is
// left.
func (p *puller) next(ctx context.Context) ([]message, error) {
	found, err := p.fetch(ctx)
	if err != nil {
		return nil, err
	}
	if n := len(found); n > 0 {
		p.last = found[n-1].seq
	}
	if found = p.within(found); p.over || p.scan.listed() || !p.isOver(len(found)) {
		return found, nil
	}
	return found, p.confirm(ctx, len(found) == 0)
}

// fetch is a pull. It ends when nothing comes for longer than the server may take.
func (p *puller) fetch(ctx context.Context) ([]message, error) {
	patience := p.journal.patience
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	p.limit = p.wait + pullDelay + patience.Now()
	p.overdue = time.AfterFunc(p.limit, func() {
		patience.Unanswered()
		cancel(errNothing)
	})
	defer p.overdue.Stop()
	found, tooLarge, err := p.request(ctx, p.scan.batch, p.scan.bytes)
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
func (p *puller) isOver(found int) bool { return found == 0 || p.pending == 0 }

// within cuts off what lies behind the end of the scan.
func (p *puller) within(found []message) []message {
	if p.scan.to == 0 {
		return found
	}
	n := slices.IndexFunc(found, func(m message) bool { return m.seq > p.scan.to })
	if n < 0 {
		p.over = p.last == p.scan.to
		return found
	}
	p.over = true
	return found[:n]
}

// confirm asks the stream whether nothing is left. If that is not so and the pull has
// brought nothing, the next ones wait: those get what there is, whatever is counted.
func (p *puller) confirm(ctx context.Context, nothing bool) error {
	var next uint64
	err := p.journal.ask(ctx, func(ctx context.Context) (err error) {
		next, err = p.journal.nextSequence(ctx, p.scan, p.last+1)
		return err
	})
	if err != nil {
		return err
	}
	p.over = next == 0 || p.scan.to > 0 && next > p.scan.to
	switch {
	case next == 0 && p.pending > 0:
		return p.journal.nothingFrom(ctx, p.scan, p.last+1)
	case p.over, !nothing:
	case p.wait == 0:
		p.wait = followerDelay
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

func (p *puller) request(ctx context.Context, batch, bytes int) (found []message, tooLarge bool, err error) {
	body, err := json.Marshal(pullRequest{Batch: batch, MaxBytes: bytes, NoWait: p.wait == 0, Expires: p.wait})
	if err != nil {
		return nil, false, err
	}
	p.pulls++
	reply := p.inbox + "." + strconv.Itoa(p.pulls)
	info := p.consumer.CachedInfo()
	if err := p.conn.PublishRequest(apiPrefix+"CONSUMER.MSG.NEXT."+info.Stream+"."+info.Name, reply, body); err != nil {
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
func (p *puller) accept(m *nats.Msg) (message, error) {
	meta, err := m.Metadata()
	if err != nil {
		return message{}, fmt.Errorf("pull: %w", err)
	}
	if p.received++; meta.Sequence.Consumer != p.received {
		return message{}, errors.New("pull: messages are missing")
	}
	p.pending = meta.NumPending
	return message{Msg: m, seq: meta.Sequence.Stream, time: meta.Timestamp}, nil
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

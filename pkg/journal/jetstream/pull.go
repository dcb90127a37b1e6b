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
	// pullPatience is how long one pull may take.
	pullPatience = 10 * time.Second
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
// removed while it was made, and a pull gets nothing once that is down to zero.
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

// scan describes what to read.
type scan struct {
	stream  js.Stream
	policy  js.DeliverPolicy
	from    uint64    // for DeliverByStartSequencePolicy
	since   time.Time // for DeliverByStartTimePolicy
	to      uint64    // what lies behind is not returned; 0: all is
	filters []string
	headers bool // without bodies
	batch   int
	bytes   int // 0: not bounded
}

// listed: the server makes a list at the beginning, and reads from that.
func (s *scan) listed() bool { return s.policy == js.DeliverLastPerSubjectPolicy }

// pull begins a scan.
func (j *Journal) pull(ctx context.Context, s scan) (*puller, error) {
	p := &puller{journal: j, conn: j.config.Conn, scan: s}
	if s.policy == js.DeliverByStartSequencePolicy {
		p.last = s.from - 1
	}
	if j.config.Replicas > 1 && !s.listed() {
		p.wait = followerDelay
	}
	if err := p.begin(ctx); err != nil {
		return nil, err
	}
	return p, nil
}

// begin makes the consumer. After an error there is none.
func (p *puller) begin(ctx context.Context) (err error) {
	config := js.ConsumerConfig{
		DeliverPolicy:     p.scan.policy,
		AckPolicy:         js.AckNonePolicy,
		FilterSubjects:    p.scan.filters,
		HeadersOnly:       p.scan.headers,
		MemoryStorage:     true,
		InactiveThreshold: consumerLife,
	}
	switch p.scan.policy {
	case js.DeliverByStartSequencePolicy:
		config.OptStartSeq = p.scan.from
	case js.DeliverByStartTimePolicy:
		config.OptStartTime = &p.scan.since
	default:
	}
	limited, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	if p.consumer, err = p.scan.stream.CreateConsumer(limited, config); err != nil {
		return fmt.Errorf("create a consumer: %w", err)
	}
	p.received, p.pending = 0, p.consumer.CachedInfo().NumPending
	p.inbox = p.conn.NewInbox()
	if p.sub, err = p.conn.SubscribeSync(p.inbox + ".*"); err != nil {
		p.close(ctx)
		return fmt.Errorf("subscribe: %w", err)
	}
	return nil
}

// close gives the consumer back, if the server can be reached; else it expires.
func (p *puller) close(ctx context.Context) {
	if p.sub != nil {
		_ = p.sub.Unsubscribe() // fails only if the connection is closed
	}
	if p.consumer == nil || !p.conn.IsConnected() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closePatience)
	defer cancel()
	_ = p.scan.stream.DeleteConsumer(ctx, p.consumer.CachedInfo().Name) // it expires if this fails
}

// next returns the next messages, possibly none. Afterwards over says whether nothing is
// left.
func (p *puller) next(ctx context.Context) ([]message, error) {
	ctx, cancel := context.WithTimeout(ctx, pullPatience)
	defer cancel()
	found, tooLarge, err := p.request(ctx, p.scan.batch, p.scan.bytes)
	if err == nil && tooLarge && len(found) == 0 {
		found, _, err = p.request(ctx, 1, 0) // one message that alone is above the bound
	}
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

// confirm asks the stream whether nothing is left. If that is not so and the consumer
// has brought nothing, another one takes its place.
func (p *puller) confirm(ctx context.Context, nothing bool) error {
	if p.scan.policy == js.DeliverByStartTimePolicy {
		p.over = true // nobody reads on from there
		return nil
	}
	next, err := p.journal.nextSequence(ctx, p.scan, p.last+1)
	if err != nil {
		return err
	}
	if p.over = next == 0 || p.scan.to > 0 && next > p.scan.to; p.over || !nothing {
		return nil
	}
	p.close(ctx)
	p.scan.policy, p.scan.from = js.DeliverByStartSequencePolicy, p.last+1
	return p.begin(ctx)
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
		return message{}, errors.New("pull: messages were lost on the way")
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
		return false, false, fmt.Errorf("pull: the server says %s %s", status, description)
	}
}

// stored is the answer to a question for one message.
type stored struct {
	Error   *js.APIError `json:"error"`
	Message *struct {
		Subject string    `json:"subject"`
		Seq     uint64    `json:"seq"`
		Header  []byte    `json:"hdrs"`
		Data    []byte    `json:"data"`
		Time    time.Time `json:"time"`
	} `json:"message"`
}

// lastMessage asks the leader of a stream for the last message of a subject; its
// sequence is 0 if there is none. The client library asks any replica, which may
// be behind.
func (j *Journal) lastMessage(ctx context.Context, stream, subject string) (message, error) {
	question, err := json.Marshal(map[string]string{"last_by_subj": subject})
	if err != nil {
		return message{}, err
	}
	if j.config.Own { // there is one replica, and what it says so costs a fifth
		if m, err := j.lastDirect(ctx, stream, subject, question); !errors.Is(err, nats.ErrNoResponders) {
			return m, err
		}
	}
	m, err := j.getMessage(ctx, stream, question)
	if err != nil {
		return message{}, fmt.Errorf("get the last message of %s: %w", subject, err)
	}
	return m, nil
}

// nextSequence asks the leader of a stream for the first sequence, from one on, of a
// message that a scan is to bring; 0 if there is none.
func (j *Journal) nextSequence(ctx context.Context, s scan, from uint64) (uint64, error) {
	filters := s.filters
	if len(filters) == 0 {
		filters = []string{">"}
	}
	first := uint64(0)
	for _, filter := range filters {
		question, err := json.Marshal(map[string]any{"seq": from, "next_by_subj": filter, "no_hdr": true})
		if err != nil {
			return 0, err
		}
		m, err := j.getMessage(ctx, s.stream.CachedInfo().Config.Name, question)
		if err != nil {
			return 0, fmt.Errorf("get the first message of %s from %d on: %w", filter, from, err)
		}
		if m.seq != 0 && (first == 0 || m.seq < first) {
			first = m.seq
		}
	}
	return first, nil
}

// getMessage asks the leader of a stream for one message; its sequence is 0 if there is
// none.
func (j *Journal) getMessage(ctx context.Context, stream string, question []byte) (message, error) {
	reply, err := j.config.Conn.RequestWithContext(ctx, apiPrefix+"STREAM.MSG.GET."+stream, question)
	if err != nil {
		return message{}, err
	}
	var answer stored
	if err := json.Unmarshal(reply.Data, &answer); err != nil {
		return message{}, err
	}
	switch {
	case answer.Error != nil && answer.Error.ErrorCode == js.JSErrCodeMessageNotFound:
		return message{}, nil
	case answer.Error != nil:
		return message{}, answer.Error
	case answer.Message == nil:
		return message{}, errors.New("empty answer")
	}
	m := message{Msg: &nats.Msg{Subject: answer.Message.Subject, Data: answer.Message.Data}, seq: answer.Message.Seq, time: answer.Message.Time}
	if len(answer.Message.Header) > 0 {
		if m.Header, err = nats.DecodeHeadersMsg(answer.Message.Header); err != nil {
			return message{}, err
		}
	}
	return m, nil
}

// lastDirect is lastMessage for a stream with one replica that allows it: what it has is
// sent as it is, and not as JSON.
func (j *Journal) lastDirect(ctx context.Context, stream, subject string, question []byte) (message, error) {
	reply, err := j.config.Conn.RequestWithContext(ctx, apiPrefix+"DIRECT.GET."+stream, question)
	if err != nil {
		return message{}, fmt.Errorf("get the last message of %s: %w", subject, err)
	}
	switch status := reply.Header.Get("Status"); status {
	case "":
	case "404":
		return message{}, nil
	default:
		return message{}, fmt.Errorf("get the last message of %s: status %s %s", subject, status, reply.Header.Get("Description"))
	}
	m := message{Msg: &nats.Msg{Subject: subject, Header: reply.Header, Data: reply.Data}}
	if m.seq, err = strconv.ParseUint(reply.Header.Get(js.SequenceHeader), 10, 64); err == nil {
		m.time, err = time.Parse(time.RFC3339Nano, reply.Header.Get(js.TimeStampHeaer))
	}
	if err != nil {
		return message{}, fmt.Errorf("get the last message of %s: %w", subject, err)
	}
	return m, nil
}

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
// The client library's own way is not used because it allocates for a million
// messages where only bytes are bounded, and does not notice when a connection is
// lost between delivery and receipt: the server takes such messages for read.
type puller struct {
	conn     *nats.Conn
	consumer js.Consumer
	drop     func(ctx context.Context, name string) error
	sub      *nats.Subscription
	inbox    string
	batch    int
	bytes    int // 0: not bounded
	wait     time.Duration

	pulls    int
	received uint64 // consumer sequence of the last message
	pending  uint64 // behind the last message returned; at first, all
	// over: nothing is left.
	over bool

	// lasts: the consumer delivers the last per subject. The server (2.15) makes a list
	// of them, total of them, at the beginning. It ends a pull where the next one was
	// removed since, as if there were no more, and its count of what is pending goes
	// down with every message that is removed. So what counts is how many came, and
	// how often a pull was cut short, which is once for each that did not.
	lasts      bool
	total, cut uint64
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
	filters []string
	headers bool // without bodies
	batch   int
	bytes   int
}

// pull begins a scan.
func (j *Journal) pull(ctx context.Context, s scan) (*puller, error) {
	config := js.ConsumerConfig{
		DeliverPolicy:     s.policy,
		AckPolicy:         js.AckNonePolicy,
		FilterSubjects:    s.filters,
		HeadersOnly:       s.headers,
		MemoryStorage:     true,
		InactiveThreshold: consumerLife,
	}
	switch s.policy {
	case js.DeliverByStartSequencePolicy:
		config.OptStartSeq = s.from
	case js.DeliverByStartTimePolicy:
		config.OptStartTime = &s.since
	default:
	}
	limited, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	consumer, err := s.stream.CreateConsumer(limited, config)
	if err != nil {
		return nil, fmt.Errorf("create a consumer: %w", err)
	}
	p := &puller{
		conn: j.config.Conn, consumer: consumer, drop: s.stream.DeleteConsumer,
		inbox: j.config.Conn.NewInbox(), batch: s.batch, bytes: s.bytes,
		pending: consumer.CachedInfo().NumPending, lasts: s.policy == js.DeliverLastPerSubjectPolicy,
	}
	p.total = p.pending
	if j.config.Replicas > 1 {
		p.wait = followerDelay
	}
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
	_ = p.drop(ctx, p.consumer.CachedInfo().Name) // it expires if this fails
}

// next returns the next messages, possibly none. Afterwards over says whether nothing is
// left.
func (p *puller) next(ctx context.Context) ([]message, error) {
	ctx, cancel := context.WithTimeout(ctx, pullPatience)
	defer cancel()
	found, tooLarge, err := p.request(ctx, p.batch, p.bytes)
	if err == nil && tooLarge && len(found) == 0 {
		found, _, err = p.request(ctx, 1, 0) // one message that alone is above the bound
	}
	p.over = err == nil && p.isOver(len(found))
	return found, err
}

// isOver reports whether nothing is left after a pull that has brought so many. If
// something of the list was removed, one more pull has to bring nothing: the list may
// have been longer than the total by what was removed before it was counted.
func (p *puller) isOver(found int) bool {
	switch {
	case !p.lasts:
		return found == 0 || p.pending == 0
	case p.cut == 0:
		return p.received >= p.total
	default:
		return found == 0 && p.received+p.cut >= p.total
	}
}

// nextUpTo is next for what lies at or below the sequence end, and reports whether
// that is through.
func (p *puller) nextUpTo(ctx context.Context, end uint64) (found []message, through bool, err error) {
	if found, err = p.next(ctx); err != nil {
		return nil, false, err
	}
	if n := slices.IndexFunc(found, func(m message) bool { return m.seq > end }); n >= 0 {
		return found[:n], true, nil
	}
	return found, p.over, nil
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
	for len(found) < batch && (len(found) == 0 || !p.isOver(len(found))) {
		m, err := p.sub.NextMsgWithContext(ctx)
		if err != nil {
			return nil, false, fmt.Errorf("pull: %w", err)
		}
		if status := m.Header.Get("Status"); status != "" && m.Reply == "" {
			if m.Subject != reply {
				continue // the end of an earlier pull, which was known before
			}
			end, large, err := p.judgeStatus(status, m.Header.Get("Description"))
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

// judgeStatus says what a message without content means, and counts the pulls that end.
func (p *puller) judgeStatus(status, description string) (end, tooLarge bool, err error) {
	switch {
	case status == "100":
		return false, false, nil
	case status == "404", status == "408":
		p.cut++
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
		Seq    uint64    `json:"seq"`
		Header []byte    `json:"hdrs"`
		Data   []byte    `json:"data"`
		Time   time.Time `json:"time"`
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
	reply, err := j.config.Conn.RequestWithContext(ctx, apiPrefix+"STREAM.MSG.GET."+stream, question)
	if err != nil {
		return message{}, fmt.Errorf("get the last message of %s: %w", subject, err)
	}
	var answer stored
	if err := json.Unmarshal(reply.Data, &answer); err != nil {
		return message{}, fmt.Errorf("get the last message of %s: %w", subject, err)
	}
	switch {
	case answer.Error != nil && answer.Error.ErrorCode == js.JSErrCodeMessageNotFound:
		return message{}, nil
	case answer.Error != nil:
		return message{}, fmt.Errorf("get the last message of %s: %w", subject, answer.Error)
	case answer.Message == nil:
		return message{}, fmt.Errorf("get the last message of %s: empty answer", subject)
	}
	m := message{Msg: &nats.Msg{Subject: subject, Data: answer.Message.Data}, seq: answer.Message.Seq, time: answer.Message.Time}
	if len(answer.Message.Header) > 0 {
		if m.Header, err = nats.DecodeHeadersMsg(answer.Message.Header); err != nil {
			return message{}, fmt.Errorf("get the last message of %s: %w", subject, err)
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

package jetstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	js "github.com/nats-io/nats.go/jetstream"
)

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

// everything is the filter that all subjects match.
const everything = ">"

// nextSequence asks the leader of a stream for the first sequence, from one on, of a
// message that a scan is to bring; 0 if there is none.
func (j *Journal) nextSequence(ctx context.Context, s scan, from uint64) (uint64, error) {
	filters := s.filters
	if len(filters) == 0 {
		filters = []string{everything}
	}
	first := uint64(0)
	for _, filter := range filters {
		question, err := json.Marshal(map[string]any{"seq": from, "next_by_subj": filter, "no_hdr": true})
		if err != nil {
			return 0, err
		}
		m, err := j.getMessage(ctx, s.stream.CachedInfo().Config.Name, question)
		if err != nil {
			return 0, fmt.Errorf("get the first message of %s since sequence %d: %w", filter, from, err)
		}
		if m.seq != 0 && (first == 0 || m.seq < first) {
			first = m.seq
		}
	}
	return first, nil
}

// nothingFrom is asked where a stream says that a scan finds nothing from a sequence on.
// That is also the answer of a server (2.15) that cannot read what it has: then it counts
// it, and the error says so.
func (j *Journal) nothingFrom(ctx context.Context, s scan, from uint64) error {
	s.policy, s.from = js.DeliverByStartSequencePolicy, from
	n, err := j.count(ctx, s)
	if err == nil && n > 0 {
		err = fmt.Errorf("the server counts %d messages since sequence %d, and finds none", n, from)
	}
	return err
}

// reaches is asked where a scan has ended at the sequence last, before what is missing
// behind that, up to another sequence, counts as removed. A leader that has just been
// voted out may not know what was acknowledged since, and the error says so.
func (j *Journal) reaches(ctx context.Context, seq, last uint64) error {
	if last >= seq {
		return nil
	}
	end, err := j.last(ctx)
	if err == nil && end < seq {
		err = fmt.Errorf("stream %s ends at sequence %d, and ended at %d before", j.config.Stream, end, seq)
	}
	return err
}

// count returns how many messages a scan would bring, or less: see puller.
func (j *Journal) count(ctx context.Context, s scan) (uint64, error) {
	p, err := j.pull(ctx, s)
	if err != nil {
		return 0, err
	}
	defer p.close(ctx)
	return p.pending, nil
}

// getMessage asks the leader of a stream for one message; its sequence is 0 if there is
// none, or if the server cannot read it.
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
		return message{}, errors.New("the answer is empty")
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

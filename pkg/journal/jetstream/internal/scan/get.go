package scan

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	js "github.com/nats-io/nats.go/jetstream"

	"github.com/informd/informd/pkg/journal/jetstream/internal/server"
)

// stored is the server's answer with one message.
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

// LastMessage returns the last message of a subject, from the leader; its sequence is 0 if
// there is none. The client library reads from any replica, which may be behind.
func (s *Stream) LastMessage(ctx context.Context, subject string) (Message, error) {
	question, err := json.Marshal(map[string]string{"last_by_subj": subject})
	if err != nil {
		return Message{}, err
	}
	if s.own { // there is one replica, and what it says so costs a fifth
		if m, err := s.lastDirect(ctx, subject, question); !errors.Is(err, nats.ErrNoResponders) {
			return m, err
		}
	}
	m, err := s.getMessage(ctx, question)
	if err != nil {
		return Message{}, fmt.Errorf("get the last message of %s: %w", subject, err)
	}
	return m, nil
}

// everything is the filter that all subjects match.
const everything = ">"

// nextSequence asks the leader of the stream for the first sequence, from one on, of a
// message that a scan is to bring; 0 if there is none.
func (s *Stream) nextSequence(ctx context.Context, what Scan, from uint64) (uint64, error) {
	filters := what.Filters
	if len(filters) == 0 {
		filters = []string{everything}
	}
	first := uint64(0)
	for _, filter := range filters {
		question, err := json.Marshal(map[string]any{"seq": from, "next_by_subj": filter, "no_hdr": true})
		if err != nil {
			return 0, err
		}
		m, err := s.getMessage(ctx, question)
		if err != nil {
			return 0, fmt.Errorf("get the first message of %s since sequence %d: %w", filter, from, err)
		}
		if m.Seq != 0 && (first == 0 || m.Seq < first) {
			first = m.Seq
		}
	}
	return first, nil
}

// nothingFrom confirms that a scan finds nothing from a sequence on, where the stream says so.
// That is also the answer of a server (2.15) that cannot read what it has: then it counts
// it, and the error says so.
func (s *Stream) nothingFrom(ctx context.Context, what Scan, from uint64) error {
	what.Policy, what.From = js.DeliverByStartSequencePolicy, from
	n, err := s.Count(ctx, what)
	if err == nil && n > 0 {
		err = fmt.Errorf("the server counts %d messages since sequence %d, and finds none", n, from)
	}
	return err
}

// Reaches returns an error if the stream ends before the sequence seq. Call it after a scan
// that ended at the sequence last, before the missing messages up to seq count as removed: a
// leader that was just voted out may not know the newest messages.
func (s *Stream) Reaches(ctx context.Context, seq, last uint64) error {
	if last >= seq {
		return nil
	}
	end, err := s.LastSequence(ctx)
	if err == nil && end < seq {
		err = fmt.Errorf("stream %s ends at sequence %d, and ended at %d before", s.Name(), end, seq)
	}
	return err
}

// Count returns about how many messages a scan returns. The server's count can be too low: see
// [Puller].
func (s *Stream) Count(ctx context.Context, what Scan) (uint64, error) {
	p, err := s.Pull(ctx, what)
	if err != nil {
		return 0, err
	}
	defer p.Close(ctx)
	return p.Pending, nil
}

// CountFrom returns about how many messages there are from a sequence on.
func (s *Stream) CountFrom(ctx context.Context, seq uint64) (uint64, error) {
	return s.Count(ctx, Scan{Policy: js.DeliverByStartSequencePolicy, From: seq, Headers: true, Batch: 1})
}

// MessageAt returns the message at a sequence; its sequence is 0 if there is none.
func (s *Stream) MessageAt(ctx context.Context, seq uint64) (Message, error) {
	return s.getMessage(ctx, fmt.Appendf(nil, `{"seq":%d}`, seq))
}

// FirstSince returns the first sequence that was stored at or after a time, 0 if there is none.
func (s *Stream) FirstSince(ctx context.Context, since time.Time) (uint64, error) {
	question, err := json.Marshal(map[string]any{"start_time": since, "next_by_subj": everything, "no_hdr": true})
	if err != nil {
		return 0, err
	}
	m, err := s.getMessage(ctx, question)
	if err != nil {
		return 0, fmt.Errorf("get the first message since %s: %w", since.Format(time.RFC3339), err)
	}
	return m.Seq, nil
}

// Preceding is a search for the last sequence below another one of a stored message. It keeps its
// progress when a request fails.
type Preceding struct {
	seq         uint64
	first, last uint64 // the result is from first to last; first is 0 or of a message
	step        uint64
}

// LastBefore returns the last sequence below seq of a stored message; 0 if there is none. The
// server finds only messages from a sequence on: the number of requests grows with the logarithm
// of the sequences that are missing.
func (s *Stream) LastBefore(ctx context.Context, p *Preceding, seq uint64) (uint64, error) {
	if p.seq != seq {
		*p = Preceding{seq: seq, last: seq - 1}
	}
	for p.first < p.last {
		at := p.last - min(p.step, p.last-1)
		if p.first > 0 {
			at = p.first + (p.last-p.first+1)/2
		}
		next, err := s.nextSequence(ctx, Scan{}, at)
		switch {
		case err != nil:
			return 0, err
		case next != 0 && next < seq:
			p.first = next
		default:
			p.last, p.step = at-1, max(1, 4*p.step)
		}
	}
	return p.first, nil
}

// ask sends a request about the stream. Like those of the client library, it has an end also if
// ctx has none.
func (s *Stream) ask(ctx context.Context, what string, question []byte) (*nats.Msg, error) {
	limited, cancel := context.WithTimeout(ctx, server.Timeout)
	defer cancel()
	return s.conn.RequestWithContext(limited, apiPrefix+what+s.Name(), question)
}

// getMessage asks the leader of the stream for one message; its sequence is 0 if there is
// none, or if the server cannot read it.
func (s *Stream) getMessage(ctx context.Context, question []byte) (Message, error) {
	reply, err := s.ask(ctx, "STREAM.MSG.GET.", question)
	if err != nil {
		return Message{}, err
	}
	var answer stored
	if err := json.Unmarshal(reply.Data, &answer); err != nil {
		return Message{}, err
	}
	switch {
	case answer.Error != nil && answer.Error.ErrorCode == js.JSErrCodeMessageNotFound:
		return Message{}, nil
	case answer.Error != nil:
		return Message{}, answer.Error
	case answer.Message == nil:
		return Message{}, errors.New("the answer is empty")
	}
	m := Message{Msg: &nats.Msg{Subject: answer.Message.Subject, Data: answer.Message.Data}, Seq: answer.Message.Seq, Time: answer.Message.Time}
	if len(answer.Message.Header) > 0 {
		if m.Header, err = nats.DecodeHeadersMsg(answer.Message.Header); err != nil {
			return Message{}, err
		}
	}
	return m, nil
}

// lastDirect is lastMessage for a stream with one replica that allows it: what it has is
// sent as it is, and not as JSON.
func (s *Stream) lastDirect(ctx context.Context, subject string, question []byte) (Message, error) {
	reply, err := s.ask(ctx, "DIRECT.GET.", question)
	if err != nil {
		return Message{}, fmt.Errorf("get the last message of %s: %w", subject, err)
	}
	switch status := reply.Header.Get("Status"); status {
	case "":
	case "404":
		return Message{}, nil
	default:
		return Message{}, fmt.Errorf("get the last message of %s: status %s %s", subject, status, reply.Header.Get("Description"))
	}
	m := Message{Msg: &nats.Msg{Subject: subject, Header: reply.Header, Data: reply.Data}}
	if m.Seq, err = strconv.ParseUint(reply.Header.Get(js.SequenceHeader), 10, 64); err == nil {
		m.Time, err = time.Parse(time.RFC3339Nano, reply.Header.Get(js.TimeStampHeaer))
	}
	if err != nil {
		return Message{}, fmt.Errorf("get the last message of %s: %w", subject, err)
	}
	return m, nil
}

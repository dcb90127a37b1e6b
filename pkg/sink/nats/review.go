package nats

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	client "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/informd/informd/pkg/event"
)

// reviewers is how many last messages are asked for at a time.
const reviewers = 16

// finding is what the stream says about one event that may have been sent before.
type finding struct {
	// held: the stream has it, or a later one of the object.
	held bool
	// condition is the sequence that the subject's last message must still have
	// when the event arrives; empty for none.
	condition string
}

// lastMessage is what counts of a subject's last message.
type lastMessage struct {
	sequence uint64 // 0 if there is none
	id       string
	revision uint64
	time     time.Time
	// found: a comparison found the end that it is, at a revision that may be much later.
	found bool
	// within is how much of the batch under review there is up to the message's event, and
	// with it; 0 if the batch does not hold that event. Redelivered is what that event is.
	within      int
	redelivered bool
}

// review looks for events of the batch in the stream, as long as they are in doubt. It returns a finding for
// each event up to the last one that it looked for.
func (s *streamSink) review(ctx context.Context, batch []event.Event) ([]finding, error) {
	if s.doubt == 0 {
		return nil, nil
	}
	var found []finding
	newest := map[string]*lastMessage{} // by subject; nil: an event of the batch will be newer
	places := make(map[occurrence]int, len(batch))
	for i := range slices.Backward(batch) { // the first of several counts
		places[occurrence{idOf(&batch[i]), batch[i].Time.UnixMicro()}] = i
	}
	for s.doubt > 0 && len(found) < len(batch) {
		part := batch[len(found):min(len(batch), len(found)+s.doubt)]
		var ask []string
		for i := range part {
			subject := part[i].NATSSubject(s.form.prefix)
			if _, ok := newest[subject]; !ok && len(subject) <= maxSubject {
				newest[subject] = nil
				ask = append(ask, subject)
			}
		}
		answers, err := s.lastMessages(ctx, ask)
		if err != nil {
			return nil, err
		}
		for i, subject := range ask {
			answers[i].place(batch, places)
			newest[subject] = &answers[i]
		}
		for range part {
			i := len(found)
			found = append(found, s.judge(i, &batch[i], newest))
		}
	}
	return found, nil
}

// judge finds out whether the stream holds the event at index i of the batch.
func (s *streamSink) judge(i int, e *event.Event, newest map[string]*lastMessage) finding {
	subject := e.NATSSubject(s.form.prefix)
	last := newest[subject]
	switch {
	case last == nil:
		// The event before it of the same object is missing: so is this one,
		// as only one is ever on its way.
		s.doubt--
		return finding{}
	case i < last.within && (last.redelivered || !e.Redelivered), last.covers(e, false):
		s.doubt = window
		return finding{held: true}
	}
	newest[subject] = nil
	s.doubt--
	return finding{condition: last.condition()}
}

// lastMessages reads the last message of every subject.
func (s *streamSink) lastMessages(ctx context.Context, subjects []string) ([]lastMessage, error) {
	last := make([]lastMessage, len(subjects))
	err := s.ask(ctx, func(ctx context.Context) error {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		var next atomic.Int64
		var working sync.WaitGroup
		for range min(reviewers, len(subjects)) {
			working.Go(func() {
				for i := int(next.Add(1)) - 1; i < len(subjects) && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
					var err error
					if last[i], err = s.lastMessage(ctx, subjects[i]); err != nil {
						cancel(err)
					}
				}
			})
		}
		working.Wait()
		return context.Cause(ctx)
	})
	return last, err
}

func (s *streamSink) lastMessage(ctx context.Context, subject string) (lastMessage, error) {
	m, err := s.dest.stream.GetLastMsgForSubject(ctx, subject)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return lastMessage{}, nil
	}
	if err != nil {
		return lastMessage{}, err
	}
	return readLast(m.Sequence, m.Header), nil
}

// readLast reads the headers of a message. Those of somebody else's are zero,
// and cover nothing.
func readLast(sequence uint64, h client.Header) lastMessage {
	last := lastMessage{sequence: sequence, id: h.Get(headerID)}
	last.revision, _ = strconv.ParseUint(h.Get(headerRevision), 10, 64) // 0: unknown
	last.time, _ = time.Parse(time.RFC3339Nano, h.Get(headerTime))      // zero: unknown
	last.found = h.Get(headerReplay) == "true"
	return last
}

// occurrence tells an event from others, also from those with its id: an object can come
// back in the state that it had before it left.
type occurrence struct {
	id   string // as in the header
	time int64  // in microseconds
}

// place finds the event of the message in a batch. What the batch has of the subject before
// that event is in the stream, too: the order in the batch is that of the journal, and only
// one event of a subject is ever on its way. Nothing else says so of a deletion that a
// comparison found: its revision is higher than that of the object which has the name since.
func (last *lastMessage) place(batch []event.Event, places map[occurrence]int) {
	if i, ok := places[occurrence{last.id, last.time.UnixMicro()}]; ok {
		last.within, last.redelivered = i+1, batch[i].Redelivered
	}
}

// covers reports whether a stream whose subject ends with this message has, or
// had, the event: the message is the event itself or comes later in the journal.
// Later means a higher epoch, or a higher revision within it, that was observed no
// earlier. Neither would do alone: a journal in memory counts epochs from 0 again. An
// event that an operator wants once more is sent whatever came after it, and each
// snapshot has its own beginning and end. Taken says that the stream has refused the id
// as one that it took before.
// If in doubt it is no: a repeated event does no harm, as what comes
// after it is repeated as well (see restate); a missing one does.
func (last *lastMessage) covers(e *event.Event, taken bool) bool {
	switch {
	case last.sequence == 0:
		return false
	case last.id == idOf(e):
		return true
	case e.ResourceVersion == 0 || e.Redelivered || e.Op.Bounds():
		return false
	}
	_, _, lastEpoch := event.ParseID(last.id)
	if last.time.Before(e.Time.Truncate(time.Microsecond)) {
		return lastEpoch == e.Epoch && last.follows(e, taken)
	}
	return lastEpoch > e.Epoch || lastEpoch == e.Epoch && last.revision > e.ResourceVersion
}

// follows reports whether the message comes later in one history than an event that was observed
// again: a power loss, or damage of the journal, takes what the sink has, and the watch brings it
// again. What announces an object says nothing: it may be again in the state that it had before.
func (last *lastMessage) follows(e *event.Event, taken bool) bool {
	if e.Run != 0 || e.Op == event.Snapshot || e.Op == event.Entered || e.Op.Control() {
		return false
	}
	uid, _, _ := strings.Cut(idOf(e), ":")
	switch same := strings.HasPrefix(last.id, uid+":"); {
	case same:
		return e.Op != event.Deleted && last.revision > e.ResourceVersion
	case !taken: // without time the revision of an object created since may be of another history
		return false
	}
	return e.Op == event.Deleted || last.revision > e.ResourceVersion && !last.found
}

// condition is the value of the header that ties a message to this one being the
// subject's last.
func (last *lastMessage) condition() string { return strconv.FormatUint(last.sequence, 10) }

// idOf returns the id of an event as its header has it.
func idOf(e *event.Event) (id string) {
	e.AppendHeaders(func(name, value string) {
		if name == headerID {
			id = value
		}
	})
	return id
}

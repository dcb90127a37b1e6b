package jetstream

import (
	"context"
	"fmt"

	js "github.com/nats-io/nats.go/jetstream"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
	"github.com/informd/informd/pkg/journal/jetstream/internal/message"
	"github.com/informd/informd/pkg/journal/jetstream/internal/scan"
)

// The bounds of what a cursor that is behind has in flight.
const (
	readBatch = 256
	readBytes = 1 << 20
)

// reader reads the stream from a sequence on, and counts the sequences that it does not get.
type reader struct {
	cursor *cursor
	to     uint64 // the last sequence to read; 0: the end of the stream
	// wants is asked before a message is decoded; nil: all are wanted.
	wants func(m scan.Message) bool

	pull    *scan.Puller
	passed  uint64 // everything up to here was returned or is gone
	missing uint64 // sequences that were jumped over
}

func (r *reader) close(ctx context.Context) {
	if r.pull != nil {
		r.pull.Close(ctx)
		r.pull = nil
	}
}

// open makes the puller if there is none.
func (r *reader) open(ctx context.Context) (err error) {
	if r.pull != nil {
		return nil
	}
	r.pull, err = r.cursor.journal.log.Stream.Pull(ctx, scan.Scan{
		Policy: js.DeliverByStartSequencePolicy, From: r.passed + 1, To: r.to, Batch: readBatch, Bytes: readBytes,
	})
	if err != nil {
		return fmt.Errorf("read from %d: %w", r.passed+1, err)
	}
	return nil
}

// next returns the next events, and the messages that they are from. Over says that the stream
// has no more; then everything up to the goal is passed. After an error it may be called again.
func (r *reader) next(ctx context.Context, goal uint64) (entries []journal.Entry, found []scan.Message, over bool, err error) {
	if err := r.open(ctx); err != nil {
		return nil, nil, false, err
	}
	found, err = r.pull.Next(ctx)
	over = r.pull.Over
	if err == nil && over {
		err = r.cursor.journal.log.Stream.Reaches(ctx, goal, r.pull.Last)
	}
	var decoded []*event.Event
	if err == nil {
		decoded, err = r.decode(ctx, found)
	}
	if err != nil {
		r.close(ctx) // it has gone on; another one begins behind passed
		return nil, nil, false, err
	}
	entries = make([]journal.Entry, 0, len(found)+1) // one may be inserted: a gap
	for i, m := range found {
		r.pass(m.Seq - 1)
		r.passed = m.Seq
		e := decoded[i]
		switch {
		case e == nil && r.wants == nil:
			r.cursor.skip(m.Seq) // it is no event
		case e != nil && r.cursor.admit(m.Seq, e.Op, message.CopyOf(m)):
			entries = append(entries, journal.Entry{Seq: m.Seq, Event: *e})
		}
	}
	if over {
		r.pass(goal)
	}
	return entries, found, over, nil
}

// pass counts the sequences up to seq as missing.
func (r *reader) pass(seq uint64) {
	if seq > r.passed {
		r.missing += seq - r.passed
		r.cursor.jump(r.passed + 1)
		r.passed = seq
	}
}

// decode reads the wanted events from messages; nil stands for the others.
func (r *reader) decode(ctx context.Context, found []scan.Message) ([]*event.Event, error) {
	decoded := make([]*event.Event, len(found))
	for i, m := range found {
		if r.wants != nil && !r.wants(m) {
			continue
		}
		e, ok, err := r.cursor.journal.log.Messages.Decode(ctx, m)
		if err != nil {
			return nil, err
		}
		if ok {
			decoded[i] = &e
		}
	}
	return decoded, nil
}

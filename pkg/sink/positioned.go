package sink

import (
	"context"

	"github.com/informd/informd/pkg/event"
)

// Positioned is a [Sink] whose destination keeps informd's cursor: the sink writes events and their
// position in one transaction, so that the destination holds each event once, whatever crashes.
// informd calls WriteAt in place of Write. Its [Driver] has one lane.
type Positioned interface {
	Sink
	// WriteAt is Write for events with these positions. An event that the destination already holds
	// counts as delivered. Everything that Write promises holds for WriteAt.
	WriteAt(ctx context.Context, batch []event.Event, at Positions) (n int, err error)
}

// Positions are those of a batch in informd's log. The sink keeps nothing of them after WriteAt has
// returned, except the strings.
type Positions struct {
	// Log identifies the log. Sequences of different logs do not compare: an empty journal.dir begins
	// a new one.
	Log string
	// Seqs has the sequence of each event, or is nil. They rise. Some are 0: states of a first snapshot
	// or a re-snapshot, redelivered dead letters. Whether the destination holds an event only its id says:
	// after a crash an event comes again with its id and its sequence, after a power loss with a higher
	// one, after a rewind with another id and a lower sequence.
	Seqs []uint64
	// Acknowledged is the highest sequence that the destination has acknowledged before, also to an
	// earlier process. A destination that holds less has lost events, for example because it was
	// restored from a backup. The sink then gives it another identity and reports that with
	// [Env.Found], and informd declares a gap and repeats every object. It does so once: what is repeated has
	// the sequence 0. The value may lag by some events.
	Acknowledged uint64
}

// WriteAt calls the WriteAt of a sink that has it, and otherwise Write.
func WriteAt(ctx context.Context, s Sink, batch []event.Event, at Positions) (int, error) {
	if p, ok := s.(Positioned); ok {
		return p.WriteAt(ctx, batch, at)
	}
	return s.Write(ctx, batch)
}

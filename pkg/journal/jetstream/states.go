package jetstream

import (
	"context"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal/jetstream/internal/scan"
)

// states reads what the subjects of the filters end with, up to the sequence end and
// in the order of the log: the state of every object that has not changed since. What has changed since has a higher sequence, and so follows to
// whoever reads on from there.
type states struct {
	journal *Journal
	filters []string
	end     uint64
	// wants is asked before a body is read; the event has no Data yet.
	wants func(e *event.Event) bool

	lasts  *scan.LastPerSubject
	passed uint64 // everything up to here was returned or is not wanted
}

// statesBatch bounds a pull. A bound in bytes would lose objects: where a message
// does not fit into what is left of it, nats-server (2.15) goes on behind that message
// if the consumer delivers the last per subject.
const statesBatch = 32

func (s *states) close(ctx context.Context) {
	if s.lasts != nil {
		s.lasts.Close(ctx) // another next begins anew
	}
}

// next returns some more events as they were appended, possibly none, and whether
// they are the last. After an error it may be called again and goes on where it was.
func (s *states) next(ctx context.Context) (events []event.Event, through bool, err error) {
	if s.end == 0 {
		return nil, true, nil
	}
	if s.lasts == nil {
		s.lasts = &scan.LastPerSubject{Stream: s.journal.log.Stream, Filters: s.filters, Batch: statesBatch, End: s.end}
	}
	found, through, err := s.lasts.Next(ctx)
	if err == nil {
		events, err = s.decode(ctx, found)
	}
	if err != nil || through {
		s.close(ctx)
	}
	return events, through && err == nil, err
}

func (s *states) decode(ctx context.Context, found []scan.Message) (events []event.Event, err error) {
	passed := s.passed
	for _, m := range found {
		if m.Seq <= passed {
			continue // read before the connection was lost
		}
		passed = m.Seq
		e, ok := s.journal.log.Messages.Identify(m)
		if !ok || e.Op.Control() || e.Op.Ends() || !s.wants(&e) {
			continue
		}
		if e.Data, err = s.journal.log.Messages.Body(ctx, m); err != nil {
			return nil, err
		}
		e.Data = event.WithoutChanges(e.Data) // a snapshot is no change
		events = append(events, e)
	}
	s.passed = passed
	return events, nil
}

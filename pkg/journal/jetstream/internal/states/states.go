package states

import (
	"context"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal/jetstream/internal/eventlog"
	"github.com/informd/informd/pkg/journal/jetstream/internal/scan"
)

// States reads the last event of each subject of the filters, up to the sequence End and in the
// order of the log: the state of every object that has not changed since. Changes since have
// higher sequences, and follow in the log.
type States struct {
	Log     *eventlog.Log
	Filters []string
	End     uint64
	// Wants is asked before a body is read; the event has no Data yet.
	Wants func(e *event.Event) bool

	lasts  *scan.LastPerSubject
	passed uint64 // everything up to here was returned or is not wanted
}

// batch bounds a pull. A bound in bytes would lose objects: where a message does not fit into the
// rest, nats-server (2.15) continues behind that message if the consumer delivers the last per
// subject.
const batch = 32

// Close ends the reading. Another Next continues it.
func (s *States) Close(ctx context.Context) {
	if s.lasts != nil {
		s.lasts.Close(ctx)
	}
}

// Next returns some more events as they were appended, possibly none, and whether
// they are the last. After an error it may be called again, and continues.
func (s *States) Next(ctx context.Context) (events []event.Event, through bool, err error) {
	if s.End == 0 {
		return nil, true, nil
	}
	if s.lasts == nil {
		s.lasts = &scan.LastPerSubject{Stream: s.Log.Stream, Filters: s.Filters, Batch: batch, End: s.End}
	}
	found, through, err := s.lasts.Next(ctx)
	if err == nil {
		events, err = s.decode(ctx, found)
	}
	if err != nil || through {
		s.Close(ctx)
	}
	return events, through && err == nil, err
}

func (s *States) decode(ctx context.Context, found []scan.Message) (events []event.Event, err error) {
	passed := s.passed
	for _, m := range found {
		if m.Seq <= passed {
			continue // read before the connection was lost
		}
		passed = m.Seq
		e, ok := s.Log.Messages.Identify(m)
		if !ok || e.Op.Control() || e.Op.Ends() || !s.Wants(&e) {
			continue
		}
		if e.Data, err = s.Log.Messages.Body(ctx, m); err != nil {
			return nil, err
		}
		e.Data = event.WithoutChanges(e.Data) // a snapshot is no change
		events = append(events, e)
	}
	s.passed = passed
	return events, nil
}

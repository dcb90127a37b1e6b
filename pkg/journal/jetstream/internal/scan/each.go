package scan

import (
	"context"

	js "github.com/nats-io/nats.go/jetstream"
)

// Each calls do with every message of a scan, until do returns false.
func (s *Stream) Each(ctx context.Context, what Scan, do func(m Message) (bool, error)) error {
	p, err := s.Pull(ctx, what)
	if err != nil {
		return err
	}
	defer p.Close(ctx)
	for {
		found, err := p.Next(ctx)
		if err != nil {
			return err
		}
		for _, m := range found {
			if more, err := do(m); err != nil || !more {
				return err
			}
		}
		if p.Over {
			return nil
		}
	}
}

// EachHeader calls do with the headers of every message up to the sequence end, until do
// returns false. No filters match all messages.
func (s *Stream) EachHeader(ctx context.Context, end uint64, filters []string, do func(m Message) (bool, error)) error {
	if end == 0 {
		return nil
	}
	return s.Each(ctx, Scan{Policy: js.DeliverAllPolicy, To: end, Filters: filters, Headers: true, Batch: HeaderBatch}, do)
}

// EachLast calls do with the headers of the last message of every subject that the filters
// match, in the order of the stream. End is that of [LastPerSubject].
func (s *Stream) EachLast(ctx context.Context, filters []string, end uint64, do func(m Message) error) error {
	l := &LastPerSubject{Stream: s, Filters: filters, Headers: true, Batch: HeaderBatch, End: end}
	defer l.Close(ctx)
	for {
		found, through, err := l.Next(ctx)
		if err != nil {
			return err
		}
		for _, m := range found {
			if err := do(m); err != nil {
				return err
			}
		}
		if through {
			return nil
		}
	}
}

package chaos

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// journaledTwice is I6 for a journal of the user's own, whose stream people read
// as they read a sink's: no id is in it twice. What its limit per object has removed
// cannot be held against it.
func (r *run) journaledTwice(ctx context.Context) ([]Violation, error) {
	if r.rig.log == nil || r.options.Baseline {
		return nil, nil
	}
	conn, err := nats.Connect(r.rig.log.URL())
	if err != nil {
		return nil, fmt.Errorf("read the journal: %w", err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		return nil, err
	}
	stream, err := js.Stream(ctx, journalStream)
	if err != nil {
		return nil, fmt.Errorf("read the journal: %w", err)
	}
	end := stream.CachedInfo().State.LastSeq
	messages, err := stream.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{HeadersOnly: true})
	if err != nil {
		return nil, fmt.Errorf("read the journal: %w", err)
	}
	return twice(messages, end)
}

// twice reads up to the sequence end and returns the ids that came before.
func twice(messages jetstream.Consumer, end uint64) ([]Violation, error) {
	// copyOf marks the copy of a deletion, which has the id of the original.
	const copyOf = "informd-copy-of"
	var all []Violation
	first := make(map[string]uint64)
	for {
		m, err := messages.Next(jetstream.FetchMaxWait(10 * time.Second))
		if errors.Is(err, nats.ErrTimeout) {
			return all, nil // the last ones were removed
		}
		if err != nil {
			return nil, fmt.Errorf("read the journal: %w", err)
		}
		about, err := m.Metadata()
		if err != nil {
			return nil, fmt.Errorf("read the journal: %w", err)
		}
		seq, id := about.Sequence.Stream, m.Headers().Get("ce-id")
		if earlier := first[id]; earlier != 0 && m.Headers().Get(copyOf) == "" {
			all = append(all, Violation{Invariant: "I6", Sink: "journal", Text: fmt.Sprintf("%s is at sequence %d and at %d", id, earlier, seq)})
		} else if earlier == 0 {
			first[id] = seq
		}
		if seq >= end {
			return all, nil
		}
	}
}

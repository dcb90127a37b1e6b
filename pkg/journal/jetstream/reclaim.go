package jetstream

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	js "github.com/nats-io/nats.go/jetstream"
)

// When the stream runs short of space, history goes first that no sink needs any more:
// events that a later event of the same object has superseded, and that every sink has
// passed, also those that are not open and may come back. What an object's subject ends with
// stays, as it is the object's state. A rewind to before that misses what is gone, and says
// so.

const (
	// shortAt is the share of the stream's limit, in percent, from which on it is short.
	shortAt = 90
	// reclaimPause is the least time between two attempts, which read what every subject
	// ends with.
	reclaimPause = 5 * time.Second
)

// isShort reports whether the stream has nearly reached its limit.
func (h holding) isShort() bool { return h.capacity > 0 && h.bytes >= h.capacity/100*shortAt }

// reclaim removes what no sink needs any more.
func (n *janitor) reclaim(ctx context.Context) error {
	j := n.journal
	if time.Since(n.reclaimed) < reclaimPause {
		return nil
	}
	_, passed := n.passed()
	if passed == 0 {
		return nil
	}
	defer func() { n.reclaimed = time.Now() }()
	counts, before, err := j.countBySubject(ctx)
	if err != nil {
		return err
	}
	err = j.eachLast(ctx, []string{j.config.root() + ".>"}, func(m message) error {
		if counts[m.Subject] < 2 || copyOf(m) != 0 {
			return nil
		}
		return n.purge(ctx, m.Subject, min(m.seq, passed+1))
	})
	if err != nil {
		return fmt.Errorf("make space: %w", err)
	}
	j.look(ctx)
	if after := j.Stats().Events; after < before {
		j.logger.Warn("the journal is nearly full: history that every sink has is removed, and cannot be replayed; raise journal.maxBytes to keep more",
			slog.Uint64("events", before-after), slog.Uint64("bytes", j.Stats().Bytes), slog.Uint64("capacity_bytes", j.Stats().Capacity))
	}
	return nil
}

// countBySubject returns how many messages each subject of events has, and how many there are
// in all.
func (j *Journal) countBySubject(ctx context.Context) (counts map[string]uint64, all uint64, err error) {
	limited, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	info, err := j.stream.Info(limited, js.WithSubjectFilter(j.config.root()+".>"))
	if err != nil {
		return nil, 0, fmt.Errorf("count events: %w", err)
	}
	return info.State.Subjects, info.State.Msgs, nil
}

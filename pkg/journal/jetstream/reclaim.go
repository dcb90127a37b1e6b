package jetstream

import (
	"context"
	"errors"
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
	// reclaimPause is the least time after an attempt that has made no space. Such an attempt
	// reads the headers of all messages; the pause is ten times its duration at least, and
	// as long as that after one that has made space.
	reclaimPause = 5 * time.Second
)

// isShort reports whether the stream has nearly reached its limit.
func (h holding) isShort() bool { return h.capacity > 0 && h.bytes >= h.capacity/100*shortAt }

// makeSpace removes what no sink needs any more, and shares the rest (share.go).
func (n *janitor) makeSpace(ctx context.Context) error {
	if time.Since(n.reclaimed) < n.pause {
		return nil
	}
	began := time.Now()
	n.journal.look(ctx)
	before := n.journal.Stats().Bytes
	err := n.reclaim(ctx)
	if n.journal.Stats().Bytes >= before || err != nil { // else those that wait try again first
		err = errors.Join(err, n.share(ctx))
	}
	n.reclaimed = time.Now()
	took := n.reclaimed.Sub(began)
	if n.pause = took; n.journal.Stats().Bytes >= before {
		n.pause = max(reclaimPause, 10*took)
	}
	return err
}

// reclaim removes what no sink needs any more.
func (n *janitor) reclaim(ctx context.Context) error {
	j := n.journal
	_, passed := n.passed()
	if passed == 0 {
		return nil
	}
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

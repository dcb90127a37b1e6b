package jetstream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/informd/informd/pkg/journal/jetstream/internal/scan"
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

// reclaim removes what no sink needs any more. It sends a purge only for subjects that lose a
// message: if sinks have passed little, there are few.
func (n *janitor) reclaim(ctx context.Context) error {
	j := n.journal
	_, passed := n.passed()
	firsts, err := j.firstsUpTo(ctx, passed)
	if err != nil || len(firsts) == 0 {
		return err
	}
	j.look(ctx)
	before := j.Stats().Events
	err = j.stream.EachLast(ctx, []string{j.config.root() + ".>"}, 0, func(m scan.Message) error {
		first, is := firsts[j.subjects.Hash(m.Subject)]
		if !is || first >= m.Seq {
			return nil
		}
		return n.purge(ctx, m.Subject, min(m.Seq, passed+1))
	})
	if err != nil {
		return fmt.Errorf("free space in the journal: %w", err)
	}
	j.look(ctx)
	if after := j.Stats().Events; after < before {
		j.logger.Warn("journal nearly full; delivered history removed",
			slog.String("next", "raise journal.maxBytes to keep more history for rewinds"), slog.Uint64("count", before-after), slog.Uint64("bytes", j.Stats().Bytes), slog.Uint64("capacity_bytes", j.Stats().Capacity))
	}
	return nil
}

// firstsUpTo returns the first message of each subject that has one at or below a sequence, by
// the hash of the subject. It takes some 40 bytes for each.
func (j *Journal) firstsUpTo(ctx context.Context, end uint64) (map[uint64]uint64, error) {
	firsts := map[uint64]uint64{}
	err := j.stream.EachHeader(ctx, end, []string{j.config.root() + ".>"}, func(m scan.Message) (bool, error) {
		subject := j.subjects.Hash(m.Subject)
		if _, is := firsts[subject]; !is {
			firsts[subject] = m.Seq
		}
		return true, nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the history that every sink has received: %w", err)
	}
	return firsts, nil
}

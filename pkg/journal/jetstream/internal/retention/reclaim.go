package retention

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
	// reclaimPause is the least time after an attempt that has made no space. Such an attempt
	// reads the headers of all messages; the pause is ten times its duration at least, and
	// as long as that after one that has made space.
	reclaimPause = 5 * time.Second
)

// makeSpace removes what no sink needs any more, and shares the rest (share.go).
func (n *Janitor) makeSpace(ctx context.Context) error {
	if time.Since(n.reclaimed) < n.pause {
		return nil
	}
	began := time.Now()
	n.Look(ctx)
	before := n.Space.Now().Bytes
	err := n.Reclaim(ctx)
	if n.Space.Now().Bytes >= before || err != nil { // else those that wait try again first
		err = errors.Join(err, n.Share(ctx))
	}
	n.reclaimed = time.Now()
	took := n.reclaimed.Sub(began)
	if n.pause = took; n.Space.Now().Bytes >= before {
		n.pause = max(reclaimPause, 10*took)
	}
	return err
}

// Reclaim removes what no sink needs any more. It sends a purge only for subjects that lose a
// message: if sinks have passed little, there are few.
func (n *Janitor) Reclaim(ctx context.Context) error {
	_, passed := n.Passed()
	firsts, err := n.firstsUpTo(ctx, passed)
	if err != nil || len(firsts) == 0 {
		return err
	}
	n.Look(ctx)
	before := n.Space.Now().Events
	err = n.log.Stream.EachLast(ctx, []string{n.Root + ".>"}, 0, func(m scan.Message) error {
		first, is := firsts[n.log.Subjects.Hash(m.Subject)]
		if !is || first >= m.Seq {
			return nil
		}
		return n.purge(ctx, m.Subject, min(m.Seq, passed+1))
	})
	if err != nil {
		return fmt.Errorf("free space in the journal: %w", err)
	}
	n.Look(ctx)
	if after := n.Space.Now().Events; after < before {
		n.log.Logger.Warn("journal nearly full; delivered history removed",
			slog.String("next", "raise journal.maxBytes to keep more history for rewinds"), slog.Uint64("count", before-after), slog.Uint64("bytes", n.Space.Now().Bytes), slog.Uint64("capacity_bytes", n.Space.Now().Capacity))
	}
	return nil
}

// firstsUpTo returns the first message of each subject that has one at or below a sequence, by
// the hash of the subject. It takes some 40 bytes for each.
func (n *Janitor) firstsUpTo(ctx context.Context, end uint64) (map[uint64]uint64, error) {
	firsts := map[uint64]uint64{}
	err := n.log.Stream.EachHeader(ctx, end, []string{n.Root + ".>"}, func(m scan.Message) (bool, error) {
		subject := n.log.Subjects.Hash(m.Subject)
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

package retention

import (
	"context"
	"time"

	js "github.com/nats-io/nats.go/jetstream"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal/jetstream/internal/message"
	"github.com/informd/informd/pkg/journal/jetstream/internal/scan"
	"github.com/informd/informd/pkg/journal/jetstream/internal/server"
)

// maxTombstones bounds the recent deletions that are kept in mind. The scan finds
// what did not fit.
const maxTombstones = 10_000

// tombstone is a message that ends an object.
type tombstone struct {
	subject string
	seq     uint64
	copied  bool // it is a copy, of which nothing stays
}

// Note remembers a deletion that was just appended, or the copy of one.
func (n *Janitor) Note(subject string, seq uint64, copied bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.queue) < maxTombstones {
		n.queue = append(n.queue, tombstone{subject, seq, copied})
	}
}

// due takes the oldest deletion that lies at or below seq.
func (n *Janitor) due(seq uint64) (tombstone, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.queue) == 0 || n.queue[0].seq > seq {
		return tombstone{}, false
	}
	t := n.queue[0]
	if n.queue = n.queue[1:]; len(n.queue) == 0 {
		n.queue = nil
	}
	return t, true
}

// sweepRecent removes the history of objects that were deleted lately.
func (n *Janitor) sweepRecent(ctx context.Context) error {
	passed, all := n.Passed()
	for ctx.Err() == nil {
		t, ok := n.due(passed)
		if !ok {
			return nil
		}
		below := t.seq
		if t.copied && t.seq > all {
			continue // the scan finds it
		}
		if t.copied {
			below++
		}
		if err := n.purge(ctx, t.subject, below); err != nil {
			return err // the scan finds it
		}
	}
	return ctx.Err()
}

// purge removes the messages of a subject below seq.
func (n *Janitor) purge(ctx context.Context, subject string, seq uint64) error {
	if err := n.log.Allowed(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, server.Timeout)
	defer cancel()
	return n.log.Stream.Purge(ctx, js.WithPurgeSubject(subject), js.WithPurgeSequence(seq))
}

// sweepAll looks at what every subject ends with.
func (n *Janitor) sweepAll(ctx context.Context) error {
	passed, all := n.Passed()
	if passed == 0 {
		return nil
	}
	if n.swept == 0 {
		if err := n.loadSwept(ctx); err != nil {
			return err
		}
	}
	old := time.Now().Add(-n.DeletedRetention)
	err := n.log.Stream.EachLast(ctx, []string{n.Root + ".>"}, 0, func(m scan.Message) error {
		if m.Seq > passed || !event.Op(m.Header.Get(message.HeaderOp)).Ends() {
			return nil
		}
		switch {
		case message.CopyOf(m) != 0 && m.Seq > all:
			return nil
		case message.CopyOf(m) != 0:
			return n.purge(ctx, m.Subject, m.Seq+1)
		case m.Time.Before(old) && m.Seq <= all:
			if err := n.purge(ctx, m.Subject, m.Seq+1); err != nil {
				return err
			}
			n.log.Subjects.Forget(m.Subject, m.Seq)
			return nil
		case m.Seq > n.swept:
			return n.purge(ctx, m.Subject, m.Seq)
		}
		return nil
	})
	if err != nil || passed == n.swept {
		return err
	}
	n.swept = passed
	limited, cancel := context.WithTimeout(ctx, server.Timeout)
	defer cancel()
	return n.Save(limited, n.swept)
}

func (n *Janitor) loadSwept(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, server.Timeout)
	defer cancel()
	var err error
	n.swept, err = n.Load(limited)
	return err
}

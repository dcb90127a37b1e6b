package jetstream

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
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

// janitor removes what deleted objects leave behind: their history once every open
// cursor has passed the deletion, the deletion itself once it is old and also every
// sink that may come back (absent.go) has passed it. It purges up
// to the deletion and never beyond, so that an object that came back stays.
//
// Only what is durable of the cursors' positions counts. While no cursor is open
// nothing is removed.
type janitor struct {
	journal *Journal
	wake    chan struct{} // one signal: a cursor has moved
	short   chan struct{} // one signal: the stream runs short of space

	mu    sync.Mutex
	queue []tombstone // in the order of the log

	swept uint64 // below deletions up to here nothing is left; of the goroutine
	// reclaimed is when space was made last, and pause how long that is enough; of the
	// goroutine.
	reclaimed time.Time
	pause     time.Duration
	// enough is how many bytes the stream may hold before it is worth while to share again;
	// of the goroutine.
	enough uint64
}

func newJanitor(j *Journal) *janitor {
	return &janitor{journal: j, wake: make(chan struct{}, 1), short: make(chan struct{}, 1)}
}

// note remembers a deletion that was just appended.
func (n *janitor) note(t tombstone) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.queue) < maxTombstones {
		n.queue = append(n.queue, t)
	}
}

// due takes the oldest deletion that lies at or below seq.
func (n *janitor) due(seq uint64) (tombstone, bool) {
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

func (n *janitor) run(ctx context.Context) {
	ticker := time.NewTicker(n.journal.config.ScanInterval)
	defer ticker.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			return
		case <-n.wake:
			err = n.sweepRecent(ctx)
		case <-n.short:
			err = n.makeSpace(ctx)
		case <-ticker.C:
			err = errors.Join(n.sweepAll(ctx), n.sweepObjects(ctx, message.ObjectGrace))
		}
		if err != nil && ctx.Err() == nil {
			n.journal.logger.Warn("records of deleted objects not removed; retrying later", slog.Any("err", err))
		}
	}
}

// passed is the sequence that every open cursor has passed for good, and the one that
// so has every sink that may come back.
func (n *janitor) passed() (open, all uint64) {
	cursors, absent := n.journal.sinks()
	if len(cursors) == 0 {
		return 0, 0
	}
	open = cursors[0].durable()
	for _, c := range cursors[1:] {
		open = min(open, c.durable())
	}
	return open, min(open, absent)
}

// sweepRecent removes the history of objects that were deleted lately.
func (n *janitor) sweepRecent(ctx context.Context) error {
	passed, all := n.passed()
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
func (n *janitor) purge(ctx context.Context, subject string, seq uint64) error {
	if err := n.journal.allowed(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, server.Timeout)
	defer cancel()
	return n.journal.stream.Purge(ctx, js.WithPurgeSubject(subject), js.WithPurgeSequence(seq))
}

// sweepAll looks at what every subject ends with.
func (n *janitor) sweepAll(ctx context.Context) error {
	j := n.journal
	passed, all := n.passed()
	if passed == 0 {
		return nil
	}
	if n.swept == 0 {
		if err := n.loadSwept(ctx); err != nil {
			return err
		}
	}
	old := time.Now().Add(-j.config.TombstoneTTL)
	err := j.stream.EachLast(ctx, []string{j.config.root() + ".>"}, 0, func(m scan.Message) error {
		if m.Seq > passed || !event.Op(m.Header.Get(message.HeaderOp)).Ends() {
			return nil
		}
		switch {
		case copyOf(m) != 0 && m.Seq > all:
			return nil
		case copyOf(m) != 0:
			return n.purge(ctx, m.Subject, m.Seq+1)
		case m.Time.Before(old) && m.Seq <= all:
			if err := n.purge(ctx, m.Subject, m.Seq+1); err != nil {
				return err
			}
			j.subjects.Forget(m.Subject, m.Seq)
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
	return j.save(limited, j.key("janitor"), swept{place{Last: n.swept, Created: j.created}})
}

func (n *janitor) loadSwept(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, server.Timeout)
	defer cancel()
	var s swept
	if _, err := n.journal.records.Load(limited, n.journal.key("janitor"), &s); err != nil {
		return err
	}
	if s.holds(n.journal.here()) {
		n.swept = s.Last
	}
	return nil
}

// sweepObjects removes the bodies whose events are gone. An event may come up to
// grace behind its body.
func (n *janitor) sweepObjects(ctx context.Context, grace time.Duration) error {
	if n.journal.blocked.Load() > 0 {
		return nil // an event may have waited for longer than that
	}
	store, err := n.journal.messages.Objects.Bucket(ctx, false)
	if errors.Is(err, js.ErrBucketNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	listed, err := store.List(ctx)
	if errors.Is(err, js.ErrNoObjectsFound) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, o := range listed {
		if time.Since(o.ModTime) < grace {
			continue
		}
		used, err := n.used(ctx, o)
		if err != nil {
			return err
		}
		if used {
			continue
		}
		if err := n.journal.allowed(); err != nil {
			return err
		}
		if err := store.Delete(ctx, o.Name); err != nil {
			return err
		}
	}
	return nil
}

// used reports whether a message still refers to the object.
func (n *janitor) used(ctx context.Context, o *js.ObjectInfo) (bool, error) {
	subject := o.Metadata[message.MetaSubject]
	if !strings.HasPrefix(subject, n.journal.config.root()+".") {
		return true, nil // not ours to judge
	}
	used := false
	err := n.journal.stream.Each(ctx, scan.Scan{
		Policy: js.DeliverAllPolicy, Headers: true, Batch: readBatch,
		Filters: []string{subject, n.journal.config.endedSubject(o.Name)},
	}, func(m scan.Message) (bool, error) {
		e, err := message.Parse(m.Header)
		used = err == nil && message.ObjectName(e.ID) == o.Name
		return !used, nil
	})
	return used, err
}

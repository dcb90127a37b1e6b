package retention

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	js "github.com/nats-io/nats.go/jetstream"

	"github.com/informd/informd/pkg/journal/jetstream/internal/eventlog"
	"github.com/informd/informd/pkg/journal/jetstream/internal/message"
	"github.com/informd/informd/pkg/journal/jetstream/internal/scan"
)

// usedBatch is how many messages a search for the event of a body reads at a time.
const usedBatch = 256

// Janitor removes what deleted objects leave behind: their history once every open
// cursor has passed the deletion, the deletion itself once it is old and also every
// sink that may come back has passed it. It purges up
// to the deletion and never beyond, so that an object that came back stays.
//
// Only what is durable of the cursors' positions counts. While no cursor is open
// nothing is removed.
type Janitor struct {
	log *eventlog.Log
	Options
	wake chan struct{} // one signal: a cursor has moved

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

// Options are the settings and questions of a janitor. The functions may be called
// concurrently.
type Options struct {
	// Root is the subject prefix with the cluster.
	Root string
	// Interval is the time between two scans.
	Interval time.Duration
	// DeletedRetention is how long deletion events stay: journal.deletedRetention of the config,
	// whose default is in internal/config.
	DeletedRetention time.Duration
	// MaxBytes is the configured limit of the stream.
	MaxBytes int64
	Space    *Space
	// Passed returns the sequence that every open cursor has passed for good, and the one that
	// so has every sink that may come back; 0 without an open cursor.
	Passed func() (open, all uint64)
	// Located reports whether the positions of all cursors are known, of which there is one.
	Located func() bool
	// Look brings space up to date.
	Look func(ctx context.Context)
	// Blocked reports whether an append waits for space.
	Blocked func() bool
	// Load and save read and write how far the history of deleted objects is removed.
	Load func(ctx context.Context) (swept uint64, err error)
	Save func(ctx context.Context, swept uint64) error
}

// New returns a janitor; Run does its work.
func New(log *eventlog.Log, o Options) *Janitor {
	return &Janitor{log: log, Options: o, wake: make(chan struct{}, 1)}
}

// WakeUp has the janitor look at the positions of the cursors.
func (n *Janitor) WakeUp() {
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

// Run works until ctx ends.
func (n *Janitor) Run(ctx context.Context) {
	ticker := time.NewTicker(n.Interval)
	defer ticker.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			return
		case <-n.wake:
			err = n.sweepRecent(ctx)
		case <-n.Space.short:
			err = n.makeSpace(ctx)
		case <-ticker.C:
			err = errors.Join(n.sweepAll(ctx), n.SweepObjects(ctx, message.ObjectGrace))
		}
		if err != nil && ctx.Err() == nil {
			n.log.Logger.Warn("records of deleted objects not removed; retrying later", slog.Any("err", err))
		}
	}
}

// SweepObjects removes the bodies whose events are gone. An event may come up to
// grace behind its body.
func (n *Janitor) SweepObjects(ctx context.Context, grace time.Duration) error {
	if n.Blocked() {
		return nil // an event may have waited for longer than that
	}
	store, err := n.log.Messages.Objects.Bucket(ctx, false)
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
		if err := n.log.Allowed(); err != nil {
			return err
		}
		if err := store.Delete(ctx, o.Name); err != nil {
			return err
		}
	}
	return nil
}

// used reports whether a message still refers to the object.
func (n *Janitor) used(ctx context.Context, o *js.ObjectInfo) (bool, error) {
	subject := o.Metadata[message.MetaSubject]
	if !strings.HasPrefix(subject, n.Root+".") {
		return true, nil // not ours to judge
	}
	used := false
	err := n.log.Stream.Each(ctx, scan.Scan{
		Policy: js.DeliverAllPolicy, Headers: true, Batch: usedBatch,
		Filters: []string{subject, message.EndedSubject(n.Root, o.Name)},
	}, func(m scan.Message) (bool, error) {
		e, err := message.Parse(m.Header)
		used = err == nil && message.ObjectName(e.ID) == o.Name
		return !used, nil
	})
	return used, err
}

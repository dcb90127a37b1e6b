package journal

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal/internal/record"
	"github.com/informd/informd/pkg/journal/internal/wal"
)

// MaxRequests bounds the re-snapshots of one cursor that are not complete.
const MaxRequests = 64

// requests are the re-snapshots that a cursor was asked for, in order. Read announces the first of them.
type requests struct {
	pending []Resnapshot
	// begun: Read has begun with the first one. Announced: it has returned all of it.
	begun, announced bool
}

// Request has Read return a re-snapshot, interleaved with the events of the log, after the first snapshot and after
// those that were requested before. When it returns, the request is durable: it stays until [Cursor.Complete], also in
// later processes. A Reset or Rewind has it begin again. An error may leave the request in place. A request of targets
// that are no longer watched is dropped when the cursor is opened, and all are after damage.
func (c *Cursor) Request(ctx context.Context, r Resnapshot) error {
	if c.isClosed() {
		return ErrClosed
	}
	if err := c.addRequest(r); err != nil {
		return err
	}
	wal.Signal(c.news)
	return c.journal.log.Syncer.Sync(ctx)
}

func (c *Cursor) addRequest(r Resnapshot) error {
	c.saving.Lock()
	defer c.saving.Unlock()
	all := append(c.Requests(), r)
	if len(all) > MaxRequests {
		return fmt.Errorf("%d re-snapshots of the sink are pending, which is the limit: try again when they are complete", MaxRequests)
	}
	return c.keepRequests(all)
}

// Requests returns the re-snapshots that are not complete, in order.
func (c *Cursor) Requests() []Resnapshot {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.requests.pending)
}

// Complete says that the reader is done with all entries of the re-snapshot of a run, which Read has returned. It
// reports false and changes nothing if that begins again, because of a Reset or Rewind. Complete does not wait. After
// an error, a later process makes the re-snapshot again.
func (c *Cursor) Complete(run uint64) (bool, error) {
	if c.isClosed() {
		return false, ErrClosed
	}
	c.saving.Lock()
	defer c.saving.Unlock()
	c.mu.Lock()
	q := &c.requests
	if !q.announced || q.pending[0].Run != run {
		c.mu.Unlock()
		return false, nil
	}
	*q = requests{pending: q.pending[1:]}
	rest := slices.Clone(q.pending)
	c.mu.Unlock()
	wal.Signal(c.news)
	return true, c.keepRequests(rest)
}

// beginRequest makes the first request the source, if nothing else is.
func (c *Cursor) beginRequest() {
	if c.states != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if q := &c.requests; len(q.pending) > 0 && !q.begun && !c.position.Snapshot {
		q.begun = true
		c.states = newResnapshot(c, q.pending[0])
	}
}

// keepRequests replaces the requests, also for later processes. It is called with saving held.
func (c *Cursor) keepRequests(all []Resnapshot) error {
	if err := c.journal.put(requestsName+c.name, all); err != nil {
		return err
	}
	c.mu.Lock()
	c.requests.pending = all
	c.mu.Unlock()
	return nil
}

// loadRequests begins with the requests of earlier processes, but those of before a loss of objects: the first lists that
// follow it announce what there is, to every sink.
func (c *Cursor) loadRequests() {
	logger := c.journal.config.Logger.With("sink", c.name)
	value, ok := c.journal.log.Keys.Get(record.Cursor, requestsName+c.name)
	if !ok || value.Seq < c.journal.log.Damage {
		return
	}
	var list []Resnapshot
	if err := json.Unmarshal(value.Value, &list); err != nil {
		logger.Warn("pending re-snapshots unreadable; they are dropped", "err", err, "next", "run informd resnapshot again")
		return
	}
	for _, r := range list {
		gone := func(e event.Event) bool { return !c.journal.config.Watched(&e) }
		r.Begin, r.End = slices.DeleteFunc(r.Begin, gone), slices.DeleteFunc(r.End, gone)
		if len(r.Begin) == 0 || len(r.Begin) != len(r.End) {
			logger.Warn("re-snapshot dropped; its resource is no longer watched", "run", r.Run)
			continue
		}
		logger.Info("re-snapshot resumed", "target", r.Begin[0].Target, "run", r.Run)
		c.requests.pending = append(c.requests.pending, r)
	}
}

package journal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal/internal/record"
)

// MaxRequests bounds the re-snapshots of one cursor that are not complete.
const MaxRequests = 64

// noRequests is the record of a sink without requests.
const noRequests = "[]"

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
	signal(c.news)
	return c.journal.log.Sync(ctx)
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
	signal(c.news)
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

// kept is the JSON form of a [Resnapshot].
type kept struct {
	Run   uint64            `json:"run"`
	Begin []json.RawMessage `json:"begin"`
	End   []json.RawMessage `json:"end"`
}

// keepRequests replaces the requests, also for later processes. It is called with saving held.
func (c *Cursor) keepRequests(all []Resnapshot) error {
	list := make([]kept, len(all))
	for i, r := range all {
		list[i] = kept{r.Run, encodeEvents(r.Begin), encodeEvents(r.End)}
	}
	value, err := json.Marshal(list)
	if err != nil {
		return fmt.Errorf("encode re-snapshots of sink %s: %w", c.name, err)
	}
	if err := c.journal.log.Put(record.Cursor, requestsName+c.name, value); err != nil {
		return err
	}
	c.mu.Lock()
	c.requests.pending = all
	c.mu.Unlock()
	return nil
}

// dropRequests gives up the requests of all sinks if the log has lost objects: the first lists that follow
// announce what there is, to every sink.
func (j *Journal) dropRequests() error {
	if !j.log.Void {
		return nil
	}
	for _, n := range j.log.All(record.Cursor) {
		name, ok := strings.CutPrefix(n.Name, requestsName)
		if !ok || string(n.Value) == noRequests {
			continue
		}
		if err := j.log.Put(record.Cursor, n.Name, []byte(noRequests)); err != nil {
			return fmt.Errorf("drop re-snapshots of sink %s: %w", name, err)
		}
		j.config.Logger.Info("re-snapshots dropped; the journal was damaged, and first lists take their place", "sink", name)
	}
	return nil
}

// loadRequests begins with the requests of earlier processes.
func (c *Cursor) loadRequests() {
	logger := c.journal.config.Logger.With("sink", c.name)
	value, ok := c.journal.log.Get(record.Cursor, requestsName+c.name)
	if !ok {
		return
	}
	var list []kept
	err := json.Unmarshal(value.Value, &list)
	for _, k := range list {
		begin, beginErr := decodeEvents(k.Begin)
		end, endErr := decodeEvents(k.End)
		err = errors.Join(err, beginErr, endErr)
		gone := func(e event.Event) bool { return !c.journal.config.Watched(&e) }
		r := Resnapshot{Run: k.Run, Begin: slices.DeleteFunc(begin, gone), End: slices.DeleteFunc(end, gone)}
		if len(r.Begin) == 0 || len(r.Begin) != len(r.End) {
			logger.Warn("re-snapshot dropped; its resource is no longer watched", "run", r.Run)
			continue
		}
		logger.Info("re-snapshot resumed", "target", r.Begin[0].Target, "run", r.Run)
		c.requests.pending = append(c.requests.pending, r)
	}
	if err != nil {
		logger.Warn("pending re-snapshots unreadable; they are dropped", "err", err, "next", "run informd resnapshot again")
	}
}

func encodeEvents(events []event.Event) []json.RawMessage {
	all := make([]json.RawMessage, len(events))
	for i := range events {
		all[i] = events[i].AppendJSON(nil)
	}
	return all
}

func decodeEvents(texts []json.RawMessage) (all []event.Event, err error) {
	for _, text := range texts {
		e, err := event.ParseJSON(text)
		if err != nil {
			return nil, err
		}
		all = append(all, e)
	}
	return all, nil
}

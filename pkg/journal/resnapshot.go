package journal

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal/internal/record"
)

// kept is the JSON form of a [Resnapshot].
type kept struct {
	Run   uint64            `json:"run"`
	Begin []json.RawMessage `json:"begin"`
	End   []json.RawMessage `json:"end"`
}

// KeepResnapshots replaces the requests that are kept for later processes. They are durable when it
// returns.
func (c *Cursor) KeepResnapshots(ctx context.Context, all []Resnapshot) error {
	if c.isClosed() {
		return ErrClosed
	}
	list := make([]kept, len(all))
	for i, r := range all {
		list[i] = kept{r.Run, encodeEvents(r.Begin), encodeEvents(r.End)}
	}
	value, err := json.Marshal(list)
	if err != nil {
		return fmt.Errorf("encode re-snapshots of sink %s: %w", c.name, err)
	}
	if err := c.journal.log.Put(record.Cursor, requestsName+c.name, value); err != nil {
		return c.journal.errOf(err)
	}
	return c.journal.errOf(c.journal.log.Sync(ctx))
}

// KeptResnapshots returns the kept requests, without targets that are no longer watched.
func (c *Cursor) KeptResnapshots() (all []Resnapshot, err error) {
	if c.isClosed() {
		return nil, ErrClosed
	}
	value, ok := c.journal.log.Get(record.Cursor, requestsName+c.name)
	if !ok {
		return nil, nil
	}
	var list []kept
	if err := json.Unmarshal(value.Value, &list); err != nil {
		return nil, fmt.Errorf("re-snapshots of sink %s in the journal: %w", c.name, err)
	}
	for _, k := range list {
		r := Resnapshot{Run: k.Run}
		if r.Begin, err = decodeEvents(k.Begin); err == nil {
			r.End, err = decodeEvents(k.End)
		}
		if err != nil {
			return nil, fmt.Errorf("re-snapshots of sink %s in the journal: %w", c.name, err)
		}
		gone := func(e event.Event) bool { return !c.journal.config.Watched(&e) }
		r.Begin, r.End = slices.DeleteFunc(r.Begin, gone), slices.DeleteFunc(r.End, gone)
		if len(r.Begin) == 0 || len(r.Begin) != len(r.End) {
			c.journal.config.Logger.Warn("re-snapshot dropped; its resource is no longer watched", "sink", c.name, "run", r.Run)
			continue
		}
		all = append(all, r)
	}
	return all, nil
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

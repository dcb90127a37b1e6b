package journal

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal/internal/record"
	"github.com/informd/informd/pkg/journal/internal/wal"
)

// keptGaps is how many gaps of a sink stay.
const keptGaps = 16

// KeepGap keeps a gap event that this reader alone gets, for [History]. The newest few stay. It is
// durable a moment later.
func (c *Cursor) KeepGap(e event.Event) {
	name := gapsName + c.name
	c.saving.Lock()
	defer c.saving.Unlock()
	var list []event.Event
	if kept, ok := c.journal.log.Keys.Get(record.Cursor, name); ok {
		_ = json.Unmarshal(kept.Value, &list) // one that cannot be read begins again
	}
	if slices.ContainsFunc(list, func(kept event.Event) bool { return kept.ID == e.ID }) {
		return // read again, as nothing was committed since
	}
	list = append(list, e)
	if err := c.journal.put(name, list[max(0, len(list)-keptGaps):]); err != nil {
		c.journal.config.Logger.Warn("gap of a sink not kept for informd gaps; the sink gets it", "sink", c.name, "id", e.ID, "err", err)
	}
}

// EachGap calls take with the gap events that the journal keeps, oldest first: those of targets, and the
// newest of single sinks ([event.Event.GapSink]).
func (h History) EachGap(ctx context.Context, take func(event.Event) error) error {
	var all []event.Event
	for _, n := range h.log.Keys.All(record.Cursor) {
		if !strings.HasPrefix(n.Name, gapsName) {
			continue
		}
		var list []event.Event
		if err := json.Unmarshal(n.Value, &list); err != nil {
			return err
		}
		all = append(all, list...)
	}
	err := h.log.History.EachControl(func(e wal.Entry) error {
		if e.Event.Op == event.Gap {
			all = append(all, e.Event)
		}
		return ctx.Err()
	})
	slices.SortStableFunc(all, func(a, b event.Event) int { return a.Time.Compare(b.Time) })
	for ; err == nil && len(all) > 0; all = all[1:] {
		err = take(all[0])
	}
	return err
}

package jetstream

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
	"github.com/informd/informd/pkg/journal/jetstream/internal/eventlog"
	"github.com/informd/informd/pkg/journal/jetstream/internal/server"
)

// requests is the record of the re-snapshots of a sink that are not complete.
type requests struct {
	Requests []request `json:"requests"`
}

// request is a [journal.Resnapshot], with its events in their JSON form.
type request struct {
	Run   uint64            `json:"run"`
	Begin []json.RawMessage `json:"begin"`
	End   []json.RawMessage `json:"end"`
}

// KeepResnapshots implements [journal.ResnapshotKeeper].
func (c *cursor) KeepResnapshots(ctx context.Context, all []journal.Resnapshot) error {
	if err := c.usable(ctx); err != nil {
		return err
	}
	var kept requests
	for _, what := range all {
		kept.Requests = append(kept.Requests, request{Run: what.Run, Begin: encode(what.Begin), End: encode(what.End)})
	}
	bounded, cancel := eventlog.Both(ctx, c.life)
	defer cancel()
	key := c.journal.records.Resnapshots(c.name)
	err := server.Retry(bounded, c.journal.asking, func(ctx context.Context) error { return c.journal.save(ctx, key, kept) })
	if err == nil {
		c.journal.notePending(key, kept)
	}
	return c.cause(ctx, err)
}

// KeptResnapshots implements [journal.ResnapshotKeeper].
func (c *cursor) KeptResnapshots(ctx context.Context) (all []journal.Resnapshot, err error) {
	if err := c.usable(ctx); err != nil {
		return nil, err
	}
	var kept requests
	bounded, cancel := eventlog.Both(ctx, c.life)
	defer cancel()
	err = c.journal.log.Requests.Repeat(bounded, c.journal.asking, func(ctx context.Context) error {
		kept = requests{}
		_, err := c.journal.records.Load(ctx, c.journal.records.Resnapshots(c.name), &kept)
		return err
	})
	if err != nil {
		return nil, c.cause(ctx, err)
	}
	c.journal.notePending(c.journal.records.Resnapshots(c.name), kept)
	for _, one := range kept.Requests {
		what := journal.Resnapshot{Run: one.Run}
		if what.Begin, err = decodeAll(one.Begin); err == nil {
			what.End, err = decodeAll(one.End)
		}
		if err != nil {
			return nil, fmt.Errorf("re-snapshot of sink %s in the journal: %w", c.name, err)
		}
		gone := func(e event.Event) bool { return !c.journal.config.watched(&e) }
		what.Begin, what.End = slices.DeleteFunc(what.Begin, gone), slices.DeleteFunc(what.End, gone)
		if len(what.Begin) == 0 || len(what.Begin) != len(what.End) {
			c.journal.log.Logger.Warn("re-snapshot dropped; its resource is no longer watched", "sink", c.name, "run", what.Run)
			continue
		}
		all = append(all, what)
	}
	return all, nil
}

func encode(events []event.Event) []json.RawMessage {
	all := make([]json.RawMessage, len(events))
	for i := range events {
		all[i] = events[i].AppendJSON(nil)
	}
	return all
}

func decodeAll(texts []json.RawMessage) (all []event.Event, err error) {
	for _, text := range texts {
		e, err := event.ParseJSON(text)
		if err != nil {
			return nil, err
		}
		all = append(all, e)
	}
	return all, nil
}

var _ journal.ResnapshotKeeper = (*cursor)(nil)

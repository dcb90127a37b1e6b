package jetstream

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
	"github.com/informd/informd/pkg/journal/jetstream/internal/scan"
)

// bounds are the beginnings and ends of the snapshot that a new sink gets: a pair for each
// target whose first list is complete. Of a target whose first list is under way the sink
// gets the beginning of that list, as the end follows in the log.
type bounds struct {
	run          uint64
	begins, ends []journal.Entry
	// open has the runs of the first lists that are under way.
	open map[string]uint64
}

// runOf is the run of the objects of a target.
func (b *bounds) runOf(target string) uint64 {
	if run := b.open[target]; run != 0 {
		return run
	}
	return b.run
}

// boundSubjects matches the subjects of all begin and synced events.
func (c *Config) boundSubjects() []string {
	filter := func(op event.Op) string { return c.root() + "._informd." + string(op) + ".*" }
	return []string{filter(event.Begin), filter(event.Synced)}
}

// boundsUpTo makes the bounds of a snapshot as of the sequence end.
func (j *Journal) boundsUpTo(ctx context.Context, end, run uint64) (*bounds, error) {
	begun, synced := map[string]event.Event{}, []event.Event(nil)
	err := j.stream.EachLast(ctx, j.config.boundSubjects(), end, func(m scan.Message) error {
		e, ok := j.messages.Identify(m)
		switch {
		case !ok || !j.config.watched(&e):
		case e.Op == event.Begin:
			begun[e.Target] = e
		default:
			synced = append(synced, e)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read which snapshots are complete: %w", err)
	}
	b := &bounds{run: run, open: map[string]uint64{}}
	for _, e := range synced {
		delete(begun, e.Target)
		e.Replay = false
		begin := e
		begin.SetBound(event.Begin, run, e.ResourceVersion)
		e.SetBound(event.Synced, run, e.ResourceVersion)
		b.begins = append(b.begins, journal.Entry{Event: begin})
		b.ends = append(b.ends, journal.Entry{Event: e})
	}
	for _, target := range slices.Sorted(maps.Keys(begun)) {
		b.open[target] = begun[target].Run
		b.begins = append(b.begins, journal.Entry{Event: begun[target]})
	}
	return b, nil
}

package bounds

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
	"github.com/informd/informd/pkg/journal/jetstream/internal/eventlog"
	"github.com/informd/informd/pkg/journal/jetstream/internal/message"
	"github.com/informd/informd/pkg/journal/jetstream/internal/scan"
)

// Bounds are the beginnings and ends of the snapshot that a new sink gets: a pair for each
// target whose first list is complete. Of a target whose first list is under way the sink
// gets the beginning of that list, as the end follows in the log. Of a target that the log has lost
// events of, it gets a beginning without an end: the target announces all objects again.
type Bounds struct {
	run          uint64
	Begins, Ends []journal.Entry
	// open has the runs of the first lists that are under way.
	open map[string]uint64
}

// RunOf is the run of the objects of a target.
func (b *Bounds) RunOf(target string) uint64 {
	if run := b.open[target]; run != 0 {
		return run
	}
	return b.run
}

// UpTo makes the bounds of a snapshot with a run, as of the sequence end. Watched reports
// whether the config wants the target of an event. Lossy reports whether the log has lost events that
// a target had up to a sequence.
func UpTo(ctx context.Context, log *eventlog.Log, root string, watched func(*event.Event) bool, lossy func(target string, seq uint64) bool, end, run uint64) (*Bounds, error) {
	begun, synced := map[string]logged{}, map[string]logged{}
	err := log.Stream.EachLast(ctx, message.BoundSubjects(root), end, func(m scan.Message) error {
		e, ok := log.Messages.Identify(m)
		switch {
		case !ok || !watched(&e):
		case e.Op == event.Begin:
			begun[e.Target] = logged{e, m.Seq}
		default:
			synced[e.Target] = logged{e, m.Seq}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read which snapshots are complete: %w", err)
	}
	b := &Bounds{run: run, open: map[string]uint64{}}
	for _, target := range slices.Sorted(maps.Keys(synced)) {
		last := synced[target]
		if begin := begun[target]; begin.seq > last.seq && !begin.Replay {
			continue // a first list again, as events were lost
		}
		delete(begun, target)
		b.add(last.Event, !lossy(target, last.seq))
	}
	for _, target := range slices.Sorted(maps.Keys(begun)) {
		b.open[target] = begun[target].Run
		b.Begins = append(b.Begins, journal.Entry{Event: begun[target].Event})
	}
	return b, nil
}

// logged is an event and its sequence.
type logged struct {
	event.Event

	seq uint64
}

// add adds the bounds of a target whose first list has ended with an event.
func (b *Bounds) add(synced event.Event, ends bool) {
	synced.Replay = false
	begin := synced
	begin.SetBound(event.Begin, b.run, synced.ResourceVersion)
	b.Begins = append(b.Begins, journal.Entry{Event: begin})
	if ends {
		synced.SetBound(event.Synced, b.run, synced.ResourceVersion)
		b.Ends = append(b.Ends, journal.Entry{Event: synced})
	}
}

package jetstream

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
	"github.com/informd/informd/pkg/journal/jetstream/internal/states"
)

// maxTold bounds the objects that are remembered because something of them was read
// while their states are. Beyond that the log waits until those are through.
const maxTold = 1 << 14

// resnapshot gives a sink the states of objects as of what it has read when that
// begins, in turn with what the log has. What is newer is not repeated, as the log
// brings it: the end comes when the sink has read as far as the log went when the
// states were through.
type resnapshot struct {
	cursor *cursor
	what   journal.Resnapshot
	// targets are the names of the targets, by namespace; "" is for all namespaces.
	targets map[string]string

	states *states.States // nil until it begins
	// told are the keys of objects of which the log brought something since.
	told map[string]struct{}
	// rests: the log has its turn.
	rests   bool
	through bool   // with the states
	known   bool   // until is
	until   uint64 // where the log ended then
	// longer: until was moved once, see reached.
	longer bool
}

// Resnapshot implements [journal.Resnapshotter]. The position of the sink does not
// change, so that nothing is left of it in another process.
func (c *cursor) Resnapshot(ctx context.Context, what journal.Resnapshot) error {
	_, release, err := c.acquire(ctx)
	if err != nil {
		return err
	}
	defer release()
	c.mu.Lock()
	first := c.record.Snapshot
	c.mu.Unlock()
	if first {
		return fmt.Errorf("resnapshot: %w", journal.ErrFirstSnapshot)
	}
	if c.repeating != nil {
		c.repeating.close(ctx)
	}
	c.repeating = &resnapshot{cursor: c, what: what, targets: make(map[string]string), told: make(map[string]struct{})}
	for _, record := range what.Begin {
		_, namespace, _ := strings.Cut(record.Target, "@")
		c.repeating.targets[namespace] = record.Target
	}
	return nil
}

func (r *resnapshot) close(ctx context.Context) {
	if r.states != nil {
		r.states.Close(ctx)
	}
}

// due reports whether it is its turn. Next is the sequence that the sink reads next,
// and behind says whether the log has it. It does not begin while the sink reads again
// what it had read up to rewound: that does not show which objects exist now.
func (r *resnapshot) due(next, rewound uint64, behind bool) bool {
	switch {
	case r.known:
		return next > r.until && r.reached()
	case r.states == nil:
		return next > rewound
	case r.through:
		return true
	default:
		return !r.rests || !behind || len(r.told) >= maxTold
	}
}

// reached reports whether the end may come. If events were removed unread on the way, one of them may
// be the only one of an object since the snapshot began. The object has a later event, which
// comes first. It waits for one loss only: a sink that is always too slow must not wait for ever.
func (r *resnapshot) reached() bool {
	if loss := r.cursor.withheld.LastLoss(); loss > r.until && !r.longer {
		r.until, r.longer = loss, true
		return false
	}
	return true
}

// fill implements [source].
func (r *resnapshot) fill(ctx context.Context) (entries []journal.Entry, done bool, err error) {
	switch {
	case r.states == nil:
		r.begin()
		return markers(r.what.Begin), false, nil
	case !r.through:
		r.rests = true
		var events []event.Event
		events, r.through, err = r.states.Next(ctx)
		if r.through {
			r.told = nil
		}
		return r.repeat(events), false, err
	case !r.known:
		r.until, err = r.cursor.journal.log.Stream.LastSequence(ctx)
		r.known = err == nil
		return nil, false, err
	default:
		return markers(r.what.End), true, nil
	}
}

// begin is called when everything that was read ahead was returned.
func (r *resnapshot) begin() {
	c, first := r.cursor, r.what.Begin[0]
	c.mu.Lock()
	end := c.next - 1
	c.mu.Unlock()
	subjects := strings.Join([]string{
		c.journal.config.root(), event.EscapeToken(event.GroupOrCore(first.Group)), event.EscapeToken(first.Resource), "*.*",
	}, ".")
	r.states = &states.States{Log: c.journal.log, Filters: []string{subjects}, End: end, Wants: r.wants}
}

// target is the name of the target that an object belongs to, "" if it is of none.
func (r *resnapshot) target(e *event.Event) string {
	if all := r.targets[""]; all != "" {
		return all
	}
	return r.targets[e.Namespace]
}

func (r *resnapshot) wants(e *event.Event) bool {
	_, told := r.told[e.Key()]
	return !told && r.target(e) != "" && r.cursor.journal.config.watched(e)
}

// repeat makes of the last events of objects what announces them anew.
func (r *resnapshot) repeat(events []event.Event) []journal.Entry {
	entries := make([]journal.Entry, len(events))
	for i, e := range events {
		e.ID = event.ObjectID(e.UID, e.ResourceVersion, e.Epoch)
		e.SetRun(r.what.Run)
		e.Op, e.Replay, e.PrevResourceVersion, e.Target = event.Snapshot, true, e.ResourceVersion, r.target(&e)
		entries[i].Event = e
	}
	return entries
}

// returned notes what Read has returned of the log. A state that was announced again with
// a run of its own does not show a consumer that the object exists now: an old one has the
// same form after a rewind. So it comes again, with the run of this snapshot.
func (r *resnapshot) returned(entries []journal.Entry) (repeats []journal.Entry) {
	if r.states == nil {
		return nil
	}
	for i := range entries {
		if entries[i].Seq == 0 {
			continue
		}
		r.rests = false
		if e := &entries[i].Event; !e.Op.Control() && !r.through {
			r.told[e.Key()] = struct{}{}
		}
	}
	for _, e := range announcedAgain(entries) {
		if r.covers(e) {
			repeats = append(repeats, r.repeat([]event.Event{*e})...)
		}
	}
	return repeats
}

// announcedAgain are the events of the log that announce a state again and are the last of
// their object among the entries.
func announcedAgain(entries []journal.Entry) (all []*event.Event) {
	later := make(map[string]struct{})
	for i := range slices.Backward(entries) {
		e := &entries[i].Event
		if entries[i].Seq == 0 || e.Op.Control() {
			continue
		}
		if _, known := later[e.Key()]; !known && e.Reannounced() {
			all = append(all, e)
		}
		later[e.Key()] = struct{}{}
	}
	return all
}

// covers reports whether an object of any resource belongs to the snapshot.
func (r *resnapshot) covers(e *event.Event) bool {
	first := &r.what.Begin[0]
	return e.Group == first.Group && e.Resource == first.Resource && r.target(e) != "" && r.cursor.journal.config.watched(e)
}

// markers makes entries of control records, of now.
func markers(events []event.Event) []journal.Entry {
	entries := make([]journal.Entry, len(events))
	for i, e := range events {
		e.Time = time.Now().UTC().Truncate(time.Microsecond)
		entries[i].Event = e
	}
	return entries
}

// Package withheld keeps the end of a snapshot back until a sink has the objects that it lacks.
//
// The history limit can remove events of a snapshot before a sink has read them. Each object of such
// an event has a later event in the log. A consumer that completes the snapshot first would drop
// the object. So the synced event of the snapshot comes when the sink has read as far as the log
// went when the loss was noticed. It does not come later: a sink that is always too slow must not
// wait for ever.
package withheld

import (
	"fmt"
	"slices"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
)

// Ends are the synced events that one sink gets later. Nil has none. One goroutine uses it.
type Ends struct {
	// until is where the log ended at the last loss.
	until  uint64
	begun  map[string]struct{} // snapshots that began after it
	synced []late
}

// late is a synced event that is returned once the sink has read up to a sequence.
type late struct {
	entry journal.Entry
	until uint64
}

// New returns the Ends of a sink that lost events when the log ended at a sequence. Another
// loss replaces it with a new one, see [Ends.Again].
func New(end uint64) *Ends { return &Ends{until: end, begun: make(map[string]struct{})} }

// Again notes another loss, and returns e, or a new one if e is nil.
func (e *Ends) Again(end uint64) *Ends {
	again := New(end)
	if e != nil {
		again.synced = e.synced
	}
	return again
}

// Due reports whether [Ends.Next] is to be called before the sequence next is read.
func (e *Ends) Due(next uint64) bool {
	if e != nil && len(e.synced) > 0 {
		return next > e.synced[0].until
	}
	return e != nil && next > e.until
}

// LastLoss returns where the log ended when the last loss was noticed, 0 if the sink has read as far.
func (e *Ends) LastLoss() uint64 {
	if e == nil {
		return 0
	}
	return e.until
}

// Withhold takes the synced events out of entries that come too early. Whole: no event was
// removed between the entries.
func (e *Ends) Withhold(entries []journal.Entry, whole bool) []journal.Entry {
	if e == nil {
		return entries
	}
	return slices.DeleteFunc(entries, func(one journal.Entry) bool {
		if !one.Event.Op.Bounds() {
			return false
		}
		snapshot := fmt.Sprintf("%s %d", one.Event.Target, one.Event.Run)
		if whole && one.Event.Op == event.Begin {
			e.begun[snapshot] = struct{}{}
		}
		_, begun := e.begun[snapshot]
		early := one.Event.Op == event.Synced && one.Seq <= e.until && !begun
		if early {
			e.synced = append(e.synced, late{one, e.until})
		}
		return early
	})
}

// Detain takes the sequences from entries behind a withheld synced event, so that the sink does
// not commit them: a process that ends meanwhile would lose that event.
func (e *Ends) Detain(entries []journal.Entry) {
	if e == nil || len(e.synced) == 0 {
		return
	}
	for i := range entries {
		if entries[i].Seq >= e.synced[0].entry.Seq {
			entries[i].Seq = 0
		}
	}
}

// Next returns the next withheld synced event, and false if there is none. Its sequence commits what
// was detained up to the one after it; last is the sequence that was read last.
func (e *Ends) Next(last uint64) (journal.Entry, bool) {
	if len(e.synced) == 0 {
		return journal.Entry{}, false
	}
	one := e.synced[0].entry
	if e.synced = e.synced[1:]; len(e.synced) > 0 {
		one.Seq = e.synced[0].entry.Seq - 1
	} else {
		one.Seq = last
	}
	return one, true
}

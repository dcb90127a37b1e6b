package journal

import (
	"cmp"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal/internal/wal"
)

// lacksObjects reports whether an event ends a snapshot whose events this sink may lack. It does not get that
// end: a consumer would take the objects of the lost events for deleted ones. After damage the target takes
// its first list again, which ends without them.
func (c *Cursor) lacksObjects(of *wal.Entry) (bool, error) {
	if of.Event.Op != event.Synced {
		return false, nil
	}
	c.mu.Lock()
	unkept := of.Seq <= c.position.Incomplete
	c.mu.Unlock()
	if unkept || !c.journal.log.Damaged(0, of.Seq) {
		return unkept, nil
	}
	return c.journal.isIncomplete(of.Seq)
}

// isIncomplete reports whether an event is the end of a snapshot that damage has taken events of.
func (j *Journal) isIncomplete(seq uint64) (bool, error) {
	j.finding.Lock()
	defer j.finding.Unlock()
	if j.incomplete == nil {
		all, err := j.findIncomplete()
		if err != nil {
			return false, err
		}
		j.incomplete = all
	}
	_, is := j.incomplete[seq]
	return is, nil
}

// findIncomplete returns the sequences of the ends of snapshots that damage has taken events of. A snapshot
// that begins after the start is whole, and none continues over a start that has found damage.
func (j *Journal) findIncomplete() (map[uint64]struct{}, error) {
	type snapshot struct {
		target string
		run    uint64
	}
	all, begun, ended := map[uint64]struct{}{}, map[snapshot]uint64{}, map[string]uint64{}
	err := j.log.EachControl(func(e wal.Entry) error {
		target := e.Event.Target
		switch of := (snapshot{target, e.Event.Run}); {
		case e.Event.Op == event.Begin && begun[of] == 0:
			begun[of] = e.Seq
		case e.Event.Op == event.Synced:
			if j.log.Damaged(cmp.Or(begun[of], ended[target]), e.Seq) { // the beginning may be gone
				all[e.Seq] = struct{}{}
			}
			ended[target] = e.Seq
		}
		return nil
	})
	return all, err
}

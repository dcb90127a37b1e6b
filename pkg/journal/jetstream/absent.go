package jetstream

import (
	"maps"
	"math"
	"slices"
	"time"

	"github.com/informd/informd/pkg/journal/jetstream/internal/record"
)

// A sink that is not open was removed from the config, or has not been opened yet. Its
// position stays for when it comes back, and for as long as DeletedRetention after it was
// last open the ends of objects stay that it has not passed, as the copies of ended.go
// if need be. The history below them goes, as nobody may come for it.

// sinks returns the cursors of those that are open, and the sequence that every other
// one which may come back has passed; where there is none, that is the greatest.
func (j *Journal) sinks() (open []*cursor, absent uint64) {
	gone := time.Now().Add(-j.config.DeletedRetention)
	j.mu.Lock()
	defer j.mu.Unlock()
	absent = math.MaxUint64
	for _, p := range j.absent {
		if p.Left.After(gone) {
			absent = min(absent, p.Passed())
		}
	}
	return slices.Collect(maps.Values(j.cursors)), absent
}

// present says that a sink is open.
func (j *Journal) present(name string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	delete(j.absent, j.records.Sink(name))
}

// leave notes when the sink was last open.
func (c *cursor) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.record.Left = record.Now()
}

// left ends the cursor's place among those that are open.
func (c *cursor) left() {
	c.mu.Lock()
	p := c.record
	c.mu.Unlock()
	j := c.journal
	j.mu.Lock()
	defer j.mu.Unlock()
	j.absent[j.records.Sink(c.name)] = p
	delete(j.cursors, c.name)
	delete(j.pending, j.records.Resnapshots(c.name))
}

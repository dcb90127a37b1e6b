package jetstream

import (
	"context"
	"slices"

	"github.com/informd/informd/pkg/journal/jetstream/internal/record"
	"github.com/informd/informd/pkg/journal/jetstream/internal/retention"
)

// sweeping returns the settings of the janitor.
func (j *Journal) sweeping() retention.Options {
	return retention.Options{
		Root: j.config.root(), Interval: j.config.ScanInterval, DeletedRetention: j.config.DeletedRetention, MaxBytes: j.config.MaxBytes, Space: j.space,
		Passed: j.passed, Located: j.located, Look: j.look, Blocked: func() bool { return j.publisher.Blocked.Load() > 0 },
		Load: j.loadSwept, Save: j.saveSwept,
	}
}

// passed returns the sequence that every open cursor has passed for good, and the one that
// so has every sink that may come back.
func (j *Journal) passed() (open, all uint64) {
	cursors, absent := j.sinks()
	if len(cursors) == 0 {
		return 0, 0
	}
	open = cursors[0].durable()
	for _, c := range cursors[1:] {
		open = min(open, c.durable())
	}
	return open, min(open, absent)
}

// located reports whether the positions of all open cursors are known and saved. There is at
// least one.
func (j *Journal) located() bool {
	open := j.openCursors()
	return len(open) > 0 && !slices.ContainsFunc(open, func(c *cursor) bool { return !c.located() })
}

// located reports whether the cursor's position is known and saved.
func (c *cursor) located() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.saved.Created.IsZero()
}

// loadSwept reads the janitor's record.
func (j *Journal) loadSwept(ctx context.Context) (uint64, error) {
	var s record.Janitor
	if _, err := j.records.Load(ctx, j.records.Key("janitor"), &s); err != nil || !s.Holds(j.here()) {
		return 0, err
	}
	return s.Last, nil
}

// saveSwept writes it.
func (j *Journal) saveSwept(ctx context.Context, last uint64) error {
	return j.save(ctx, j.records.Key("janitor"), record.Janitor{Place: record.Place{Last: last, Created: j.created}})
}

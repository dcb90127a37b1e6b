package jetstream

import (
	"fmt"

	"github.com/informd/informd/pkg/journal"
)

// Rewindable implements [journal.Rewinder].
func (c *cursor) Rewindable() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.record.Snapshot {
		return fmt.Errorf("rewind: %w", journal.ErrFirstSnapshot)
	}
	return nil
}

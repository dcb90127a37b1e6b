package journal

import "github.com/informd/informd/pkg/journal/internal/wal"

// What a cursor keeps of the destination of its reader.

// Note returns the last note about the reader, also of an earlier process, or an empty string.
func (c *Cursor) Note() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.position.Note
}

// SetNote replaces the note. It is durable a moment later, and after Close.
func (c *Cursor) SetNote(note string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.position.Note = note
	wal.Signal(c.journal.dirty)
}

// Log identifies the log: sequences of another one do not compare with those of this one. A copy of the
// log has the same.
func (c *Cursor) Log() string { return c.journal.log.ID }

// Acknowledged returns the highest sequence of an event that the reader's destination has acknowledged,
// also to an earlier process. After a crash it may be some events behind. It differs from the committed
// sequence: that passes events that the reader does not deliver, and goes back in a rewind.
func (c *Cursor) Acknowledged() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.position.Acknowledged
}

// Acknowledge raises Acknowledged to seq. It does not wait: the value is saved with the position.
func (c *Cursor) Acknowledge(seq uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if seq > c.position.Acknowledged {
		c.position.Acknowledged = seq
		wal.Signal(c.journal.dirty)
	}
}

// Package journal is the ordered log between watching and delivering: every
// event is appended to it before any sink sees it, and every sink reads it
// through a cursor of its own, at its own pace.
//
// The journal is the only thing that the two sides share. Package dynwatch
// appends; the deliver package reads. This package knows neither Kubernetes nor
// any sink. [Memory] keeps the log in a bounded ring; a restart begins anew.
package journal

import (
	"context"
	"errors"

	"github.com/informd/informd/pkg/event"
)

// ErrClosed is returned by every method of a journal or cursor that was closed.
var ErrClosed = errors.New("journal is closed")

// Entry is an event with its place in the log.
type Entry struct {
	// Seq counts up from 1 without reuse; there may be holes.
	Seq   uint64
	Event event.Event
}

// Journal is the log. All methods may be called concurrently.
type Journal interface {
	// Append adds events in order, all of them, and returns when they are as
	// durable as the journal makes them. It blocks while the journal is full:
	// that is how a slow sink holds back the watches. If ctx ends first it
	// returns its error; then a leading part of the events may be in the log.
	Append(ctx context.Context, events []event.Event) error
	// Open returns the cursor of that name, which must not be open already. A
	// new name begins at the oldest event the journal holds.
	Open(name string) (Cursor, error)
	// Stats describes the journal now.
	Stats() Stats
	// Close ends all blocked calls with ErrClosed.
	Close() error
}

// Cursor is one reader's place in the log. It belongs to one goroutine, but for
// Commit, Lag and Close, which may be called from others.
type Cursor interface {
	// Read returns the next entries in order, at least one and at most limit. It
	// blocks until there is one. The entries' events are shared: do not change
	// them. Reading does not move the committed position.
	Read(ctx context.Context, limit int) ([]Entry, error)
	// Commit says that this reader is done with all entries up to and including
	// seq: they will not be read again, and the journal may drop them when all
	// cursors are past them. A seq below the committed one changes nothing.
	Commit(ctx context.Context, seq uint64) error
	// Lag is what was appended and is not committed yet.
	Lag() Lag
	// Close gives the cursor up. With a memory journal its place is forgotten
	// and it holds nothing back any more.
	Close() error
}

// Lag is how far a cursor is behind.
type Lag struct {
	Events uint64
	// Seconds is the age of the oldest event that is not committed, 0 if none.
	Seconds float64
}

// Stats describes a journal.
type Stats struct {
	// Events and Bytes are what the journal holds; Capacity is the bound of Bytes.
	Events, Bytes, Capacity uint64
	// LastSeq is the sequence of the newest event, 0 if there was none.
	LastSeq uint64
	// Blocked is the number of Append calls that wait for room now.
	Blocked int
}

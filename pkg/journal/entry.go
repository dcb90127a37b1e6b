// Package journal is the ordered log between watching and delivery. informd appends every
// event before any sink gets it, and every sink reads the log through a separate cursor.
//
// The two sides share nothing else. Package dynwatch appends, and package deliver of the
// program reads. This package knows neither Kubernetes nor any sink.
//
// A [Journal] keeps the log in a directory. It is the ledger as well: a later process reads the last event of
// every object, the checkpoint of every target and the cursor of every sink from it. [OpenTemporary]
// opens one that ends with its process; a restart is a new snapshot. A program without a journal has a
// [Log] of its own.
package journal

import (
	"errors"
	"maps"
	"slices"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal/internal/wal"
)

// ErrClosed is the error of every method of a closed journal or cursor.
var ErrClosed = wal.ErrClosed

// ErrTooLarge says that a dead letter is larger than the free capacity for dead letters. The journal
// may take the same one without data.
var ErrTooLarge = errors.New("too large for the dead-letter queue")

// ErrFirstSnapshot is the error of a Rewind during the first snapshot of a cursor.
// That snapshot contains every object; the call can be repeated after it.
var ErrFirstSnapshot = errors.New("the first snapshot of the sink is not complete, and contains every object")

// Entry is an event with its sequence in the log.
type Entry struct {
	// Seq rises from 1 and is never reused; sequences may be missing. It is 0 for events that
	// this reader alone gets: the snapshot of a new reader, a gap about removed events. A
	// commit of 0 changes nothing, so a reader that restarts gets these events again. The last
	// event of the first snapshot has the sequence that completes it, which another event in
	// the log may have.
	Seq   uint64
	Event event.Event
	// Detached: this reader may lack the event before this one of the same object, because
	// the log has removed it, a snapshot replaced it, or a rewind repeats this one.
	Detached bool
}

// Start is the beginning of a cursor whose name is new to the journal.
type Start int

const (
	// FromSnapshot begins with the current state of every object; later events follow.
	FromSnapshot Start = iota
	// FromNow begins with the events that are appended after the call.
	FromNow
)

// Resnapshot is the content of a re-snapshot for one reader: see [Cursor.Request]. All its entries have Seq 0:
//
//   - the events of Begin
//   - the state of every existing object of these targets, as a Snapshot event with Replay and
//     Run, and with the position in the object's chain of the event that it repeats
//   - the events of End
//
// If an object has a newer event that Read has not returned yet, its state is skipped, because
// that event precedes End. So no state follows a newer one.
type Resnapshot struct {
	// Run is the run of all events.
	Run uint64
	// Begin and End have one event for each target. The targets are of one resource.
	Begin, End []event.Event
}

// Lag is the backlog of a cursor.
type Lag struct {
	// Events is the number of uncommitted events; during a first snapshot, that of all events in the log.
	Events uint64
	// Seconds is the age of the oldest uncommitted event, 0 without one.
	Seconds float64
}

// Stats describes a journal.
type Stats struct {
	// Events and Bytes are the content of the journal; Capacity is the limit of Bytes.
	Events, Bytes, Capacity uint64
	// LastSeq is the sequence of the newest event, 0 without one.
	LastSeq uint64
	// Blocked is the number of Append calls that wait for free space.
	Blocked int
	// Lost counts the times that the log lacked events that it had acknowledged.
	Lost uint64
	// Appended and Written are bytes since the start: of appended events and other records, and of
	// all writes to the disk, with those of compaction.
	Appended, Written uint64
	// Dropped counts, by namespace, the events that a journal short of space removed before
	// every cursor had passed them: of at most 32 namespaces separately.
	Dropped map[string]uint64
}

// Names in [Stats.Dropped] that are no names of namespaces.
const (
	ClusterScoped   = "(cluster-scoped)"
	OtherNamespaces = "(other)"
)

// maxDropped bounds the namespaces in [Stats.Dropped].
const maxDropped = 32

// addDropped adds counts of dropped events to others. It counts the first 32 namespaces
// separately, and all further ones as [OtherNamespaces].
func addDropped(to, more map[string]uint64) {
	for _, namespace := range slices.Sorted(maps.Keys(more)) {
		if _, known := to[namespace]; known || len(to) < maxDropped {
			to[namespace] += more[namespace]
		} else {
			to[OtherNamespaces] += more[namespace]
		}
	}
}

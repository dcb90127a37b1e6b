// Package journal is the ordered log between watching and delivery. informd appends every
// event before any sink gets it, and every sink reads the log through a separate cursor.
//
// The two sides share nothing else. Package dynwatch appends, and package deliver of the
// program reads. This package knows neither Kubernetes nor any sink.
//
// [Disk] keeps the log in a directory. It is the ledger as well: a later process reads the last event of
// every object, the checkpoint of every target and the cursor of every sink from it. [OpenTemporary]
// opens a [Disk] that ends with its process; a restart is a new snapshot.
package journal

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/informd/informd/pkg/event"
)

// ErrClosed is the error of every method of a closed journal or cursor.
var ErrClosed = errors.New("journal is closed")

// ErrTooLarge says that a dead letter is larger than the free capacity for dead letters. The journal
// may take the same one without data.
var ErrTooLarge = errors.New("too large for the dead-letter queue")

// ErrFirstSnapshot is the error of a Rewind or Resnapshot during the first snapshot of a cursor.
// That snapshot contains every object; the call can be repeated after it.
var ErrFirstSnapshot = errors.New("the first snapshot of the sink is not complete, and contains every object")

// Entry is an event with its sequence in the log.
type Entry struct {
	// Seq rises from 1 and is never reused; sequences may be missing. It is 0 for events that
	// this reader alone gets: the snapshot of a new reader, a gap about removed events. A
	// commit of 0 changes nothing, so a reader that restarts gets these events again.
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

// Journal is a [Log] that sinks can read. All methods may be called concurrently.
type Journal interface {
	Log
	// Open returns the cursor of that name, which must not be open. A known cursor resumes
	// after its last commit; a new one begins at start.
	Open(name string, start Start) (Cursor, error)
	// Stats returns the current statistics of the journal.
	Stats() Stats
	// Close closes the journal. Blocked calls return ErrClosed.
	Close() error
}

// Cursor is the position of one reader in the log. It belongs to one goroutine. Other
// goroutines may call Commit, Lag, Rewindable and Close.
type Cursor interface {
	Reader
	Keeper
	// Lag is the size and age of the uncommitted events.
	Lag() Lag
	// Close closes the cursor. The journal keeps its position. A temporary one keeps no events for it.
	Close() error
}

// Keeper is the part of a [Cursor] that a durable journal keeps for later processes.
type Keeper interface {
	ResnapshotKeeper
	Noter
	// Commit records that this reader needs no entry up to and including seq again. The
	// journal may remove entries that all cursors have passed. A seq below the committed one
	// changes nothing.
	Commit(ctx context.Context, seq uint64) error
}

// Reader is the part of a [Cursor] that moves through the log.
type Reader interface {
	Rewinder
	Resnapshotter
	// Read returns the next entries in order, at least one and at most limit. It blocks until
	// there is one. The entries are valid until the next Read. Their events are valid longer,
	// and shared: do not change them. Data is overwritten some time after its commit, or after
	// the cursor was closed; a later reader must copy it. Strings and Unchanged stay valid. Read
	// does not commit.
	Read(ctx context.Context, limit int) ([]Entry, error)
	// Reset moves the next Read to the first uncommitted entry. No Read may be in progress.
	// The only errors are that of ctx and ErrClosed.
	Reset(ctx context.Context) error
}

// Rewinder is the part of a [Cursor] that needs committed events.
type Rewinder interface {
	// Rewind moves the cursor back to the events that were appended at or after since, and
	// returns their number. They have a new Run and are Redelivered. Rewind does not repeat
	// Begin and Synced. ErrFirstSnapshot is one of its errors. No Read and no Commit may be
	// in progress.
	Rewind(ctx context.Context, since time.Time) (uint64, error)
	// Rewindable returns the error of a Rewind that is certain to fail now: ErrFirstSnapshot. It
	// does not block. So a caller need not end its Read and Commit in vain.
	Rewindable() error
}

// Resnapshotter is the part of a [Cursor] that needs the last event of every object.
type Resnapshotter interface {
	// Resnapshot makes Read return the states of all objects of some targets, interleaved
	// with the events of the log; see [Resnapshot]. It does not block. A later Resnapshot,
	// Reset and Rewind drop an incomplete one. Its errors are that of ctx, ErrClosed and
	// ErrFirstSnapshot. No Read may be in progress.
	Resnapshot(ctx context.Context, r Resnapshot) error
}

// ResnapshotKeeper is the part of a [Cursor] that keeps requests for later processes. Both
// methods may be called while a Read is in progress.
type ResnapshotKeeper interface {
	// KeepResnapshots replaces the kept requests. They are durable when it returns.
	KeepResnapshots(ctx context.Context, all []Resnapshot) error
	// KeptResnapshots returns the kept requests, without targets that are no longer watched.
	KeptResnapshots(ctx context.Context) ([]Resnapshot, error)
}

// Noter is the part of a [Cursor] that keeps notes about the reader. Its methods may be called
// concurrently with all others.
type Noter interface {
	// Note returns the last note, also of an earlier process, or an empty string.
	Note() string
	// SetNote replaces the note. It is durable a moment later, and after Close.
	SetNote(note string)
	// KeepGap keeps a gap event that this reader alone gets, for [History]. The newest few stay. It is
	// durable a moment later.
	KeepGap(e event.Event)
}

// Resnapshot is the content of a re-snapshot for one reader. All its entries have Seq 0:
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
	// every cursor had passed them. See [AddDropped].
	Dropped map[string]uint64
}

// Names in [Stats.Dropped] that are no names of namespaces.
const (
	ClusterScoped   = "(cluster-scoped)"
	OtherNamespaces = "(other)"
)

// maxDropped bounds the namespaces in [Stats.Dropped].
const maxDropped = 32

// AddDropped adds counts of dropped events to others. It counts the first 32 namespaces
// separately, and all further ones as [OtherNamespaces].
func AddDropped(to, more map[string]uint64) {
	for _, namespace := range slices.Sorted(maps.Keys(more)) {
		if _, known := to[namespace]; known || len(to) < maxDropped {
			to[namespace] += more[namespace]
		} else {
			to[OtherNamespaces] += more[namespace]
		}
	}
}

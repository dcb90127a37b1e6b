// Package journal is the ordered log between watching and delivering: every
// event is appended to it before any sink sees it, and every sink reads it
// through a cursor of its own, at its own pace.
//
// The journal is the only thing that the two sides share. Package dynwatch
// appends; the deliver package reads. This package knows neither Kubernetes nor
// any sink. [Memory] keeps the log in a bounded ring; a restart begins anew.
// Package jetstream keeps it in a JetStream stream, which is the ledger, too: what
// was announced of every object, and how far every target and sink has come, is
// read back from it at the next start.
package journal

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/informd/informd/pkg/event"
)

// ErrClosed is returned by every method of a journal or cursor that was closed.
var ErrClosed = errors.New("journal is closed")

// ErrTooLarge says that a dead letter is larger than what the journal's server takes.
var ErrTooLarge = errors.New("larger than the server's max_payload")

// ErrNotKept says that a cursor cannot repeat anything: it is neither a [Rewinder] nor
// a [Resnapshotter].
var ErrNotKept = errors.New("the journal does not keep what was delivered")

// ErrMoved says that a cursor begins again behind what was committed: the journal was
// opened again below it. A snapshot that [Resnapshotter] repeats has ended.
var ErrMoved = errors.New("the cursor begins again behind what was committed")

// Entry is an event with its place in the log.
type Entry struct {
	// Seq counts up from 1 without reuse; there may be holes. It is 0 for what
	// was put in for this reader alone (the snapshot of a new one, a gap about
	// what was trimmed): committing it changes nothing, so that a reader that
	// breaks off gets it again.
	Seq   uint64
	Event event.Event
	// Detached: this reader may not have got the event before this one of the same
	// object, as the log had dropped it or a snapshot came in its place; or it is read
	// again after a rewind.
	Detached bool
}

// Start says where a cursor begins whose name the journal does not know.
type Start int

const (
	// FromSnapshot begins with the present state of every object, then what follows. A
	// journal that keeps no state begins at the oldest event it holds.
	FromSnapshot Start = iota
	// FromNow begins with what is appended after the call.
	FromNow
)

// Ledger is the side of the log that is written: what happened to every object, and
// how far every target has come. All methods may be called concurrently.
type Ledger interface {
	// Append adds events in order, all of them, and returns when they are as
	// durable as the journal makes them. It blocks while the journal is full:
	// that is how a slow sink holds back the watches. If ctx ends first it
	// returns its error; then a leading part of the events may be in the log. It keeps
	// nothing of events but their strings and Gates: when it has returned, whatever it
	// returns, Data may be written over.
	Append(ctx context.Context, events []event.Event) error
	// Restore reads back what the journal holds about a target, before its first
	// Append. It calls last with the last event of each of the target's objects,
	// ends included, in no order and without Data; the event belongs to the
	// callee. It returns what was marked last: nil if nothing was, and not nil but
	// empty if it cannot be trusted, as the log has lost events that it had
	// acknowledged.
	Restore(ctx context.Context, target string, last func(e event.Event)) (mark []byte, err error)
	// Mark keeps a target's own note of how far it has come, in place of its
	// earlier one. Everything that the target appended before is durable then.
	Mark(ctx context.Context, target string, mark []byte) error
	// Last returns the last event of an object (the cluster, group, resource,
	// namespace and name of an event), with its Data, which stays as it is, and false
	// if the journal does not keep it.
	Last(ctx context.Context, of *event.Event) (event.Event, bool, error)
}

// Awaiter is a [Ledger] that keeps so many events of an object and no more, so that
// what is appended faster than readers commit pushes out what they have not read. A
// Ledger that is none drops nothing unread.
type Awaiter interface {
	// Await waits until the first of some events can be appended without that, for any
	// open cursor that commits something now and then, and returns how many of the
	// leading ones can: all of them at best. A cursor that stands still for some seconds
	// is not waited for any more until it commits again. Await is for history, which
	// comes as fast as it is read: what happens now must not wait for a reader. The
	// events of one object must be asked about and appended by one goroutine at a time.
	// If ctx ends first its error is returned; the others are those of Append.
	Await(ctx context.Context, events []event.Event) (n int, err error)
}

// Journal is the log. All methods may be called concurrently.
type Journal interface {
	Ledger
	// Open returns the cursor of that name, which must not be open already. A
	// known name goes on behind what was committed last; a new one begins at
	// start.
	Open(name string, start Start) (Cursor, error)
	// Stats describes the journal now.
	Stats() Stats
	// Close ends all blocked calls with ErrClosed.
	Close() error
}

// Cursor is one reader's place in the log. It belongs to one goroutine, but for
// Commit, Lag and Close, which may be called from others.
type Cursor interface {
	Reader
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

// Reader is the part of a [Cursor] that moves through the log.
type Reader interface {
	// Read returns the next entries in order, at least one and at most limit. It
	// blocks until there is one. The entries are valid until the next Read, their
	// events longer. These are shared: do not change them. What Data points to is
	// written over some time after it was committed, or the cursor was closed: who may
	// still read it then copies it. Strings and Gates stay. Reading does not move the
	// committed position.
	Read(ctx context.Context, limit int) ([]Entry, error)
	// Reset has Read begin behind what was committed: what was read beyond that comes
	// again. No Read may be under way. The only errors are ctx's and ErrClosed.
	Reset(ctx context.Context) error
}

// Rewinder is a [Cursor] of a journal that keeps what was committed.
type Rewinder interface {
	// Rewind moves the cursor back so that what was appended at or after since is
	// read again, with a Run of its own and as Redelivered, and returns how many
	// events that are. The beginnings and ends of snapshots are not read again. No Read
	// may be under way.
	Rewind(ctx context.Context, since time.Time) (uint64, error)
}

// Resnapshotter is a [Cursor] of a journal that keeps the last event of every object.
type Resnapshotter interface {
	// Resnapshot has Read return the state of all objects of some targets anew, in turn
	// with what it returns anyway; [Resnapshot] says how. It does not wait for
	// anything. One that is not through is dropped by another one, by Reset and by
	// Rewind. The errors are ctx's, ErrClosed, and that the reader is still at its first
	// snapshot. No Read may be under way.
	Resnapshot(ctx context.Context, r Resnapshot) error
}

// ResnapshotKeeper is a [Resnapshotter] of a journal that outlives the process. Both methods
// may be called while a Read is under way. A journal that does not keep requests returns
// [ErrNotKept].
type ResnapshotKeeper interface {
	// KeepResnapshots keeps requests in place of those that were kept before. They are
	// durable when it returns.
	KeepResnapshots(ctx context.Context, all []Resnapshot) error
	// KeptResnapshots returns the requests that were kept last, but for targets that are
	// not watched any more.
	KeptResnapshots(ctx context.Context) ([]Resnapshot, error)
}

// Noter is a [Cursor] of a journal that keeps a note for its reader. Its methods may be
// called concurrently with all others.
type Noter interface {
	// Note returns what was noted last, also by an earlier process; empty if nothing was.
	Note() string
	// SetNote replaces the note. It is durable some milliseconds later, and at Close.
	SetNote(note string)
}

// Resnapshot is what a [Resnapshotter] repeats, all of it with Seq 0: the records of
// Begin; the state of every object of their targets that exists, as snapshots that are
// marked as a replay, with the Run and in the place in the object's
// chain of the event that they repeat; and the records of End. An object that changes
// meanwhile, or has changed and Read has not come to that yet, is left out, as its own
// event comes before End. So no state follows a newer one.
type Resnapshot struct {
	// Run is that of all events.
	Run uint64
	// Begin and End have a record for each target. The targets are of one resource.
	Begin, End []event.Event
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
	// Lost counts the marks and cursors that could not be trusted, as the log had
	// lost events that it had acknowledged.
	Lost uint64
	// Oversize counts the events that are kept or delivered without their object,
	// as it was too large to keep.
	Oversize uint64
	// Foreign counts the messages in the log that are no events of ours.
	Foreign uint64
	// Unstorable counts the events that are not in the log, as its server never takes them.
	Unstorable uint64
	// Overtaken counts how often an [Awaiter] gave up waiting for readers.
	Overtaken uint64
	// Dropped counts the events that a journal short of space has removed before every
	// cursor had passed them, by namespace. See [AddDropped].
	Dropped map[string]uint64
}

// Names in [Stats.Dropped] that no namespace has.
const (
	ClusterScoped   = "(cluster-scoped)"
	OtherNamespaces = "(other)"
)

// maxDropped bounds the namespaces in [Stats.Dropped].
const maxDropped = 32

// AddDropped adds counts of dropped events to others. The first 32 namespaces are counted one
// by one, all further ones as [OtherNamespaces].
func AddDropped(to, more map[string]uint64) {
	for _, namespace := range slices.Sorted(maps.Keys(more)) {
		if _, known := to[namespace]; known || len(to) < maxDropped {
			to[namespace] += more[namespace]
		} else {
			to[OtherNamespaces] += more[namespace]
		}
	}
}

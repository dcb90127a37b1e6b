// Package event defines what informd emits: one change of one Kubernetes
// object, or a control record about a target, in a form that does not depend on
// where it came from (list, watch, reconcile) or where it goes (any sink).
//
// It holds the identity rules (ids, keys, subjects) and the wire forms:
// CloudEvents 1.0 JSON ([Event.AppendJSON]), binary mode ([Event.AppendHeaders]
// with Data as the body) and the bare object ([Event.Raw], [Event.AppendRaw]). It
// does not watch, store or deliver. It imports only the standard library, so that a consumer can use it
// to read informd's stream without taking on anything else.
package event

import "time"

// Op says what happened.
type Op string

// The operations. Snapshot, Added, Modified and Entered carry the object's new
// state; Deleted and Left end what informd knows of it; Begin, Synced, Gap and State
// are control events of a target and carry no object.
const (
	// Snapshot is an object that a snapshot found: it existed when informd first met
	// its resource, or it is announced again, see [Event.Reannounced].
	Snapshot Op = "snapshot"
	// Added is an object that came into being.
	Added Op = "added"
	// Modified is a new revision of a known object.
	Modified Op = "modified"
	// Deleted is the end of an object.
	Deleted Op = "deleted"
	// Entered is an existing object that newly matches the selection.
	Entered Op = "entered"
	// Left is an existing object that no longer matches the selection. No
	// deletion follows while it does not match.
	Left Op = "left"
	// Begin says that a snapshot of the target begins. Its Run is that of the snapshot.
	Begin Op = "begin"
	// Synced says that the target's snapshot of the same Run is complete: every object
	// that exists has had an event since its Begin.
	Synced Op = "synced"
	// Gap names a range of revisions in which something may be missing.
	Gap Op = "gap"
	// State says how the target is doing from now on: see [StateData].
	State Op = "state"
)

// Control reports whether the operation is about a target, not an object.
func (o Op) Control() bool { return o == Begin || o == Synced || o == Gap || o == State }

// Bounds reports whether the operation is the beginning or the end of a snapshot.
func (o Op) Bounds() bool { return o == Begin || o == Synced }

// Ends reports whether the operation ends what informd knows of an object.
func (o Op) Ends() bool { return o == Deleted || o == Left }

// Ops lists every operation, in the order in which documentation names them.
func Ops() []Op {
	return []Op{Snapshot, Added, Modified, Deleted, Left, Entered, Begin, Synced, Gap, State}
}

// Recovered says how much of a gap's range came out all the same.
type Recovered string

// The degrees of recovery.
const (
	// RecoveredKnown means all but objects born and dead inside the range.
	RecoveredKnown Recovered = "known"
	// RecoveredPartial means some of the range's revisions.
	RecoveredPartial Recovered = "partial"
	// RecoveredState means final states and deletions, no revision in between.
	RecoveredState Recovered = "state"
)

// GapInfo describes the range (From, To] of a [Gap]. From is the last revision
// that is known to be complete.
type GapInfo struct {
	From, To  uint64
	Reason    string // for example "expired", "rollback" or "trimmed"; README.md lists all
	Recovered Recovered
	// Trimmed is how many events the journal had dropped before this sink read
	// them, 0 unless that is the reason. Deletions among them follow all the same,
	// as the copies that the journal keeps of them. From and To are 0 then: the range is one
	// of the journal, see [TrimmedID].
	Trimmed uint64
}

// Event is one change of one object, or a control record. It is a value: nobody
// changes it or what Data points to, so that any number of sinks can share it. Whose
// memory Data is, and until when it is valid, says whoever hands the event over; the
// strings and Gates are for everybody to keep.
type Event struct {
	// ID is the same for the same change, whenever and however it is found:
	// see [ObjectID], [DeletedID], [SelectionID], [BeginID], [SyncedID] and [GapID].
	// Behind that it has Run and Epoch: see [Event.SetRun].
	ID string
	Op Op
	// Time is when informd observed the change. It is no order key: two events
	// of one object are ordered by their place in the stream alone.
	Time time.Time

	Cluster string
	// Target is the watch that found it: "<group or core>/<resource>[@<namespace>]".
	Target string

	Group, Version, Resource, Kind string

	// Namespace is empty for cluster-scoped objects. Namespace, Name and UID
	// are empty in control records.
	Namespace, Name, UID string

	// ResourceVersion is the revision of the change; for a deletion found by
	// reconcile, the revision at which the object was known to be gone.
	ResourceVersion uint64
	// PrevResourceVersion is the revision of the same UID that was journaled
	// before this one, 0 for the first.
	PrevResourceVersion uint64
	// Ordinal is 1 for the first event of this UID, 2 for the next, and so on;
	// 0 in control records.
	Ordinal uint64
	// Epoch is the number of the history that ResourceVersion belongs to, from 0. A new
	// one begins when etcd is restored to an older state, or when objects return after they
	// were announced as deleted. The higher epoch is newer; revisions compare within one
	// epoch only.
	Epoch uint64
	// Run is what the event belongs to, if it is not delivered once and by itself: a
	// snapshot, with its Begin and Synced, a round of `resync`, or what a sink is given once
	// more on request (see Redelivered). Runs of later requests and snapshots have higher numbers. 0 is
	// none.
	Run uint64
	// Replay marks what a reconcile found or what is announced anew, in contrast to
	// what was seen live.
	Replay bool
	// Redelivered marks what a sink is given once more on request, out of its order:
	// after a rewind, or from the dead letters. Newer events may have come before. It
	// shows on the wire as a Run that is no snapshot's.
	Redelivered bool

	// Data is the CloudEvents data: a JSON object on one line without
	// surrounding white space, built with [OpenData] and what closes it. Nil if
	// there is none.
	Data []byte

	// Gap is set if Op is Gap, and only then.
	Gap *GapInfo

	// Gates is what change gates have to know of the object, nil without any. It goes
	// into the journal and to no sink.
	Gates *Gates
}

// Gates is what the change gates of a resource have to know of an object: which of what
// they ask about has changed.
type Gates struct {
	// Hashes stand for what they ask about, and their order has no meaning: what is the
	// same in two events of an object has the same hash in both.
	Hashes []uint64
	// Unchanged are the gates to which the object is surely what it was in its event
	// before this one, each a hash of the gate's text.
	Unchanged []uint64
}

// Key names the object regardless of its UID, or the target of a control
// record. Events with the same key must be delivered in order.
func (e *Event) Key() string {
	if e.Op.Control() {
		return e.Target
	}
	return GroupOrCore(e.Group) + "/" + e.Resource + "/" + e.Namespace + "/" + e.Name
}

// Size is the number of bytes the event is accounted with in bounded buffers:
// its data and its strings, an estimate of what it keeps alive.
func (e *Event) Size() int {
	const fixed = 256 // the struct, its time and the slice header
	size := fixed + len(e.ID) + len(e.Namespace) + len(e.Name) + len(e.UID) + len(e.Data)
	if e.Gates != nil {
		size += 8 * (len(e.Gates.Hashes) + len(e.Gates.Unchanged))
	}
	return size
}

// Type is the CloudEvents type: "dev.informd.<op>".
func (e *Event) Type() string { return typePrefix + string(e.Op) }

const typePrefix = "dev.informd."

// GroupOrCore gives the core group, empty in the API, the name it has in
// targets, keys and subjects.
func GroupOrCore(group string) string {
	if group == "" {
		return "core"
	}
	return group
}

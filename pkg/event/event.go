// Package event defines the events of informd: one change of one Kubernetes object, or a
// control event of a target. The form is independent of the source (list, watch,
// reconcile) and of the sink.
//
// An [Event] is what a sink gets, and what a consumer reads from a message with [ParseJSON] or
// [ParseHeaders]. The wire forms are CloudEvents 1.0 JSON ([Event.AppendJSON]), binary mode
// ([Event.AppendHeaders] with Data as the body) and the bare object ([Event.Raw], [Event.AppendRaw]).
//
// No function blocks or keeps its arguments, and events may be read concurrently. The package does
// not watch, store or deliver. It needs no other module.
package event

import "time"

// Op is the operation of an event.
type Op string

// The operations. Snapshot, Added, Modified and Entered carry the object's new state.
// Deleted and Left are terminal events of an object. Begin, Synced, Gap and State are
// control events of a target and carry no object.
const (
	// Snapshot is an object that a snapshot found: it existed when informd first listed
	// its resource, or a re-snapshot announces it again ([Event.Reannounced]).
	Snapshot Op = "snapshot"
	// Added is a new object.
	Added Op = "added"
	// Modified is a new revision of a known object.
	Modified Op = "modified"
	// Deleted is the deletion of an object.
	Deleted Op = "deleted"
	// Entered is an existing object that starts to match the selection.
	Entered Op = "entered"
	// Left is an existing object that no longer matches the selection. While it does not
	// match, no deletion follows.
	Left Op = "left"
	// Begin is the beginning of a snapshot of the target, and has the snapshot's Run.
	Begin Op = "begin"
	// Synced is the end of the target's snapshot with the same Run: every existing object
	// has had an event since its Begin.
	Synced Op = "synced"
	// Gap declares a range of revisions in which events may be missing.
	Gap Op = "gap"
	// State is the new state of the target: see [Event.TargetState].
	State Op = "state"
)

// Control reports whether the operation concerns a target, not an object.
func (o Op) Control() bool { return o == Begin || o == Synced || o == Gap || o == State }

// Bounds reports whether the operation is the beginning or the end of a snapshot.
func (o Op) Bounds() bool { return o == Begin || o == Synced }

// Ends reports whether the operation is terminal: Deleted or Left.
func (o Op) Ends() bool { return o == Deleted || o == Left }

// Ops lists every operation, in the order of the documentation.
func Ops() []Op {
	return []Op{Snapshot, Added, Modified, Deleted, Left, Entered, Begin, Synced, Gap, State}
}

// Recovered is the part of a gap's range that informd delivered nevertheless.
type Recovered string

// The degrees of recovery.
const (
	// RecoveredKnown means everything except objects created and deleted inside the range.
	RecoveredKnown Recovered = "known"
	// RecoveredPartial means some revisions of the range.
	RecoveredPartial Recovered = "partial"
	// RecoveredState means final states and deletions, no revision in between.
	RecoveredState Recovered = "state"
)

// GapInfo describes the range (From, To] of a [Gap]. From is the last revision that is
// known to be complete.
type GapInfo struct {
	From, To uint64
	// Reason is for example "expired", "rollback" or "trimmed"; docs/events.md lists all.
	Reason    string
	Recovered Recovered
	// Trimmed is the number of events that the journal removed before this sink read them, 0
	// for other reasons. Deletions among them follow as copies that the journal keeps. From
	// and To are 0 then, because the range is one of the journal: "<sink>:<from>-<to>:trimmed" in the ID.
	Trimmed uint64
}

// Event is one change of one object, or a control event. It is a value: no code changes it
// or the bytes of Data, so that any number of sinks can share it. The function that hands
// the event over documents the owner of Data and how long Data is valid. Strings and
// Unchanged may be kept.
type Event struct {
	// ID is the same for the same change, however often informd finds the change:
	//
	//	<uid>:<resourceVersion>                    snapshot, added, modified
	//	<uid>:deleted                              deleted
	//	<uid>:<resourceVersion>:<op>:<revision>    left, entered: by the change of this revision
	//	<target>:<resourceVersion>:<op>            begin, synced
	//	<target>:<from>-<to>:gap                   gap; of one sink <sink>:<from>-<to>:trimmed and
	//	                                           <sink>:<milliseconds since 1970>:destination
	//	<target>:<microseconds since 1970>:state   state
	//
	// ":r<run>" and ":e<epoch>" follow if they are not 0: see [ParseID].
	ID string
	Op Op
	// Time is when informd observed the change. It is no order key: the position in the
	// stream alone orders two events of one object.
	Time time.Time

	// Cluster is the name of the cluster in informd's config.
	Cluster string
	// Target is the watch that found the change: "<group or core>/<resource>[@<namespace>]".
	Target string

	// Group is empty for the core group. Resource is the plural name, as in a URL. All four are
	// empty in a gap of a sink.
	Group, Version, Resource, Kind string

	// Namespace is empty for cluster-scoped objects. Namespace, Name and UID are empty in
	// control events.
	Namespace, Name, UID string

	// ResourceVersion is the revision of the change. For a deletion found by a reconcile, it
	// is the revision at which the object was known to be deleted.
	ResourceVersion uint64
	// PrevResourceVersion is the revision of the event before this one of the same UID, 0 for
	// the first event.
	PrevResourceVersion uint64
	// Ordinal is 1 for the first event of this UID, 2 for the next, and so on; 0 in control
	// events.
	Ordinal uint64
	// Epoch is the number of the history that ResourceVersion belongs to, from 0. A rollback
	// of etcd starts a new one, and so do objects that return after their announced deletion.
	// The higher epoch is newer; revisions compare within one epoch only.
	Epoch uint64
	// Run groups the events of a snapshot (with its Begin and Synced), or
	// of a redelivery to one sink (see Redelivered). Later runs of a target have
	// higher numbers. 0 is none.
	Run uint64
	// Replay marks an event that informd did not see live: a reconcile, a history walk or a
	// re-snapshot found it.
	Replay bool
	// Redelivered marks an event that a sink gets again on request, after a rewind or from
	// its dead letters. Newer events may have preceded it. On the wire it has a Run that is
	// not that of a snapshot.
	Redelivered bool

	// Data is the CloudEvents data: a JSON object on one line without surrounding white
	// space, with the object as "object". A deletion has "final" behind it: whether the object is
	// surely the last state. It may be nil. See [Event.Object] and [Event.Member].
	Data []byte

	// Gap is set if Op is Gap, and only then.
	Gap *GapInfo

	// Unchanged are the change filters of sinks that see no change since the object's event
	// before, by their ids (see package fieldpath). It is not nil in a [Modified] of a resource
	// for which the entry or a sink has a change filter. It goes into the journal and to no sink.
	Unchanged []uint64
}

const (
	textCount   = 10
	numberCount = 5
)

// Texts are the fields that are texts. The index of one is its number in the records of the journal, and stays:
// 10 to 15 and from 20 on are taken by other fields, and have nil here.
func (e *Event) Texts() [textCount]*string {
	return [...]*string{
		1: &e.Cluster, 2: &e.Target, 3: &e.Group,
		4: &e.Version, 5: &e.Resource, 6: &e.Kind, 7: &e.Namespace, 8: &e.Name, 9: &e.UID,
	}
}

// textHeaders are the headers of Texts, empty for those that are written in another way.
func textHeaders() [textCount]string {
	return [...]string{4: "ce-version", 5: "ce-resource", 6: "ce-kind", 7: "ce-namespace", 8: "ce-name", 9: "ce-uid"}
}

// Numbers are the fields that are numbers. The journal keeps their order: a new one comes last.
func (e *Event) Numbers() [numberCount]*uint64 {
	return [...]*uint64{&e.ResourceVersion, &e.PrevResourceVersion, &e.Ordinal, &e.Epoch, &e.Run}
}

// numberHeaders are the headers of Numbers.
func numberHeaders() [numberCount]string {
	return [...]string{"ce-resourceversion", "ce-prevresourceversion", "ce-ordinal", "ce-epoch", "ce-run"}
}

// Key names the object regardless of its UID, or the target of a control event. Events
// with the same key must be delivered in order.
func (e *Event) Key() string {
	if e.Op.Control() {
		return e.Target
	}
	return GroupOrCore(e.Group) + "/" + e.Resource + "/" + e.Namespace + "/" + e.Name
}

// Size is the size of the event for bounded buffers, in bytes: an estimate of the memory of
// its data and strings.
func (e *Event) Size() int {
	const fixed = 256 // the struct, its time and the slice header
	return fixed + len(e.ID) + len(e.Namespace) + len(e.Name) + len(e.UID) + len(e.Data) + 8*len(e.Unchanged)
}

// Type is the CloudEvents type: "dev.informd.<op>".
func (e *Event) Type() string { return typePrefix + string(e.Op) }

const typePrefix = "dev.informd."

// GroupOrCore returns the group, and "core" for the core group, which is empty in the API.
// Targets, keys and subjects use it.
func GroupOrCore(group string) string {
	if group == "" {
		return "core"
	}
	return group
}

package decide

import "github.com/informd/informd/pkg/event"

// Object says whose last event the log holds under a name.
type Object uint8

// The objects of a name.
const (
	// Unknown: the log holds no object of the name, or its last event is an end.
	Unknown Object = iota
	// Same is the observed object.
	Same
	// Other is another object, with another UID.
	Other
)

// Known is what the log holds of a name.
type Known struct {
	Object Object
	// RV is the revision of the object's last event. Newest is the newest revision at which it is
	// known to have existed: change filters skip states, which then have no event.
	RV, Newest uint64
	// Past is the revision up to which the log has all that happened to the name, 0 if that is the
	// object's own last event: an object of it has ended there, or its namespace was listed there.
	Past uint64
	// Left: the object is unknown, and the last event of the listed one is that it has left. It comes
	// before Past: it is set of an object that Past covers only if it may have returned since.
	Left bool
	// Restored: etcd was restored since the last event. Revisions do not compare with it.
	Restored bool
}

// Kind says how an object was observed.
type Kind uint8

// The kinds of observations.
const (
	// State is an ADDED or a MODIFIED frame of a watch.
	State Kind = iota
	// Gone is a DELETED frame.
	Gone
	// Listed is an object in a list.
	Listed
	// Absent is an object that the log holds and a list does not.
	Absent
)

// Seen is one observation of an object.
type Seen struct {
	Kind Kind
	// RV is the revision of the object, 0 if that of a listed one is unreadable; of an absent object
	// that of the list.
	RV uint64
	// Unreadable: no event can have the object. Its identity is known.
	Unreadable bool
}

// Rules is what a decision depends on beside the object.
type Rules struct {
	// Position is that of the target: what ended before it has ended in the log too.
	Position uint64
	// Selects: an object can enter the selection, or leave it, while it exists.
	Selects bool
	// Arrival is the event of an object that was unknown.
	Arrival event.Op
	// Repeat: a known object is to be announced, whether it has changed or not.
	Repeat bool
	// Edited: the selectors are others than before. What exists and is not selected has not changed:
	// the log forgets it.
	Edited bool
}

// Decision is what an observation means: at most two events.
type Decision struct {
	// Replaced: another object had the name, and its end was not observed. It is announced as
	// deleted first, at revision ReplacedAt.
	Replaced   bool
	ReplacedAt uint64
	// Op is the event that follows for the observed object, empty for none.
	Op event.Op
	// Ask: Op holds if the API server, asked for the name without the selector, does not have the
	// object: before the observed state, or at the revision of the end. If it has, IfExists holds,
	// empty for none.
	Ask      bool
	IfExists event.Op
	// Compare: Op holds if the content differs from that of the last event.
	Compare bool
}

// Decide decides what an observation of an object means, given what the log holds of its name.
func Decide(k Known, s Seen, r Rules) Decision {
	switch {
	case k.Left && s.Kind == Listed && !s.Unreadable:
		return Decision{Op: event.Entered}
	case s.Kind == Absent:
		return absent(k, s, r)
	case !s.newer(k.Past):
		return Decision{}
	case k.Object == Same && s.Kind == Gone:
		return end(k, s, r)
	case k.Object == Same:
		return state(k, s, r)
	case k.Object == Other && !k.Restored && !s.newer(k.RV):
		return Decision{}
	case k.Object == Other:
		d := first(s, r)
		// Before the observed object, so that a process that dies between the two events finds
		// the end in the log and does not take the other object for what ended there.
		d.Replaced, d.ReplacedAt = true, s.RV-1
		if s.RV == 0 {
			d.ReplacedAt = k.RV + 1
		}
		return d
	case s.Kind == Gone && s.RV < r.Position:
		return Decision{}
	default:
		return first(s, r)
	}
}

// newer reports whether the object was observed at a newer revision. A listed one whose revision could not
// be read is: the list is newer.
func (s Seen) newer(rv uint64) bool {
	return s.RV > rv || s.RV == 0 && s.Unreadable && s.Kind == Listed
}

// first decides about an object that the log does not hold.
func first(s Seen, r Rules) Decision {
	switch {
	case s.Unreadable:
		return Decision{}
	case s.Kind == Gone:
		return Decision{Op: event.Deleted, Ask: r.Selects} // what was never announced cannot leave
	case r.Selects:
		return Decision{Op: r.Arrival, Ask: true, IfExists: event.Entered}
	default:
		return Decision{Op: r.Arrival}
	}
}

// state decides about a state of the object that the log holds.
func state(k Known, s Seen, r Rules) Decision {
	switch {
	case s.Unreadable:
		return Decision{}
	case r.Repeat && (s.RV >= k.Newest || k.Restored):
		return Decision{Op: event.Snapshot}
	case k.Restored:
		return Decision{Op: event.Modified, Compare: s.RV == k.RV}
	case s.RV <= k.Newest:
		return Decision{}
	}
	return Decision{Op: event.Modified}
}

// end decides about the end of the object that the log holds.
func end(k Known, s Seen, r Rules) Decision {
	switch {
	case s.RV < k.Newest && s.RV != k.RV:
		return Decision{}
	case r.Selects:
		return Decision{Op: event.Deleted, Ask: true, IfExists: event.Left}
	}
	return Decision{Op: event.Deleted}
}

// absent decides about an object that the log holds and a list does not.
func absent(k Known, s Seen, r Rules) Decision {
	switch {
	case k.Object == Unknown, k.RV > s.RV && !k.Restored:
		return Decision{}
	case r.Selects && r.Edited:
		return Decision{Op: event.Deleted, Ask: true}
	case r.Selects:
		return Decision{Op: event.Deleted, Ask: true, IfExists: event.Left}
	}
	return Decision{Op: event.Deleted}
}

// Contradicts reports whether an answer at revision at, which shows an object at revision rv, cannot
// be of the history that the log has: it is not older than the log, and shows the known object at an
// older revision, or another one under its name that is not newer. All detection of rollbacks by
// objects goes through this rule.
func (k Known) Contradicts(rv, at uint64) bool {
	switch {
	case k.Object == Unknown || rv == 0 || at < k.Newest:
		return false
	case k.Object == Same:
		return rv < k.Newest
	default:
		return rv <= k.RV
	}
}

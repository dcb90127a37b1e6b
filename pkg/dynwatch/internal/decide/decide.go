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
	// Ended is the newest revision at which an object of the name has ended, as far as the watch
	// can bring that once more; 0 if none has.
	Ended uint64
}

// Kind says how an object was observed.
type Kind uint8

// The kinds of observations.
const (
	// State is an ADDED or a MODIFIED frame of a watch.
	State Kind = iota
	// Gone is a DELETED frame.
	Gone
)

// Seen is one observation of an object.
type Seen struct {
	Kind Kind
	RV   uint64
	// Unreadable: no event can have the object. Its identity is known.
	Unreadable bool
}

// Rules is what a decision depends on beside the object.
type Rules struct {
	// Position is that of the target: what ended before it has ended in the log too.
	Position uint64
	// Selects: an object can enter the selection, or leave it, while it exists.
	Selects bool
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
	// object: before the revision of a state, or at that of an end. If it has, IfExists holds,
	// empty for none.
	Ask      bool
	IfExists event.Op
}

// Decide decides what an observation of an object means, given what the log holds of its name.
func Decide(k Known, s Seen, r Rules) Decision {
	switch {
	case s.RV <= k.Ended:
		return Decision{}
	case k.Object == Same && s.Kind == Gone:
		return end(k, s, r)
	case k.Object == Same:
		return state(k, s)
	case k.Object == Other && s.RV <= k.RV:
		return Decision{}
	case k.Object == Other:
		d := first(s, r)
		d.Replaced, d.ReplacedAt = true, s.RV-1
		return d
	case s.Kind == Gone && s.RV < r.Position:
		return Decision{}
	default:
		return first(s, r)
	}
}

// first decides about an object that the log does not hold.
func first(s Seen, r Rules) Decision {
	switch {
	case s.Unreadable:
		return Decision{}
	case s.Kind == Gone:
		return Decision{Op: event.Deleted, Ask: r.Selects} // what was never announced cannot leave
	case r.Selects:
		return Decision{Op: event.Added, Ask: true, IfExists: event.Entered}
	default:
		return Decision{Op: event.Added}
	}
}

// state decides about a state of the object that the log holds.
func state(k Known, s Seen) Decision {
	if s.Unreadable || s.RV <= k.Newest {
		return Decision{}
	}
	return Decision{Op: event.Modified}
}

// end decides about the end of the object that the log holds.
func end(k Known, s Seen, r Rules) Decision {
	if s.RV < k.Newest && s.RV != k.RV {
		return Decision{}
	}
	d := Decision{Op: event.Deleted}
	if r.Selects {
		d.Ask, d.IfExists = true, event.Left
	}
	return d
}

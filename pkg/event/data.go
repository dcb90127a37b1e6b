package event

import "github.com/informd/informd/internal/form"

// TargetState returns the state and the reason in a [State] event, whose Data is
// {"state":"forbidden","reason":"..."}; the reason may be empty. Both are empty for other events.
func (e *Event) TargetState() (state, reason string) {
	if e.Op != State {
		return "", ""
	}
	return form.ParseStateData(e.Data)
}

// The members of a [Modified] event that say how the object has changed, where they are
// asked for: the object before, the list of changed paths, and a patch (RFC 6902) that
// makes of the object in the event of this uid before it, [Event.PrevResourceVersion],
// the object in this one.
const (
	MemberOld     = "oldObject"
	MemberChanged = "changed"
	MemberPatch   = "patch"
)

// Object returns the normalised object inside Data, or nil if there is none.
// The result aliases Data and must not be changed.
func (e *Event) Object() []byte {
	if e.Op.Control() {
		return nil
	}
	return form.Object(e.Data)
}

// Member returns the value of a member of Data beside the object, such as [MemberChanged] or
// "ownerChain", or nil. The result aliases Data and must not be changed.
func (e *Event) Member(name string) []byte {
	var value []byte
	e.eachMember(func(m form.Member) {
		if m.Name == name {
			value = m.Value
		}
	})
	return value
}

// DropChanges removes from Data the members that only a [Modified] event has. It makes new Data if there are any.
func (e *Event) DropChanges() {
	var kept []form.Member
	dropped := false
	rest := e.eachMember(func(m form.Member) {
		if m.Name == MemberOld || m.Name == MemberChanged || m.Name == MemberPatch {
			dropped = true
		} else {
			kept = append(kept, m)
		}
	})
	if dropped && rest != nil {
		e.Data = form.AddMembers(append([]byte{'{'}, rest...), kept...)
	}
}

func (e *Event) eachMember(visit func(form.Member)) (rest []byte) {
	if e.Op.Control() {
		return nil
	}
	return form.EachMember(e.Data, visit)
}

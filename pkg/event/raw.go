package event

// Raw is the body of the raw form: the bare object, or the data of a control event. The
// attributes are in headers ([Event.AppendHeaders]). It is nil if there is no object, as in
// a deletion of which only the identity is known. It aliases Data and must not be changed.
func (e *Event) Raw() []byte {
	if e.Op.Control() {
		return e.Data
	}
	return e.Object()
}

// AppendRaw appends the raw form for destinations without attributes, on one line without
// a newline: the bare object if the event has the current state. Terminal events and
// control events are whole events ([Event.AppendJSON]) with a specversion, because a bare
// object could not express them.
func (e *Event) AppendRaw(dst []byte) []byte {
	object := e.Object()
	if object == nil || e.Op.Ends() || e.Op.Control() {
		return e.AppendJSON(dst)
	}
	return append(dst, object...)
}

package event

// Raw is the body of the raw form, whose attributes travel beside it as headers
// ([Event.AppendHeaders]): the bare object, or the data of a control record. Nil if
// there is none, as in a deletion of which only the identity is known. It aliases
// Data and must not be changed.
func (e *Event) Raw() []byte {
	if e.Op.Control() {
		return e.Data
	}
	return e.Object()
}

// AppendRaw appends the raw form for where there is no place for attributes, on one
// line without a newline: the bare object, if the event tells what the object now
// is. What ends an object, and control records, would be lost or taken for that:
// they are whole events, as [Event.AppendJSON] has them, and have a specversion.
func (e *Event) AppendRaw(dst []byte) []byte {
	object := e.Object()
	if object == nil || e.Op.Ends() || e.Op.Control() {
		return e.AppendJSON(dst)
	}
	return append(dst, object...)
}

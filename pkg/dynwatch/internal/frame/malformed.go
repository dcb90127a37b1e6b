package frame

import (
	"bytes"
	"fmt"
)

// maxRaw bounds what a Malformed keeps of the object.
const maxRaw = 64 << 10

// Malformed describes an object that cannot be passed on, with as much of its
// identity as could be read: any of the fields that name it may be empty or 0.
type Malformed struct {
	Namespace, Name, UID string
	ResourceVersion      uint64
	// Reason says what is wrong. It quotes nothing of the object.
	Reason string
	// Size is the object's size in bytes, as far as it was found.
	Size int
	// Raw is a copy of the object, at most its first 64 KiB; nil with
	// [Options.Exact], as it may be a Secret, and where a shape says that not all of it may show.
	Raw []byte
}

// Error says which object it is and what is wrong with it.
func (m *Malformed) Error() string {
	return fmt.Sprintf("object %q in namespace %q (uid %q, resourceVersion %d, %d bytes): %s",
		m.Name, m.Namespace, m.UID, m.ResourceVersion, m.Size, m.Reason)
}

// malformed describes what p read of an object of the given bytes.
func (p *pass) malformed(raw []byte, reason string) *Malformed {
	o := p.object(nil)
	m := &Malformed{
		Namespace: o.Namespace, Name: o.Name, UID: o.UID, ResourceVersion: o.ResourceVersion,
		Reason: reason, Size: len(raw),
	}
	if !p.exact && !p.shape.changes() {
		m.Raw = bytes.Clone(raw[:min(len(raw), maxRaw)])
	}
	return m
}

// syntax says where the grammar of the object that begins at from is broken.
func (p *pass) syntax(from int) string {
	return fmt.Sprintf("invalid JSON: %s at byte %d", p.Fault, p.At-from)
}

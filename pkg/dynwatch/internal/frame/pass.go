package frame

import (
	"fmt"
	"math"
	"strconv"

	"github.com/informd/informd/internal/jsonend"
)

// lastApplied is the annotation that is cut out: it holds the object once more.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// member is a set of the members that are read or cut: no object may have one of
// them twice.
type member uint16

const (
	apiVersionMember member = 1 << iota
	kindMember
	metadataMember
	namespaceMember
	nameMember
	uidMember
	resourceVersionMember
	managedFieldsMember
	annotationsMember
	lastAppliedMember
	ownerReferencesMember
)

// pass is one way through one object: the scanner, and what it met.
type pass struct {
	jsonend.Scanner
	// exact says that nothing of metadata is cut out, and that apiVersion and kind are read.
	exact bool
	// shape is what the object is brought into, nil for none, in the buffers.
	shape   *Shape
	buffers buffers
	met     member
	// reason is why an object that keeps the grammar is refused all the same.
	reason string

	namespace, name, uid []byte // decoded; may alias data
	apiVersion, kind     []byte // the same
	resourceVersion      uint64
	// writer and controller are read where the shape asks for them: the newest of managedFields,
	// and the controller of ownerReferences. Both are empty if it is not known which one that is.
	writer, controller entry
}

// refuse notes the first reason. The pass goes on: the object's end must be found
// and its identity read.
func (p *pass) refuse(reason string) {
	if p.reason == "" {
		p.reason = reason
	}
}

func (p *pass) meet(m member, name string) {
	if p.met&m != 0 {
		p.refuse("the object has " + name + " twice")
	}
	p.met |= m
}

// run checks the object that begins at i and returns the index behind it.
func (p *pass) run(i int) int {
	if uint(i) >= uint(len(p.Data)) {
		return p.End()
	}
	if p.Data[i] != '{' {
		return p.Fail(i, "an object is expected")
	}
	end, _ := p.Walk(i, p.top)
	return end
}

func (p *pass) top(key []byte, value int) (end int, drop bool) {
	switch string(key) {
	case "apiVersion":
		p.meet(apiVersionMember, "apiVersion")
		return p.typeMember(value, &p.apiVersion), true
	case "kind":
		p.meet(kindMember, "kind")
		return p.typeMember(value, &p.kind), true
	case "metadata":
		p.meet(metadataMember, "metadata")
		if p.opens(value, '{') {
			end, _ = p.Walk(value, p.metadata)
			return end, false
		}
		p.refuse("the metadata is not an object")
	}
	return p.Value(value, 1), false
}

// typeMember reads the apiVersion or the kind of an exact object.
func (p *pass) typeMember(i int, field *[]byte) int {
	end := p.Value(i, 1)
	if p.exact && end != jsonend.None && p.Data[i] == '"' {
		*field = p.Decoded(i)
	}
	return end
}

func (p *pass) metadata(key []byte, value int) (end int, drop bool) {
	switch string(key) {
	case "namespace":
		p.meet(namespaceMember, "metadata.namespace")
		return p.identity(value, &p.namespace, "the namespace is not a string"), false
	case "name":
		p.meet(nameMember, "metadata.name")
		return p.identity(value, &p.name, "the name is not a string"), false
	case "uid":
		p.meet(uidMember, "metadata.uid")
		return p.identity(value, &p.uid, "the uid is not a string"), false
	case "resourceVersion":
		p.meet(resourceVersionMember, "metadata.resourceVersion")
		return p.revision(value), false
	case "managedFields":
		p.meet(managedFieldsMember, "metadata.managedFields")
		return p.managedFields(value), !p.exact
	case "ownerReferences":
		p.meet(ownerReferencesMember, "metadata.ownerReferences")
		return p.ownerReferences(value), false
	case "annotations":
		p.meet(annotationsMember, "metadata.annotations")
		if p.opens(value, '{') {
			before := p.met
			end, kept := p.Walk(value, p.annotations)
			cut := (p.met&^before)&lastAppliedMember != 0
			return end, cut && kept == 0 && !p.exact
		}
	}
	return p.Value(value, 2), false
}

func (p *pass) annotations(key []byte, value int) (end int, drop bool) {
	if string(key) != lastApplied {
		return p.Value(value, 3), false
	}
	p.meet(lastAppliedMember, "the annotation "+lastApplied)
	return p.Value(value, 3), !p.exact
}

// opens reports whether the value at i begins with c.
func (p *pass) opens(i int, c byte) bool { return i < len(p.Data) && p.Data[i] == c }

// identity reads a string into field, unless there is one: what came first stays,
// if only for the report about the object.
func (p *pass) identity(i int, field *[]byte, refusal string) int {
	end := p.Value(i, 2)
	switch {
	case end == jsonend.None:
	case p.Data[i] != '"':
		p.refuse(refusal)
	case *field == nil:
		*field = p.Decoded(i)
	}
	return end
}

// revision reads the resourceVersion: digits without a leading zero, as
// apimachinery's CompareResourceVersion has it, that fit 64 bits.
func (p *pass) revision(i int) int {
	var text []byte
	end := p.identity(i, &text, "the resourceVersion is not a string")
	rv, ok := parseRevision(text)
	if !ok && text != nil && string(text) != noRevision {
		p.refuse("the resourceVersion is not a decimal number")
	}
	if p.resourceVersion == 0 {
		p.resourceVersion = rv
	}
	return end
}

// noRevision is what some servers write for no revision: no change has it.
const noRevision = "0"

func parseRevision(text []byte) (rv uint64, ok bool) {
	if len(text) == 0 || text[0] == '0' {
		return 0, false
	}
	for _, c := range text {
		if c < '0' || c > '9' || rv > (math.MaxUint64-uint64(c-'0'))/10 {
			return 0, false
		}
		rv = rv*10 + uint64(c-'0')
	}
	return rv, true
}

// maxIdentity is how many bytes the namespace, the name and the uid of an object may have
// together. The API server does not bound every name (those of Roles, for example). An event
// has them twice in its headers, and each byte may take three there; nats-server takes 64 KiB
// of headers.
const maxIdentity = 8 << 10

// complete refuses an object without an identity, or with one that no event can carry.
func (p *pass) complete() {
	switch {
	case p.met&metadataMember == 0:
		p.refuse("the object has no metadata")
	case len(p.name) == 0:
		p.refuse("the object has no name")
	case len(p.uid) == 0:
		p.refuse("the object has no uid")
	case p.resourceVersion == 0:
		p.refuse("the object has no resourceVersion")
	case len(p.namespace)+len(p.name)+len(p.uid) > maxIdentity:
		p.refuse(fmt.Sprintf("namespace, name and uid have %d bytes, and the limit is %d", len(p.namespace)+len(p.name)+len(p.uid), maxIdentity))
	}
}

// Object is one normalised object. Its strings share one allocation, of a watch or a list
// with those of some other objects, and Data is another: nothing of it pins the buffer that
// the object was read into, and the strings do not pin Data. A caller that keeps a string for
// long clones it. For how long Data is valid see [Watched] and [Memory].
type Object struct {
	// ID is [form.ObjectID] in epoch 0.
	ID string
	// Namespace is empty for cluster-scoped objects; Name and UID never are.
	Namespace, Name, UID string
	// ResourceVersion is never 0.
	ResourceVersion uint64
	// Data is the data of an event, opened with [form.OpenData] and not closed
	// yet; its capacity suffices for [form.CloseData] or [form.CloseDeletedData], and no
	// more. It is nil if the object's namespace is not wanted, see
	// [Options.Wants].
	Data []byte
	// Actor is the last field manager according to managedFields (JSON), and Owner is the
	// controller. Each is nil if it is unknown or not requested, see [ShapeOptions].
	Actor []byte
	Owner *Owner
}

// object returns the object without its Data. Its strings are written into m, or have
// one block of their own: whoever keeps one of them keeps neither the read buffer nor
// Data.
func (p *pass) object(m *Memory) Object {
	if m == nil {
		m = new(Memory)
	}
	const digits = 20 // of the largest revision
	id := len(p.uid) + 1 + digits
	b := m.text.room(id + len(p.namespace) + len(p.name))
	from := b.Len()
	var number [digits]byte
	b.Write(p.uid)
	b.WriteByte(':')
	b.Write(strconv.AppendUint(number[:0], p.resourceVersion, 10))
	id = b.Len() - from
	b.Write(p.namespace)
	b.Write(p.name)
	block := b.String()[from:]
	return Object{
		ID:              block[:id],
		UID:             block[:len(p.uid)],
		Namespace:       block[id : id+len(p.namespace)],
		Name:            block[id+len(p.namespace):],
		ResourceVersion: p.resourceVersion,
		Actor:           p.actor(),
		Owner:           p.owner(),
	}
}

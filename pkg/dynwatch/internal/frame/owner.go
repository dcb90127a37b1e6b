package frame

import (
	"strings"

	"github.com/informd/informd/pkg/dynwatch/internal/jsonscan"
)

// maxOwner bounds the texts of a controller, in bytes. They are kept for as long as the
// object is there, and none that Kubernetes takes for an object of its own comes near.
const maxOwner = 1024

// Owner is what an object's ownerReferences say of its controller. No field is empty.
type Owner struct{ APIVersion, Kind, Name, UID string }

// owner is what a pass has read of metadata.ownerReferences.
type owner struct {
	met        bool
	controller reference // without a uid if there is none
	// unsure: something is not what it should be, so that it is not known which one
	// the controller is.
	unsure bool
}

// reference is one of ownerReferences: decoded texts, which may alias data, nil for what
// it has not, and the value of controller as it stands there.
type reference struct{ apiVersion, kind, name, uid, controller []byte }

// ownerReferences checks metadata.ownerReferences, and reads the controller if that is
// asked for.
func (p *pass) ownerReferences(i int) int {
	if !p.shape.AsksOwner() {
		return p.Value(i, 2)
	}
	p.owner.unsure = p.owner.unsure || p.owner.met
	p.owner.met = true
	if !p.opens(i, '[') {
		p.owner.unsure = true
		return p.Value(i, 2)
	}
	return p.Elements(i, p.reference)
}

// reference checks one of them.
func (p *pass) reference(i int) int {
	if !p.opens(i, '{') {
		p.owner.unsure = true
		return p.Value(i, 3)
	}
	var r reference
	good := true
	end, _ := p.Walk(i, func(key []byte, value int) (int, bool) {
		end := p.Value(value, 4)
		if end == jsonscan.None {
			return end, false
		}
		if field := r.field(key); field != nil {
			good = good && *field == nil && (p.Data[value] == '"' || field == &r.controller)
			if *field = p.Data[value:end]; field != &r.controller && good {
				*field = p.Decoded(value)
			}
		}
		return end, false
	})
	controls := string(r.controller) == "true"
	switch {
	case !good, controls && (!r.usable() || p.owner.controller.uid != nil):
		p.owner.unsure = true
	case controls:
		p.owner.controller = r
	}
	return end
}

// field is where the value of a key belongs, nil for nowhere.
func (r *reference) field(key []byte) *[]byte {
	switch string(key) {
	case "apiVersion":
		return &r.apiVersion
	case "kind":
		return &r.kind
	case "name":
		return &r.name
	case "uid":
		return &r.uid
	case "controller":
		return &r.controller
	}
	return nil
}

// usable reports whether the reference says all that it must, and no more.
func (r *reference) usable() bool {
	return len(r.apiVersion) > 0 && len(r.kind) > 0 && len(r.name) > 0 && len(r.uid) > 0 &&
		len(r.apiVersion)+len(r.kind)+len(r.name)+len(r.uid) <= maxOwner
}

// value is the controller, nil if there is none or it is not known. Its strings share
// one block of their own.
func (o *owner) value() *Owner {
	r := &o.controller
	if o.unsure || r.uid == nil {
		return nil
	}
	var b strings.Builder
	parts := [...][]byte{r.apiVersion, r.kind, r.name, r.uid}
	b.Grow(len(r.apiVersion) + len(r.kind) + len(r.name) + len(r.uid))
	var ends [len(parts)]int
	for i, part := range parts {
		b.Write(part)
		ends[i] = b.Len()
	}
	block := b.String()
	return &Owner{block[:ends[0]], block[ends[0]:ends[1]], block[ends[1]:ends[2]], block[ends[2]:]}
}

package dynwatch

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/informd/informd/pkg/dynwatch/internal/frame"
	"github.com/informd/informd/pkg/event"
)

// What an entry asks for beside the object: who wrote it last, which the normaliser reads
// before it cuts managedFields out, and the chain of its controllers, of which the
// object names the first one, and the indexes of owners.go know the others. Neither is
// part of the object: no gate, no hash and no id sees it.

// The names of the members.
const (
	actorMember = "fieldManager"
	ownerMember = "ownerChain"
)

// maxChain bounds a chain of controllers. None that Kubernetes makes has more than three.
const maxChain = 10

// link is one controller of a chain. Complete is false, and else left out, in the last
// one if the chain could not be followed further.
type link struct {
	Kind       string `json:"kind"`
	APIVersion string `json:"apiVersion"`
	Name       string `json:"name"`
	UID        string `json:"uid"`
	Complete   *bool  `json:"complete,omitempty"`
}

// members are those of an event beside the object, which is not nil.
func (t *target) members(ctx context.Context, op event.Op, o *frame.Object) []event.Member {
	var all []event.Member
	// What managedFields tell of an end is who wrote before it, and not who ended it.
	if op != event.Deleted && op != event.Left {
		all = t.addMember(all, actorMember, o.Actor)
	}
	return t.addMember(all, ownerMember, t.ownerOf(ctx, o))
}

// lastMembers are those of an end of which only the object's last event tells. The chain
// in it may be longer than what could be found now: with an object its controllers go.
func (t *target) lastMembers(last *event.Event) []event.Member {
	if !t.shape.Load().AsksOwner() {
		return nil
	}
	return t.addMember(nil, ownerMember, last.Member(ownerMember))
}

// addMember adds a member that there is, and that has nothing in it which is not to show.
func (t *target) addMember(all []event.Member, name string, value []byte) []event.Member {
	if value == nil || !t.shape.Load().Shows(value) {
		return all
	}
	return append(all, event.Member{Name: name, Value: value})
}

// ownerOf is the chain of the object's controllers as JSON, nil if it has none.
func (t *target) ownerOf(ctx context.Context, o *frame.Object) []byte {
	if o.Owner == nil {
		return nil
	}
	chain, complete := t.owners.chain(ctx, t.spec.namespace, o)
	links := make([]link, len(chain))
	for i, c := range chain {
		links[i] = link{Kind: c.Kind, APIVersion: c.APIVersion, Name: c.Name, UID: c.UID}
	}
	if !complete {
		links[len(links)-1].Complete = &complete
	}
	text, _ := json.Marshal(links) // strings can always be encoded
	return text
}

// controllerIn is the first controller that an event names, nil if it names none or is
// not asked.
func (t *target) controllerIn(last *event.Event) *frame.Owner {
	var links []link
	if !t.shape.Load().AsksOwner() {
		return nil
	}
	if err := json.Unmarshal(last.Member(ownerMember), &links); err != nil || len(links) == 0 {
		return nil
	}
	return &frame.Owner{APIVersion: links[0].APIVersion, Kind: links[0].Kind, Name: links[0].Name, UID: links[0].UID}
}

// chain is the object's controllers, the direct one first, and whether the last one has
// none. The indexes are of the scope, a namespace or, if it is empty, all of them.
func (o *owners) chain(ctx context.Context, scope string, of *frame.Object) (chain []*frame.Owner, complete bool) {
	for next := of.Owner; next != nil; {
		chain = append(chain, next)
		above, known := o.above(ctx, scope, of.Namespace, next)
		again := above != nil && slices.ContainsFunc(chain, func(c *frame.Owner) bool { return c.UID == above.UID })
		if !known || again || above != nil && len(chain) == maxChain {
			return chain, false
		}
		next = above
	}
	return chain, true
}

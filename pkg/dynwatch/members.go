package dynwatch

import (
	"context"

	"github.com/informd/informd/pkg/dynwatch/internal/frame"
	"github.com/informd/informd/pkg/dynwatch/internal/owner"
	"github.com/informd/informd/pkg/event"
)

// What an entry asks for beside the object: who wrote it last, which the normaliser reads
// before it cuts managedFields out, and the chain of its controllers, of which the
// object names the first one, and package owner finds the others. Neither is
// part of the object: no gate, no hash and no id sees it.

// The names of the members.
const (
	actorMember = "fieldManager"
	ownerMember = "ownerChain"
)

// members are those of an event beside the object, which is not nil.
func (t *target) members(ctx context.Context, op event.Op, o *frame.Object) []event.Member {
	var all []event.Member
	// What managedFields tell of an end is who wrote before it, and not who ended it.
	if op != event.Deleted && op != event.Left {
		all = t.addMember(all, actorMember, o.Actor)
	}
	return t.addMember(all, ownerMember, t.owners.Chain(ctx, t.spec.namespace, o))
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

// controllerIn is the first controller that an event names, nil if it names none or is
// not asked.
func (t *target) controllerIn(last *event.Event) *frame.Owner {
	if !t.shape.Load().AsksOwner() {
		return nil
	}
	return owner.First(last.Member(ownerMember))
}

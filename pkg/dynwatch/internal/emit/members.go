package emit

import (
	"context"

	"github.com/informd/informd/internal/form"
	"github.com/informd/informd/pkg/dynwatch/internal/frame"
	"github.com/informd/informd/pkg/event"
)

// What an entry asks for beside the object: who wrote it last, which the normaliser reads
// before it cuts managedFields out, and the chain of its controllers, of which the
// object names the first one, and [OwnerFinder] finds the others. Neither is
// part of the object: no change filter, no hash and no id sees it.

// The names of the members.
const (
	actorMember = "fieldManager"
	ownerMember = "ownerChain"
)

// members are those of an event beside the object, which is not nil.
func (w *Writer) members(ctx context.Context, op event.Op, o *frame.Object) []form.Member {
	var all []form.Member
	// What managedFields tell of an end is who wrote before it, and not who ended it.
	if op != event.Deleted && op != event.Left {
		all = w.addMember(all, actorMember, o.Actor)
	}
	return w.addMember(all, ownerMember, w.Owners.Chain(ctx, w.Namespace, o))
}

// lastMembers are those of an end of which only the object's last event tells. The chain
// in it may be longer than what could be found now: with an object its controllers go.
func (w *Writer) lastMembers(last *event.Event) []form.Member {
	if !w.Shape().AsksOwner() {
		return nil
	}
	return w.addMember(nil, ownerMember, last.Member(ownerMember))
}

// addMember adds a member that there is, and that has nothing in it which is not to show.
func (w *Writer) addMember(all []form.Member, name string, value []byte) []form.Member {
	if value == nil || !w.Shape().Shows(value) {
		return all
	}
	return append(all, form.Member{Name: name, Value: value})
}

// controllerIn is the first controller that an event names, nil if it names none or is
// not asked.
func (w *Writer) controllerIn(last *event.Event) *frame.Owner {
	if !w.Shape().AsksOwner() {
		return nil
	}
	return firstOwner(last.Member(ownerMember))
}

// fromLog opens the data of an event with an object as the log has it. It may have been
// written when other values were redacted.
func (w *Writer) fromLog(namespace, name string, object []byte) []byte {
	return append(form.OpenData(nil), w.Shape().Again(namespace, name, object)...)
}

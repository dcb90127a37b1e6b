package dynwatch

import (
	"context"

	"github.com/informd/informd/pkg/dynwatch/internal/target"
	"github.com/informd/informd/pkg/event"
)

// Known is what a target has announced of the objects that exist.
type Known struct {
	// Target is its name; Group, Resource and Namespace, empty for all, say what it covers.
	Target, Group, Resource, Namespace string
	// Everything up to this revision of the epoch is in the log.
	Epoch, ResourceVersion uint64
	Objects                []KnownObject
	// Err says why the target has no answer.
	Err error
}

// KnownObject is the last event of an object.
type KnownObject struct {
	Namespace, Name, UID   string
	Epoch, ResourceVersion uint64
}

// Known returns what the targets have announced, sorted by target. A target that is not
// live has an Err.
func (m *Manager) Known(ctx context.Context) []Known {
	m.mu.Lock()
	targets := m.sorted()
	m.mu.Unlock()
	return askAll(targets, func(r *running) Known { return r.known(ctx) })
}

func (r *running) known(ctx context.Context) Known {
	s := r.target.Spec
	k := Known{Target: r.target.Name, Group: s.Group, Resource: s.Resource, Namespace: s.Namespace}
	answered := make(chan struct{})
	answer := func(f *target.Target) {
		k.describe(f)
		close(answered)
	}
	if k.Err = request(ctx, r, r.target.Inquiries, answer); k.Err != nil {
		return k
	}
	<-answered // the loop answers at once
	return k
}

// describe notes all objects of a feed.
func (k *Known) describe(f *target.Target) {
	k.Epoch, k.ResourceVersion, k.Objects = f.Epoch, f.Cursor, make([]KnownObject, 0, f.Index.Len())
	for e := range f.Index.All() {
		k.Objects = append(k.Objects, KnownObject{
			Namespace: f.Index.Namespace(e), Name: f.Index.Name(e), UID: f.Index.UID(e), Epoch: e.Epoch, ResourceVersion: e.RV,
		})
	}
}

// Key names an object as [event.Event.Key] does.
func (k *Known) Key(o *KnownObject) string {
	e := event.Event{Group: k.Group, Resource: k.Resource, Namespace: o.Namespace, Name: o.Name}
	return e.Key()
}

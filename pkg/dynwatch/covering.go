package dynwatch

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/pkg/dynwatch/internal/spec"
	"github.com/informd/informd/pkg/event"
)

// Covering returns a function that reports whether the object or target of an event is in
// the wanted set: its resource, and its namespace by name. The function does not contact an
// API server, so it ignores discovery, permissions and labels. It may be called
// concurrently. If the wanted set is not valid, the error names every fault.
func Covering(wanted []Resource) (func(e *event.Event) bool, error) {
	set, err := newWantedSet(wanted, 0)
	if err != nil {
		return nil, fmt.Errorf("wanted resources: %w", err)
	}
	explicit := make(map[schema.GroupResource][]spec.Spec)
	for _, s := range set.explicit {
		explicit[s.GroupResource()] = append(explicit[s.GroupResource()], s)
	}
	return func(e *event.Event) bool {
		one := schema.GroupResource{Group: e.Group, Resource: e.Resource}
		all := explicit[one]
		if owner, ok := set.Owner(one); ok {
			all = set.as(owner)
		}
		return slices.ContainsFunc(all, func(s spec.Spec) bool { return s.Covers(e) })
	}, nil
}

// Bracket holds the control events around the re-snapshot of one target.
type Bracket struct{ Begin, End event.Event }

// Brackets returns what [Manager.Resnapshot] would put around the objects of each
// target of a resource, sorted by target, and a run that is like no other. The
// revision in them is the one that the target has come to. It emits nothing, and a
// target may be in any state. The error is an [ErrUnknownResource].
func (m *Manager) Brackets(resource string) (brackets []Bracket, run uint64, err error) {
	targets, run, err := m.toResnapshot(resource)
	for _, r := range targets {
		brackets = append(brackets, statusOf(r.target.Spec, r.target.Status).bracket(m.options.Cluster, run))
	}
	return brackets, run, err
}

func (s TargetStatus) bracket(cluster string, run uint64) Bracket {
	begin := event.Event{
		Time: time.Now(), Cluster: cluster, Target: s.Name, Group: s.Group, Version: s.Version, Resource: s.Resource, Kind: s.Kind,
		Epoch: s.Epoch, Replay: true,
	}
	end := begin
	begin.SetBound(event.Begin, run, s.ResourceVersion)
	end.SetBound(event.Synced, run, s.ResourceVersion)
	return Bracket{begin, end}
}

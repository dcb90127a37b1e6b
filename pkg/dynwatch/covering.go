package dynwatch

import (
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/pkg/dynwatch/internal/target"
	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
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
	explicit := make(map[schema.GroupResource][]target.Spec)
	for _, s := range set.explicit {
		explicit[s.GroupResource()] = append(explicit[s.GroupResource()], s)
	}
	return func(e *event.Event) bool {
		one := schema.GroupResource{Group: e.Group, Resource: e.Resource}
		all := explicit[one]
		if owner, ok := set.Owner(one); ok {
			all = set.as(owner)
		}
		return slices.ContainsFunc(all, func(s target.Spec) bool { return s.Covers(e) })
	}, nil
}

// ErrNotListed says that the first list of a target is not complete: the journal has only some of its
// objects, or none, and a snapshot of these would say that there are no others. A target that has no objects, as its
// resource is not served or forbidden, has no such list.
var ErrNotListed = errors.New("the first list is not complete, and announces every object; try again after it")

// Brackets returns a re-snapshot of a resource with a new run. It has the begin and synced
// events that [Manager.Resnapshot] would emit for each target, sorted by target, at the
// target's watch position. Brackets emits nothing. The error is an [ErrUnknownResource], or an [ErrNotListed].
func (m *Manager) Brackets(resource string) (journal.Resnapshot, error) {
	targets, run, err := m.toResnapshot(resource)
	all := journal.Resnapshot{Run: run}
	for _, r := range targets {
		s := statusOf(r.target.Spec, r.target.Status)
		if !s.Synced && (s.Objects > 0 || s.State != Waiting && s.State != Forbidden) {
			return all, fmt.Errorf("resnapshot %s: %w", s.Name, ErrNotListed)
		}
		m.bracket(&all, r)
	}
	return all, err
}

// Due returns re-snapshots, each of one resource with a new run, of the resources whose
// [Resource.ResnapshotEvery] comes round after one time and not after another. It does so at
// fixed times, which differ between resources, so the next call has to begin where this one ends. Targets
// without a first list are left out.
func (m *Manager) Due(after, until time.Time) (due []journal.Resnapshot) {
	m.mu.Lock()
	defer m.mu.Unlock()
	at := make(map[string]int)
	for _, r := range m.sorted() {
		s := r.target.Spec
		name := event.GroupOrCore(s.Group) + "/" + s.Resource
		if s.ResnapshotEvery == 0 || !r.target.Status.Synced.Load() || !comesRound(name, s.ResnapshotEvery, after, until) {
			continue
		}
		i, ok := at[name]
		if !ok {
			i, at[name] = len(due), len(due)
			due = append(due, journal.Resnapshot{Run: m.runs.Next()})
		}
		m.bracket(&due[i], r)
	}
	return due
}

// comesRound reports whether a period of a resource begins after one time and not after another.
func comesRound(resource string, every time.Duration, after, until time.Time) bool {
	h := fnv.New64a()
	_, _ = h.Write([]byte(resource)) // never fails
	phase := int64(h.Sum64() % uint64(every))
	round := func(at time.Time) int64 { return (at.UnixNano() - phase) / int64(every) }
	return round(until) > round(after)
}

// bracket adds a target to a re-snapshot.
func (m *Manager) bracket(all *journal.Resnapshot, r *running) {
	s := statusOf(r.target.Spec, r.target.Status)
	begin := event.Event{
		Time: time.Now(), Cluster: m.options.Cluster, Target: s.Name, Group: s.Group, Version: s.Version, Resource: s.Resource, Kind: s.Kind,
		Epoch: s.Epoch, Replay: true,
	}
	end := begin
	begin.SetBound(event.Begin, all.Run, s.ResourceVersion)
	end.SetBound(event.Synced, all.Run, s.ResourceVersion)
	all.Begin, all.End = append(all.Begin, begin), append(all.End, end)
}

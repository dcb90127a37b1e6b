package dynwatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/informd/informd/pkg/dynwatch/internal/target"
	"github.com/informd/informd/pkg/event"
)

// ErrUnknownResource says that no target is of the resource that was named.
var ErrUnknownResource = errors.New("unknown resource")

// ResnapshotResult is the outcome of one target's snapshot on request.
type ResnapshotResult struct {
	Target string
	// Run is that of all events that belong to it.
	Run uint64
	// Revision is the revision of the list, and Objects the number of announced objects.
	// Objects that changed during the re-snapshot are not counted: their own events came in
	// between.
	Revision uint64
	Objects  int
	// Err says why it did not come to its end.
	Err error
}

// Resnapshot makes the targets of a resource announce all of their objects, as snapshot
// events that are marked as replayed, between a begin and a synced event. All of them
// have the same run. The resource is named "<group>/<resource>" or "<resource>";
// the core group is "core". Resnapshot waits for the outcomes, sorted by target; a target
// that is not live has an Err with its state. If ctx ends first, started re-snapshots
// continue. The error is the context's, or an [ErrUnknownResource].
func (m *Manager) Resnapshot(ctx context.Context, resource string) ([]ResnapshotResult, error) {
	targets, run, err := m.toResnapshot(resource)
	if err != nil {
		return nil, err
	}
	results := askAll(targets, func(r *running) ResnapshotResult { return r.resnapshot(ctx, run) })
	if err := ctx.Err(); err != nil {
		return results, fmt.Errorf("resnapshot %s: stopped waiting; started snapshots continue: %w", resource, err)
	}
	return results, nil
}

// toResnapshot finds the targets, sorted by name, and a run that is like no other.
func (m *Manager) toResnapshot(resource string) (targets []*running, run uint64, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	of := make(map[string][]*running)
	var names []string
	for _, r := range m.sorted() {
		s := r.target.Spec
		name := event.GroupOrCore(s.Group) + "/" + s.Resource
		if of[name] == nil {
			names = append(names, name)
		}
		of[name] = append(of[name], r)
	}
	slices.Sort(names)
	var found []string
	for _, name := range names {
		if _, plural, _ := strings.Cut(name, "/"); name == resource || plural == resource {
			found = append(found, name)
		}
	}
	switch len(found) {
	case 0:
		return nil, 0, fmt.Errorf("resnapshot %q: %w; watched resources: %q", resource, ErrUnknownResource, names)
	case 1:
	default:
		return nil, 0, fmt.Errorf("resnapshot %q: %w: the name is ambiguous, add the group: %q", resource, ErrUnknownResource, found)
	}
	return of[found[0]], m.runs.Next(), nil
}

// resnapshot has the target's loop make a snapshot.
func (r *running) resnapshot(ctx context.Context, run uint64) ResnapshotResult {
	reply := make(chan target.ResnapshotResult, 1)
	made, err := ask(ctx, r, r.target.Resnapshots.Requests, target.ResnapshotRequest{Run: run, Reply: reply}, reply)
	return ResnapshotResult{Target: r.target.Name, Run: run, Revision: made.Revision, Objects: made.Objects, Err: cmp.Or(err, made.Err)}
}

package dynwatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/informd/informd/pkg/dynwatch/internal/frame"
	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
	"github.com/informd/informd/pkg/dynwatch/internal/recovery"
	"github.com/informd/informd/pkg/event"
)

// resnapshotAttempts is how often in a row a snapshot on request may fail to read
// objects before it is given up.
const resnapshotAttempts = 6

// ErrUnknownResource says that no target is of the resource that was named.
var ErrUnknownResource = errors.New("unknown resource")

// errInterrupted: the target ended during a snapshot on request.
var errInterrupted = errors.New("the target stopped before the snapshot was complete")

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

type resnapshotRequest struct {
	run uint64
	// insist: failures to read objects do not end it.
	insist bool
	reply  chan<- ResnapshotResult // has room for one
}

// resnapshot is a snapshot on request that is under way. It goes on over the ends of
// watches.
type resnapshot struct {
	resnapshotRequest
	listing listwatch.Listing
	objects int
	epoch   uint64
	// listed: the list was read to its end, which was at rv.
	listed bool
	rv     uint64
	// ahead is what the list held or lacked and the watch has yet to tell; blind says
	// that there is more, which is not known one by one.
	ahead []listwatch.Listed
	blind bool
	// against is what the list holds against the history that was announced.
	against recovery.Contradictions
	// failures counts those since the last object.
	failures int
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
	results := make([]ResnapshotResult, len(targets))
	var all sync.WaitGroup
	for i, r := range targets {
		all.Go(func() { results[i] = r.resnapshot(ctx, run) })
	}
	all.Wait()
	slices.SortFunc(results, func(a, b ResnapshotResult) int { return cmp.Compare(a.Target, b.Target) })
	if err := ctx.Err(); err != nil {
		return results, fmt.Errorf("resnapshot %s: stopped waiting; started snapshots continue: %w", resource, err)
	}
	return results, nil
}

// toResnapshot finds the targets and a run that is like no other.
func (m *Manager) toResnapshot(resource string) (targets []*running, run uint64, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	of := make(map[string][]*running)
	var names []string
	for _, r := range m.running {
		s := r.target.spec
		name := event.GroupOrCore(s.group) + "/" + s.resource
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
	targets = of[found[0]]
	return targets, m.newRun(targets), nil
}

// newRun returns a run that is like no other.
func (m *Manager) newRun(targets []*running) uint64 {
	run := m.runs.Next()
	for slices.ContainsFunc(targets, func(r *running) bool { return r.target.resnapshots.schedule.Begins(run) }) {
		run = m.runs.Next()
	}
	return run
}

// resnapshot has the target's loop make a snapshot.
func (r *running) resnapshot(ctx context.Context, run uint64) (result ResnapshotResult) {
	result = ResnapshotResult{Target: r.target.name, Run: run}
	reply := make(chan ResnapshotResult, 1)
	if result.Err = request(ctx, r, r.target.resnapshots.requests, resnapshotRequest{run: run, reply: reply}); result.Err != nil {
		return result
	}
	select {
	case result = <-reply: // the loop answers before it ends
	case <-ctx.Done():
		result.Err = ctx.Err()
	}
	return result
}

// resnapshots is where requests come from; never, while one is under way or the
// index is not whole.
func (t *resnapshotter) resnapshots() <-chan resnapshotRequest {
	if t.resnapshot != nil || !t.whole() {
		return nil
	}
	return t.requests
}

// beginResnapshot says that it begins. Everything up to the cursor was told.
func (t *resnapshotter) beginResnapshot(ctx context.Context, r resnapshotRequest) error {
	t.stopReader()
	t.resnapshot, t.repeating = &resnapshot{resnapshotRequest: r, epoch: t.Epoch}, true
	t.logger.Info("re-snapshot started", "run", r.run)
	if err := t.EmitBound(ctx, event.Begin, r.run, t.cursor, true); err != nil {
		return err
	}
	t.reannounce(ctx)
	return nil
}

// lister reads the objects of the selection from where the list stands.
func (t *resnapshotter) lister() func(ctx context.Context, take func(present) error) (uint64, error) {
	source, filter, l := t.source, t.coverage.Filter, &t.resnapshot.listing
	return func(ctx context.Context, take func(present) error) (uint64, error) {
		return source.List(ctx, l, source.Frames, func(o *frame.Object, bad *frame.Malformed) error {
			if bad != nil {
				if !filter.Covers(bad.Namespace) {
					return nil
				}
				return take(present{bad: bad})
			}
			// What comes to be covered just now was not rendered; it has entered.
			if !filter.Covers(o.Namespace) || len(o.Data) == 0 {
				return nil
			}
			return take(present{object: *o, there: true})
		})
	}
}

// resnapshotted announces a listed object anew if it is what was announced last. If
// it is older, the newer one was announced since the snapshot began; if it is newer,
// the watch is about to bring it.
func (t *resnapshotter) resnapshotted(ctx context.Context, p *present) error {
	s, o := t.resnapshot, &p.object
	if !p.there {
		return nil // it was rejected
	}
	s.failures = 0
	e := t.index.Get(o.Namespace, o.Name)
	s.against.Note(t.index, e, listwatch.ListedOf(o))
	switch {
	case t.isLast(o, e) && e.Run != s.run:
		s.objects++
		return t.announceAgain(ctx, o, e, s.run)
	case e != nil && t.index.Newest(e) >= o.ResourceVersion:
		e.Run = s.run
	case o.ResourceVersion > t.cursor || e != nil:
		s.expect(listwatch.ListedOf(o), t.limits.suspects)
		if e != nil {
			e.Run = s.run
		}
	}
	return nil
}

func (s *resnapshot) expect(d listwatch.Listed, most int) {
	if len(s.ahead) >= most {
		s.blind = true
		return
	}
	s.ahead = append(s.ahead, d)
}

// listed notes the end of the list. What it lacked is gone, as the watch is about to
// tell.
func (t *resnapshotter) listed(rv uint64) {
	s := t.resnapshot
	s.listed, s.rv = true, rv
	for e := range t.index.All() {
		if e.Run != s.run && e.RV <= rv {
			s.expect(listwatch.Listed{Namespace: t.index.Namespace(e), Name: t.index.Name(e), UID: t.index.UID(e)}, t.limits.suspects)
		}
	}
}

// listAnew has the list begin again after a failure: its revision may be compacted,
// its token one of another version. What was announced anew is not again. It reports
// false if it was given up.
func (t *resnapshotter) listAnew(ctx context.Context, err error) bool {
	s := t.resnapshot
	if s.failures++; s.failures >= resnapshotAttempts && !s.insist {
		t.answerResnapshot(err)
		t.reannounce(ctx)
		return false
	}
	s.restart(t.Epoch)
	return true
}

// restart begins the list again. What was seen in the one before and is gone since
// cannot be told any more.
func (s *resnapshot) restart(epoch uint64) {
	s.listing, s.listed, s.epoch, s.blind, s.against = listwatch.Listing{}, false, epoch, true, recovery.Contradictions{}
}

// concludeResnapshot says that it is complete, once the watch has told what the list
// was ahead of.
func (t *resnapshotter) concludeResnapshot(ctx context.Context) error {
	s := t.resnapshot
	if s == nil || !s.listed || !t.whole() {
		return nil
	}
	if s.epoch != t.Epoch { // revisions do not compare with those of the list
		s.ahead = nil
		s.restart(t.Epoch)
		t.reannounce(ctx)
		return nil
	}
	for len(s.ahead) > 0 && t.told(s, s.ahead[len(s.ahead)-1]) {
		s.ahead = s.ahead[:len(s.ahead)-1]
	}
	if (len(s.ahead) > 0 || s.blind) && t.cursor < s.rv {
		return nil
	}
	if err := t.EmitBound(ctx, event.Synced, s.run, s.rv, true); err != nil {
		return err
	}
	t.answerResnapshot(nil)
	t.reannounce(ctx)
	return nil
}

// told reports whether the watch has brought what the list was ahead of.
func (t *resnapshotter) told(s *resnapshot, d listwatch.Listed) bool {
	e := t.index.Get(d.Namespace, d.Name)
	if d.RV == 0 {
		return e == nil || !t.index.IsUID(e, d.UID) || e.RV > s.rv
	}
	return e != nil && t.index.Newest(e) >= d.RV || e == nil && t.cursor >= d.RV
}

// answerResnapshot tells whoever waits how it went.
func (t *resnapshotter) answerResnapshot(err error) {
	s := t.resnapshot
	t.resnapshot, t.repeating = nil, false
	if err != nil {
		t.logger.Warn("re-snapshot incomplete", "run", s.run, "err", err, "next", "run `informd resnapshot` again")
	} else {
		t.logger.Info("re-snapshot complete", "run", s.run, "count", s.objects)
	}
	if s.insist {
		t.marks.Soon() // which says no longer that objects are missing in the log
	}
	s.reply <- ResnapshotResult{Target: t.name, Run: s.run, Revision: s.rv, Objects: s.objects, Err: err}
}

// endReannouncing answers who still waits when the target ends.
func (t *resnapshotter) endReannouncing() {
	t.stopReader()
	if t.resnapshot != nil {
		t.answerResnapshot(errInterrupted)
	}
}

package target

import (
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/internal/display"
	"github.com/informd/informd/pkg/dynwatch/internal/catalog"
	"github.com/informd/informd/pkg/dynwatch/internal/index"
	"github.com/informd/informd/pkg/dynwatch/internal/status"
	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
)

// markOfNow is the checkpoint from which a later process would continue if this one ended now.
func (t *Target) markOfNow() checkpoint {
	m := checkpoint{
		RV: t.position.resume(), Synced: t.Status.Synced.Load(), Began: t.loop.first().began(), Run: t.loop.first().run(), Objects: t.Index.Len(),
		FirstOp: t.Discovery.FirstOp, Epoch: t.Writer.Epoch, Selection: t.Spec.Selection(),
		Custom: t.Discovery.notice.Custom.Load(),
		Proven: t.position.proven, HeldBack: t.Objects.heldBack,
	}
	if m.Mark = t.Marks.saved.Mark; t.Coverage.Known {
		m.Mark = t.Coverage.Mark()
	}
	if f := t.loop.first(); f != nil {
		m.Lost = f.lost
	}
	if t.Spec.Namespaces.Selector != "" && m.Hash == 0 {
		m.Objects = 0 // many may leave at once, in states from before the mark
	}
	return m
}

// restore makes the index what the log says was announced, and the position what
// was marked. It returns what the target begins with.
func (t *Target) restore(ctx context.Context) (state, error) {
	r, err := readLog(ctx, t.Name, t.Index, t.Log.Restore)
	t.Writer.Epoch = max(t.Writer.Epoch, r.Epoch)
	if r.Resource.Resource != "" {
		t.Writer.Resolved = catalog.Resolved{GVR: r.Resource, Kind: r.Kind}
	}
	if err != nil {
		return nil, err
	}
	shown := t.Writer.Record(event.State)
	last, _, err := t.Log.Last(ctx, &shown)
	if err != nil {
		return nil, fmt.Errorf("read the journal: %w", err)
	}
	name, _ := last.TargetState()
	t.shown.inLog = status.State(name)
	t.Status.Objects.Store(uint64(t.Index.Len()))
	t.Writer.Epoch = max(t.Writer.Epoch, r.mark.Epoch)
	t.Status.Epoch.Store(t.Writer.Epoch)
	if !r.marked && t.Index.Len() == 0 {
		t.position.set(r.mark.RV)
		nothing := new(listing) // is known
		if r.Lost {
			nothing.lost = reasonJournal
		}
		return nothing, nil
	}
	return t.startFrom(&r), nil
}

// startFrom decides what a target that knows objects begins with.
func (t *Target) startFrom(r *restored) state {
	m, ends := r.mark, r.Ends
	t.Objects.departed, t.Objects.heldBack = ends.left(), m.HeldBack
	switch lost := r.lacks(t.Index.Len()); {
	case lost != "":
		if lost == reasonJournal {
			t.Logger.Warn("journal lost events; re-snapshotting all objects", "reason", lost, "runbook", display.GapRunbook(lost))
		} else {
			t.Logger.Info("another target had objects of this one since; re-snapshotting all objects", "reason", lost)
		}
		// An answer from before the cursor is of another history. The newest event of the
		// log counts even if the mark knows a newer epoch, of which the log has lost all
		// events. The rollback is then found again, with an epoch that was not used.
		t.position.set(max(ends.newest(r.Epoch), t.Index.NewestOf(r.Epoch), m.RV))
		return &listing{lost: lost}
	case !m.Synced:
		t.Discovery.FirstOp, t.Marks.saved = m.FirstOp, m
		return &listing{from: m.Began, number: m.Run}
	default:
		return t.resumeAt(m, ends)
	}
}

// resumeAt continues at the checkpoint. Ends behind it are remembered, so that
// the watch, which brings them again, repeats nothing.
func (t *Target) resumeAt(m checkpoint, ends endings) state {
	t.Discovery.FirstOp, t.Marks.saved = m.FirstOp, m
	t.Discovery.unwatched.fail()
	if m.Custom {
		t.Discovery.notice.Custom.Store(true)
	}
	t.position.set(m.RV)
	t.position.proven, t.position.logged = m.Proven, t.Index.NewestOf(t.Writer.Epoch)
	t.position.clean, t.Audits.began = m.RV, m.RV
	for name, e := range ends {
		if e.after(&m) {
			t.position.ended[name] = e.RV
		}
	}
	t.Status.Synced.Store(true)
	switch {
	case m.Epoch < t.Writer.Epoch: // found by another target that had the objects since
		clear(t.position.ended) // revisions of another history
		return t.beginRecovery(reasonRollback)
	case m.Selection != t.Spec.Selection():
		return t.beginRecovery(reasonSelection)
	case m.Lost != "":
		t.Logger.Info("recovery of lost history continues", "reason", m.Lost, "from", m.RV)
		return recovering{lost: &loss{reason: m.Lost, from: m.RV, incomplete: m.Torn, resumed: true}}
	}
	return following{}
}

// ending is when the last object of a name ended. Left: it left the selection.
type ending struct {
	RV, Epoch uint64
	Left      bool
}

// after reports whether the object ended after a mark. Before a rollback revisions meant
// something else.
func (e ending) after(m *checkpoint) bool { return e.RV > m.RV && e.Epoch == m.Epoch }

// endings are the objects that ended, by key.
type endings map[string]ending

// since counts the objects that ended after the mark, also in later epochs.
func (ends endings) since(m *checkpoint) (n int) {
	for _, e := range ends {
		if e.RV > m.RV || e.Epoch > m.Epoch {
			n++
		}
	}
	return n
}

// newest is the newest revision of an epoch.
func (ends endings) newest(epoch uint64) (newest uint64) {
	for _, e := range ends {
		if e.Epoch == epoch {
			newest = max(newest, e.RV)
		}
	}
	return newest
}

// left are the keys of the objects that left the selection.
func (ends endings) left() map[string]struct{} {
	left := make(map[string]struct{})
	for name, e := range ends {
		if e.Left {
			left[name] = struct{}{}
		}
	}
	return left
}

// restored is what the log has of a target.
type restored struct {
	// mark is the last one. marked: there is one, which can be read and is not void.
	mark   checkpoint
	marked bool
	// Lost: the log has lost events since. The mark is void then, but for its epoch and
	// revision.
	Lost bool
	Ends endings
	// elsewhere is that of the [journal.Checkpoint].
	elsewhere func() int
	// Epoch is the newest of an event. If the log has lost events, that of the mark can be
	// newer.
	Epoch uint64
	// Resource and Kind are those of the newest event.
	Resource schema.GroupVersionResource
	Kind     string
}

// lacks is why the log may lack deletions of a target with so many objects, so that a list is to name all of them;
// "" if it does not.
func (r *restored) lacks(known int) string {
	m := &r.mark
	missing := m.Objects - known - r.Ends.since(m)
	switch {
	case !r.marked, m.Lost == reasonJournal:
		return reasonJournal
	case !m.Synced:
		return m.Lost // of such a list that was interrupted
	case missing <= 0:
		return ""
	case r.elsewhere != nil && missing <= r.elsewhere():
		return reasonSelection
	}
	return reasonJournal
}

// readLog makes the index what the log says was announced, and returns the rest of it.
func readLog(ctx context.Context, target string, x *index.Index, restore func(context.Context, string, func(event.Event)) (journal.Checkpoint, error)) (r restored, err error) {
	x.Reset()
	ends := make(endings)
	r.Ends = ends
	newest := uint64(0)
	kept, err := restore(ctx, target, func(e event.Event) {
		r.Epoch = max(r.Epoch, e.Epoch)
		if e.ResourceVersion >= newest {
			newest = e.ResourceVersion
			r.Resource = schema.GroupVersionResource{Group: e.Group, Version: e.Version, Resource: e.Resource}
			r.Kind = e.Kind
		}
		if e.Op.Ends() {
			ends[index.Key(e.Namespace, e.Name)] = ending{e.ResourceVersion, e.Epoch, e.Op == event.Left}
			return
		}
		one := x.Put(index.ID{Namespace: e.Namespace, Name: e.Name, UID: e.UID})
		one.RV, one.Ordinal, one.Epoch = e.ResourceVersion, e.Ordinal, uint32(e.Epoch)
	})
	if err != nil {
		return r, fmt.Errorf("read the journal: %w", err)
	}
	r.Lost, r.elsewhere = kept.Void, kept.Elsewhere
	if json.Unmarshal(kept.Mark, &r.mark) != nil { // as if there were none, and all objects are listed again
		r.mark = checkpoint{}
	} else if r.marked = !r.Lost; r.Lost {
		r.mark = checkpoint{Epoch: r.mark.Epoch, RV: r.mark.RV}
	}
	return r, nil
}

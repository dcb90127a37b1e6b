package dynwatch

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/pkg/dynwatch/internal/catalog"
	"github.com/informd/informd/pkg/dynwatch/internal/emit"
	"github.com/informd/informd/pkg/dynwatch/internal/index"
	"github.com/informd/informd/pkg/dynwatch/internal/recovery"
	"github.com/informd/informd/pkg/dynwatch/internal/selection"
	"github.com/informd/informd/pkg/event"
)

// markEvery is the least time between two marks of a target. What was appended
// since the last one is seen again after a crash, and known by the index.
const markEvery = time.Second

// mark is a target's note in the log of how far it has come.
type mark struct {
	// RV is the revision to watch from: everything up to it was appended.
	RV uint64 `json:"rv"`
	// Synced: the first list is complete. Began is a revision from before it if
	// it is not, 0 if it has not begun, and Run that of its events.
	Synced bool   `json:"synced"`
	Began  uint64 `json:"began,omitempty"`
	Run    uint64 `json:"run,omitempty"`
	// Objects is how many objects were known. The log holds the last event of each
	// of them for ever, be it its end: fewer are a sign that it was emptied.
	Objects int `json:"objects,omitempty"`
	// FirstOp is what the objects of the first list are.
	FirstOp event.Op `json:"firstOp,omitempty"`
	// Epoch counts rollbacks of the API server's storage.
	Epoch uint64 `json:"epoch,omitempty"`
	// Selection is what the objects were selected by. Dropped is how many of those that
	// the log has not ended were dropped when it was edited, as far as labels and fields
	// decided.
	Selection string `json:"selection,omitempty"`
	Dropped   int    `json:"dropped,omitempty"`
	// Mark is that of the namespaces that are covered by label.
	selection.Mark
	// Custom: it is a custom resource.
	Custom bool `json:"custom,omitempty"`
	// Lost is why history from RV on is being made up for by a list, if it is:
	// the index is ahead of RV then, in a way that no watch may be trusted with.
	// Torn: revisions are missing between the two.
	Lost string `json:"lost,omitempty"`
	Torn bool   `json:"torn,omitempty"`
	// Proven is up to where lists and frames have proven the stream, 0 if that is RV.
	Proven uint64 `json:"proven,omitempty"`
	// Resynced is up to when what fell due was announced anew, in nanoseconds since
	// 1970.
	Resynced int64 `json:"resynced,omitempty"`
}

// selection tells two specs apart that select other objects.
func (s spec) selection() string {
	text := s.labelSelector + "\n" + s.fieldSelector
	switch {
	case s.namespaces != (selection.Rule{}):
		return text + "\n" + s.namespaces.Names + "\n" + s.namespaces.Excluded + "\n" + s.namespaces.Selector
	case s.selects():
		return text
	default:
		return ""
	}
}

// position is the mark of now.
func (t *target) position() mark {
	m := mark{
		RV: t.resume(), Synced: t.status.synced.Load(), Began: t.first.began, Run: t.first.run, Objects: t.index.Len(),
		FirstOp: t.firstOp, Epoch: t.Epoch, Selection: t.spec.selection(), Dropped: t.dropped.marked(t.marked.Dropped),
		Resynced: t.again.resync.Position(), Custom: t.nudge.Custom.Load(),
		Proven: t.calm.proven,
	}
	if m.Mark = t.marked.Mark; t.coverage.Known {
		m.Mark = t.coverage.Mark()
	}
	if t.relogging() || t.first.lost {
		m.Lost = recovery.ReasonJournal
	}
	if m.Turning != "" {
		m.Objects = 0 // many may leave at once, in states from before the mark
	}
	return m
}

// markNow notes how far the target has come, unless it has not moved. While
// history is being made up for, while the end of an object is undecided, and while
// the index has events that the log has not taken, the mark stays where it was:
// whoever resumes there comes by all of it again.
func (t *target) markNow(ctx context.Context) error {
	t.markTimer.Stop()
	t.markDue = false
	now := t.position()
	if t.lost != nil || len(t.undecided) > 0 || t.Pending() || now == t.marked || !t.restored {
		return nil
	}
	return t.keepMark(ctx, now)
}

// markLost notes that history is being made up for, before the first event of it:
// a process that dies over it must not leave events behind that look as if they
// were all there was.
func (t *target) markLost(ctx context.Context) error {
	l, now := t.lost, t.position()
	// That the log has lost events is said until all objects are announced again.
	now.RV, now.Lost, now.Torn = l.From, cmp.Or(now.Lost, l.Reason), l.Torn
	if now == t.marked {
		return nil
	}
	return t.keepMark(ctx, now)
}

func (t *target) keepMark(ctx context.Context, now mark) error {
	text, err := json.Marshal(now)
	if err != nil {
		return fmt.Errorf("encode checkpoint: %w", err)
	}
	if err := t.options.Log.Mark(ctx, t.name, text); err != nil {
		return fmt.Errorf("%w: save checkpoint: %w", emit.ErrLog, err)
	}
	t.marked, t.markedAt = now, time.Now()
	return nil
}

// markSoon sees to it that what has changed is marked, but not too often. A target that has
// not marked for a while does so together with the others; one that marks all the time has
// its own time, as hundreds of busy ones would wait for each other's marks.
func (t *target) markSoon() {
	if t.markDue {
		return
	}
	t.markDue = true
	wait := markEvery
	if time.Since(t.markedAt) > 2*markEvery {
		wait = untilNext(markEvery)
	}
	t.markTimer.Reset(wait)
}

// markLast is markNow at the end of the loop, whose context is over.
func (t *target) markLast() {
	ctx, cancel := context.WithTimeout(context.Background(), markEvery)
	defer cancel()
	if err := t.markNow(ctx); err != nil {
		t.logger.Warn("checkpoint not saved; recent history is read again", "err", err)
	}
}

// ended is when the last object of a name ended, and its UID if it was deleted.
type ended struct {
	rv, epoch uint64
	deleted   string
}

func endedBy(e *event.Event) ended {
	end := ended{rv: e.ResourceVersion, epoch: e.Epoch}
	if e.Op == event.Deleted {
		end.deleted = e.UID
	}
	return end
}

// restore makes the index what the log says was announced, and the cursor what
// was marked.
func (t *target) restore(ctx context.Context) error {
	t.index.Reset()
	ends := make(map[string]ended)
	newest, others := uint64(0), false
	text, err := t.options.Log.Restore(ctx, t.name, func(e event.Event) {
		t.Epoch = max(t.Epoch, e.Epoch)
		others = others || e.Target != t.name
		if e.ResourceVersion >= newest {
			newest = e.ResourceVersion
			t.Resolved = catalog.Resolved{GVR: schema.GroupVersionResource{Group: e.Group, Version: e.Version, Resource: e.Resource}, Kind: e.Kind}
		}
		if e.Op.Ends() {
			ends[index.Key(e.Namespace, e.Name)] = endedBy(&e)
			return
		}
		one := t.index.Put(index.ID{Namespace: e.Namespace, Name: e.Name, UID: e.UID})
		one.RV, one.Ordinal = e.ResourceVersion, e.Ordinal
		if one.Epoch = e.Epoch; e.Reannounced() {
			one.Run = e.Run
		}
		if e.Gates != nil {
			t.index.SetHashes(one, e.Gates.Hashes)
		}
	})
	if err != nil {
		return fmt.Errorf("read the journal: %w", err)
	}
	told := t.Record(event.State)
	last, _, err := t.options.Log.Last(ctx, &told)
	if err != nil {
		return fmt.Errorf("read the journal: %w", err)
	}
	state, _ := last.TargetState()
	t.stateTold = State(state)
	t.restored = true
	t.status.objects.Store(uint64(t.index.Len()))
	var m mark
	lost := text != nil && len(text) == 0
	if lost {
		text = nil
	}
	if text != nil {
		if err := json.Unmarshal(text, &m); err != nil {
			t.logger.Error("checkpoint unreadable; reconciling from a list", "checkpoint", string(text), "err", err)
			text = nil
		}
	}
	t.again.resync.GoOn(m.Resynced)
	t.Epoch = max(t.Epoch, m.Epoch)
	t.status.epoch.Store(t.Epoch)
	if text == nil && t.index.Len() == 0 {
		t.first.lost = lost
		return nil // nothing is known: the first list
	}
	t.startFrom(m, text != nil, others && !lost, ends)
	return nil
}

// startFrom decides what a target that knows objects begins with. Marked says that there is
// a mark, others that the objects are of other targets.
func (t *target) startFrom(m mark, marked, others bool, ends map[string]ended) {
	switch {
	case !marked && others: // what was watched namespace by namespace, or the other way around
		t.distrust(recovery.ReasonSelection)
	case !marked, m.Lost == recovery.ReasonJournal, m.Synced && t.index.Len()+m.endedSince(ends) < m.Objects:
		t.logger.Warn("journal lost events; re-snapshotting all objects", "reason", recovery.ReasonJournal)
		t.first.lost = true
		t.setCursor(t.newestKnown(ends)) // a list from before that is of another history
	case !m.Synced:
		t.firstOp, t.first.began, t.first.run = m.FirstOp, m.Began, m.Run
		t.marked = m
		t.rememberEnded(ends)
	default:
		t.resumeAt(m, ends)
	}
}

// newestKnown is the newest revision of this epoch that the log has.
func (t *target) newestKnown(ends map[string]ended) (newest uint64) {
	for e := range t.index.All() {
		if e.Epoch == t.Epoch {
			newest = max(newest, e.RV)
		}
	}
	for _, e := range ends {
		if e.epoch == t.Epoch {
			newest = max(newest, e.rv)
		}
	}
	return newest
}

// endedSince counts the objects that ended after the mark.
func (m *mark) endedSince(ends map[string]ended) (n int) {
	for _, e := range ends {
		if e.rv > m.RV || e.epoch > m.Epoch {
			n++
		}
	}
	return n
}

// resumeAt goes on where the mark says. Ends behind it are remembered, so that
// the watch, which brings them again, repeats nothing.
func (t *target) resumeAt(m mark, ends map[string]ended) {
	t.firstOp, t.marked, t.unwatched = m.FirstOp, m, true
	if m.Custom {
		t.nudge.Custom.Store(true)
	}
	if m.Selection == t.spec.selection() && t.coverage.Filter != nil {
		// What fell out when the config was edited has no end in the log.
		for e := range t.index.All() {
			if !t.coverage.Filter.Named(t.index.Namespace(e)) {
				t.index.Remove(e)
			}
		}
	}
	t.status.objects.Store(uint64(t.index.Len()))
	t.setCursor(m.RV)
	t.calm.proven = m.Proven
	t.audits.clean, t.audits.began = m.RV, m.RV
	for name, e := range ends {
		// Before a rollback revisions meant something else.
		if e.rv > m.RV && e.epoch == m.Epoch {
			t.ended[name] = e.rv
		}
	}
	t.status.synced.Store(true)
	switch {
	case m.Selection != t.spec.selection():
		t.distrust(recovery.ReasonSelection)
	case m.Lost != "":
		t.logger.Info("recovery of lost history continues", "reason", m.Lost, "from", m.RV)
		t.lost = m.lostThen(ends)
	}
	t.dropped.unsifted = m.Dropped > 0 && (t.lost == nil || t.lost.Reason != recovery.ReasonSelection)
}

// lostThen is the stretch of history that was being made up for at the mark, with the
// deletions that were announced since.
func (m *mark) lostThen(ends map[string]ended) *recovery.Lost {
	l := &recovery.Lost{Phase: recovery.Reconciling, From: m.RV, Reason: m.Lost, Torn: m.Torn}
	for _, e := range ends {
		if e.deleted != "" && e.rv > m.RV && e.epoch == m.Epoch {
			l.NoteDeleted(e.deleted, e.rv)
		}
	}
	return l
}

// distrust has the target compare the index with a list before it watches.
func (t *target) distrust(reason string) {
	t.logger.Info("reconciling the journal from a list", "reason", reason)
	t.firstOp = event.Added
	t.status.synced.Store(true)
	t.lost = &recovery.Lost{Phase: recovery.Reconciling, From: t.cursor, Reason: reason}
}

package target

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/informd/informd/pkg/dynwatch/internal/emit"
	"github.com/informd/informd/pkg/dynwatch/internal/kube"
	"github.com/informd/informd/pkg/dynwatch/internal/selection"
	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
)

// checkpoint is a target's note in the log of how far it has come. Its fields are a form that is in
// logs already.
type checkpoint struct {
	// RV is the revision to watch from: everything up to it was appended.
	RV uint64 `json:"rv"`
	// Synced: the first list is complete. Began is a revision from before it if
	// it is not, 0 if it has not begun, and Run that of its events.
	Synced bool   `json:"synced"`
	Began  uint64 `json:"began,omitempty"`
	Run    uint64 `json:"run,omitempty"`
	// Objects is how many objects were known. The log holds the last event of each
	// of them for ever, be it its end: fewer are a sign that it was emptied. 0 if ends
	// since the mark may not be recognised as such.
	Objects int `json:"objects,omitempty"`
	// FirstOp is what the objects of the first list are.
	FirstOp event.Op `json:"firstOp,omitempty"`
	// Epoch counts rollbacks of the API server's storage.
	Epoch uint64 `json:"epoch,omitempty"`
	// Selection is what the objects were selected by.
	Selection string `json:"selection,omitempty"`
	// Mark is that of the namespaces that are covered by label.
	selection.Mark
	// Custom: it is a custom resource.
	Custom bool `json:"custom,omitempty"`
	// Lost is why history from RV on is being recovered by a list, if it is:
	// the index is ahead of RV then, in a way that no watch may be trusted with.
	// Torn: revisions are missing between the two.
	Lost string `json:"lost,omitempty"`
	Torn bool   `json:"torn,omitempty"`
	// Proven is up to where lists and frames have proven the stream, 0 if that is RV.
	Proven uint64 `json:"proven,omitempty"`
	// HeldBack: change filters have held back states, so that objects may be newer than their last event.
	HeldBack bool `json:"heldBack,omitempty"`
}

// markEvery is the least time between two marks of a target. Events that were appended
// since the last one are seen again after a crash, and known by the index.
const markEvery = time.Second

// marks are the checkpoints of a target in the log.
type marks struct {
	log    journal.Log
	target string
	// saved is the last one.
	saved checkpoint
	// due: timer runs until the next one is written. last is when the one before was.
	due   bool
	timer *time.Timer
	last  time.Time
}

// Stop stops the timer: a mark is written now, or none is needed.
func (m *marks) Stop() {
	m.timer.Stop()
	m.due = false
}

// soon has a mark be due, but not too often. A target without a mark for a while writes it
// together with the others. One that writes marks all the time has a separate time, as hundreds
// of busy ones would wait for each other's marks.
func (m *marks) soon() {
	if m.due {
		return
	}
	m.due = true
	wait := markEvery
	if time.Since(m.last) > 2*markEvery {
		wait = kube.UntilNext(markEvery)
	}
	m.timer.Reset(wait)
}

// uncount has the checkpoint count no objects before one ends at a revision that the checkpoint
// covers: servers without etcd send such deletions. A restart counts later ones only, and would
// miss the object.
func (m *marks) uncount(ctx context.Context, rv, epoch uint64) error {
	if m.saved.Objects == 0 || rv > m.saved.RV || epoch > m.saved.Epoch {
		return nil
	}
	now := m.saved
	now.Objects = 0
	return m.save(ctx, now)
}

// save saves a checkpoint.
func (m *marks) save(ctx context.Context, now checkpoint) error {
	text, err := json.Marshal(now)
	if err != nil {
		return fmt.Errorf("encode checkpoint: %w", err)
	}
	if err := m.log.Mark(ctx, m.target, text); err != nil {
		return fmt.Errorf("%w: save checkpoint: %w", emit.ErrLog, err)
	}
	m.saved, m.last = now, time.Now()
	return nil
}

// lastMarkTimeout bounds the save of the checkpoint at the end.
const lastMarkTimeout = time.Second

// markNow saves the checkpoint of now, unless it has not moved. It keeps the old one while
// history is being recovered, and while the log lacks events of the index: a process that resumes there reads all of it again.
func (t *Target) markNow(ctx context.Context) error {
	t.Marks.Stop()
	now := t.markOfNow()
	if t.loop.loss() != nil || t.Writer.Pending() || now == t.Marks.saved || !t.loop.restored() {
		return nil
	}
	return t.Marks.save(ctx, now)
}

// markLost notes in the checkpoint that history is being recovered, before the first event of
// it. Otherwise the events of a process that dies meanwhile would look complete. The checkpoint
// counts the objects of the index, so their events are appended first.
func (t *Target) markLost(ctx context.Context) error {
	if err := t.Writer.Flush(ctx); err != nil {
		return err
	}
	l, now := t.loop.loss(), t.markOfNow()
	// That the log has lost events is said until all objects are announced again.
	now.RV, now.Lost, now.Torn = l.from, cmp.Or(now.Lost, l.reason), l.incomplete
	if l.reason == reasonRollback || l.reason == reasonSelection {
		now.Objects = 0 // the revisions of deletions in the new history can be below now.RV; the log forgets what is excluded
	}
	if now == t.Marks.saved {
		return nil
	}
	return t.Marks.save(ctx, now)
}

// markLast is markNow at the end of the loop, whose context is over.
func (t *Target) markLast() {
	ctx, cancel := context.WithTimeout(context.Background(), lastMarkTimeout)
	defer cancel()
	if err := t.markNow(ctx); err != nil {
		t.Logger.Warn("checkpoint not saved; recent history is read again", "err", err)
	}
}

// beginRecovery has a target whose first list is in the log compare all objects with a list before it watches.
func (t *Target) beginRecovery(reason string) recovering {
	t.Logger.Info("reconciling the journal from a list", "reason", reason)
	t.Discovery.FirstOp = event.Added
	t.Status.Synced.Store(true)
	return recovering{lost: &loss{reason: reason, from: t.position.rv}}
}

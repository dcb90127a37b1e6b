package target

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/watch"

	"github.com/informd/informd/internal/display"
	"github.com/informd/informd/pkg/dynwatch/internal/emit"
	"github.com/informd/informd/pkg/dynwatch/internal/frame"
	"github.com/informd/informd/pkg/dynwatch/internal/index"
	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
	"github.com/informd/informd/pkg/dynwatch/internal/selection"
	"github.com/informd/informd/pkg/dynwatch/internal/status"
	"github.com/informd/informd/pkg/event"
)

// The namespaces that a target selects by their labels: one watch reads the
// Namespaces for all targets (package selection), and each target watches its resource in all
// namespaces and filters. The two watches have no common order, so that a change of a Namespace
// takes effect between two frames of the target's own stream.
//
// A namespace begins to match, at revision c of the Namespaces. The target lists it at exactly its
// position, and the objects enter. If etcd has compacted that revision, or the log has later events of the
// namespace, the target lists it now, and ignores its frames up to that list. Frames of it can have been
// filtered out after c, since the watch of the Namespaces was behind: of each namespace the target notes
// the newest one. A gap (selection) declares what is missing.
//
// A namespace no longer matches, at revision c. The target lists it now. Objects that are as the
// log has them leave at once. Frames of the namespace count until the watch has passed c, and with
// that the rest leaves or is deleted.
//
// A restart. The checkpoint has a hash of the names of the namespaces that match. It is 0
// from before the first event of a flip until the watch has passed all of it. With another hash than
// that of now, a recovery compares all objects with a list at the newest revision in the log, behind which the
// watch goes on, or of now if etcd has compacted that. Namespaces in the log that do not match leave
// after that, as above. A gap (selection) declares the time since log and Namespaces were in line, and another
// one the time until these have left.
//
// Namespaces in a store of their own have other revisions. Then a namespace that begins to match is
// listed now, with a gap from the beginning, and frames of one that no longer matches count until its list.
//
// So no deletion and no last state is lost. Close to a change of a Namespace, an object that is new
// can have entered, and one that existed can be added. After a restart, one that was deleted before its
// namespace matched can enter and end.

// errReopen says that the watch is to be opened again: a frame was read, and not rendered, before its
// namespace matched.
var errReopen = errors.New("the watch is opened again for a namespace that matches")

// beginNamespaces begins with the namespaces that match now. It returns false if the Namespaces were not listed yet.
func (t *Target) beginNamespaces(ctx context.Context, then state) (begun bool, next state, err error) {
	c := &t.Coverage
	ahead := t.position.logged
	for _, rv := range t.position.ended {
		ahead = max(ahead, rv)
	}
	begun, err = c.Begin(t.Timing.Timing, t.position.rv, ahead)
	switch {
	case err != nil:
		return false, then, fmt.Errorf("namespaceSelector: %w", err)
	case !begun:
		t.shown.set(status.Syncing, "waiting for the first list of namespaces")
		return false, then, nil
	}
	if err := c.FindStores(ctx, t.Discovery.Source.Revision); err != nil {
		return false, then, err
	}
	if c.Apart {
		t.Logger.Info("namespaces have a separate store; matched namespaces are listed",
			"next", "none: a gap declares the changes that were filtered out before")
	}
	c.Known = true
	// An edit of the selector compares all objects anyway.
	if m := &t.Marks.saved; m.Synced && m.Selection == t.Spec.Selection() && !c.Matched(m.Mark) {
		c.Suspect(m.Mark, t.Objects.inLog())
		if !t.loop.lostBy(reasonRollback) {
			r := t.beginRecovery(reasonSelection)
			r.lost.oldest = max(t.position.rv, ahead) // an earlier list would have older states than the log
			then = r
		}
	}
	return true, then, nil
}

// filtersFrame reports whether no event follows a frame: its namespace does not match, or a list has shown
// its state. It also passes everything before the frame.
func (t *Target) filtersFrame(ctx context.Context, w *frame.Watched) (bool, error) {
	c := &t.Coverage
	if c.Filter == nil {
		return false, nil
	}
	namespace, name, rv := w.Namespace, w.Name, w.ResourceVersion
	if w.Err != nil {
		namespace, name, rv = w.Err.Namespace, w.Err.Name, w.Err.ResourceVersion
	}
	if w.Kind == watch.Bookmark {
		return false, t.passed(ctx, rv)
	}
	if namespace == "" {
		return false, nil // whose it is could not be read
	}
	if err := t.passed(ctx, max(rv, 1)-1); err != nil {
		return false, err
	}
	filtered := c.Filters(namespace, rv)
	_, leaves := c.Leaving(namespace)
	switch {
	case filtered:
		return true, nil
	case leaves && w.Kind != watch.Added && t.Index.Get(namespace, name) == nil:
		c.Skip(namespace, rv) // it has left already
		return true, nil
	case w.Err == nil && w.Data == nil:
		return false, errReopen
	default:
		return false, nil
	}
}

// passed notes that the stream has brought everything up to rv: what is left of
// namespaces that no longer match leaves with that.
func (t *Target) passed(ctx context.Context, rv uint64) error {
	left, moved := t.Coverage.Pass(rv)
	if len(left) > 0 {
		var gone []*index.Entry
		for e := range t.Index.All() {
			if _, leaves := left[t.Index.Namespace(e)]; leaves {
				gone = append(gone, e)
			}
		}
		for _, e := range gone {
			l := left[t.Index.Namespace(e)]
			if err := t.Objects.endOutside(ctx, e, l.Until, l.Cause, false); err != nil {
				return err
			}
		}
		for namespace := range left {
			t.Coverage.Left(namespace)
		}
	}
	if !moved {
		return nil
	}
	t.Marks.soon()
	return t.Writer.Flush(ctx)
}

// reselect applies changes of the Namespaces, between two frames.
func (t *Target) reselect(ctx context.Context) error {
	c := &t.Coverage
	if !c.Due || !c.Known {
		return nil
	}
	now, err := c.Look()
	if err != nil || now == nil {
		return err
	}
	if len(now.Match)+len(now.Unmatch) > 0 {
		t.Audits.abandon()
		err := t.flip(ctx, now)
		if err = errors.Join(err, t.declareFlips(ctx), t.Writer.Flush(ctx)); err != nil {
			if listwatch.Expired(err) {
				// It was a list that took too long, and not the watch.
				err = fmt.Errorf("list a namespace: %v", err) //nolint:errorlint // see above
			}
			return err
		}
		t.Logger.Debug("namespaces matched or unmatched", "matched", len(now.Match), "unmatched", len(now.Unmatch))
	}
	if c.Settle(now) {
		t.Marks.soon()
	}
	return t.passed(ctx, t.position.resume())
}

// flip matches and unmatches namespaces. The mark says so before the first event of it.
func (t *Target) flip(ctx context.Context, now *selection.Viewed) error {
	t.Coverage.Flipping()
	if err := t.Writer.Flush(ctx); err != nil {
		return err
	}
	if t.Marks.saved.Hash != 0 {
		if err := t.Marks.save(ctx, t.markOfNow()); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(now.Unmatch)) {
		if err := t.unmatch(ctx, name, now.Unmatch[name].At); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(now.Match)) {
		if err := t.match(ctx, name, now.Match[name]); err != nil {
			return err
		}
	}
	return nil
}

// match begins with a namespace that matches: its objects enter as a list at the position shows them, or one of now
// if there is none, since all of the target waits meanwhile.
func (t *Target) match(ctx context.Context, name string, f selection.Flip) error {
	c := &t.Coverage
	at, missed := c.Start(name, f, t.position.rv)
	switch l, leaving := c.Leaving(name); {
	case c.Apart: // of another store
		f.After = 0
	case l.Broken != 0 && l.Broken < f.After: // not all has entered since the flip before
		f.After, missed = min(l.Broken, t.position.rv), true
	case leaving: // its frames have counted until now
		f.After = min(f.After, t.position.rv)
	}
	c.Cover(name)
	rv, err := t.enter(ctx, name, at, f.At)
	if at != 0 && err != nil && !isLoss(err) && !errors.Is(err, emit.ErrLog) && ctx.Err() == nil {
		rv, err = t.enter(ctx, name, 0, f.At)
	}
	if err != nil {
		_, entered := t.Objects.inLog()[name]
		c.Uncover(name, f, selection.Leaving{Broken: max(f.After, 1)}, entered)
		return err
	}
	if missed || rv > t.position.rv {
		t.flipGap.widen(f.After, max(rv, t.position.rv))
	}
	c.Began(name, rv, t.position.rv)
	return nil
}

// enter has the objects of a namespace enter as a list at a revision shows them. It returns the list's revision.
func (t *Target) enter(ctx context.Context, namespace string, at, cause uint64) (uint64, error) {
	p := t.Objects.NewPass(Pass{Namespace: namespace, Newcomer: event.Entered, Cause: cause})
	rv, err := t.list(ctx, p, &listwatch.Listing{At: at, Namespace: namespace, Brief: true})
	if err != nil {
		return rv, err
	}
	return rv, t.Objects.endMissing(ctx, p, rv)
}

// unmatch ends a namespace that no longer matches. What a list shows to be as the index has it
// leaves at once; of the rest the stream has more to bring.
func (t *Target) unmatch(ctx context.Context, name string, cause uint64) error {
	c := &t.Coverage
	l, _ := c.Leaving(name)
	l = selection.Leaving{Cause: cause, Broken: l.Broken}
	c.Uncover(name, selection.Flip{After: cause}, l, true)
	left := false
	until, err := t.Discovery.Source.List(ctx, &listwatch.Listing{Namespace: name, Brief: true}, t.Discovery.Source.Whole, func(o *frame.Object, bad *frame.Malformed) error {
		t.Status.Progressed()
		if bad == nil { // else what is known of it leaves later
			if e := t.Index.Get(o.Namespace, o.Name); e != nil && t.Index.IsUID(e, o.UID) && t.Index.Newest(e) == o.ResourceVersion {
				left = true
				return t.Objects.leave(ctx, e, o, cause, false)
			}
		}
		return nil
	})
	if err != nil && left && l.Broken == 0 {
		l.Broken = max(t.position.rv, 1) // of what has left the watch brings no change, should the namespace match for a while
	}
	if listwatch.Unsupported(err) { // then all of it leaves once the stream has come to the present
		until, err = t.Discovery.Source.Revision(ctx)
	}
	known := max(t.position.rv, t.position.logged, c.ListedAt(name))
	if err == nil && until < known {
		err = fmt.Errorf("%w (list at %d)", errBehind, until) // what it lacks may have been born since
	}
	if err = errors.Join(err, t.Writer.Flush(ctx)); err == nil {
		if l.Until = until; !c.Apart {
			l.Until = min(until, max(cause, known)) // it may match again after that
		}
		if l.Broken != 0 {
			t.flipGap.widen(l.Broken, l.Until)
		}
		l.Broken = 0
	}
	c.Uncover(name, selection.Flip{After: cause}, l, true)
	return err
}

// flipGap is what namespaces lack that are matched or unmatched together.
type flipGap event.GapInfo

// widen notes that states of a namespace may be missing.
func (g *flipGap) widen(after, to uint64) {
	if after >= to {
		return
	}
	if g.To != 0 {
		after, to = min(after, g.From), max(to, g.To)
	}
	*g = flipGap{From: after, To: to, Reason: reasonSelection, Recovered: event.RecoveredState}
}

// declareFlips emits the gap of namespaces that flipped.
func (t *Target) declareFlips(ctx context.Context) error {
	g := event.GapInfo(t.flipGap)
	if g.To == 0 {
		return nil
	}
	t.flipGap = flipGap{}
	t.Logger.Warn("history lost; declaring a gap", "reason", g.Reason, "from", g.From, "to", g.To, "recovered", g.Recovered,
		"runbook", display.GapRunbook(g.Reason))
	return t.Writer.EmitGap(ctx, g)
}

package target

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/watch"

	"github.com/informd/informd/pkg/dynwatch/internal/frame"
	"github.com/informd/informd/pkg/dynwatch/internal/index"
	"github.com/informd/informd/pkg/dynwatch/internal/status"
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

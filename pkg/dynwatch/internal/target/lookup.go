package target

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/informd/informd/pkg/dynwatch/internal/decide"
	"github.com/informd/informd/pkg/dynwatch/internal/emit"
	"github.com/informd/informd/pkg/dynwatch/internal/frame"
	"github.com/informd/informd/pkg/dynwatch/internal/index"
	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
	"github.com/informd/informd/pkg/dynwatch/internal/selection"
	"github.com/informd/informd/pkg/dynwatch/internal/status"
	"github.com/informd/informd/pkg/event"
)

// lookups read objects by name, so that etcd answers: what became of one that is no longer shown, or where one was that
// is shown now.
type lookups struct {
	discovery  *discovery
	index      *index.Index
	writer     *emit.Writer
	rejections *rejections
	loop       *loop
	coverage   *selection.Coverage
	status     *status.Status
	logger     *slog.Logger
}

// stillThere looks an object up as it was at rv. It may be there
// in a state that cannot be passed on, or not be read; o is nil then.
func (l *lookups) stillThere(ctx context.Context, e *index.Entry, rv uint64) (o *frame.Object, there bool, err error) {
	found, ok, err := l.discovery.Source.ObjectAt(ctx, l.index.Namespace(e), l.index.Name(e), rv)
	if errors.Is(err, listwatch.ErrOutside) {
		return nil, l.mayExist(), nil
	}
	return l.asEntry(ctx, e, found, ok, err)
}

// stillThereNow is stillThere for a revision that cannot be read. Where no object can be read by name, all that is
// known is that this one is not selected.
func (l *lookups) stillThereNow(ctx context.Context, e *index.Entry) (o *frame.Object, there bool, err error) {
	found, ok, err := l.discovery.Source.ObjectAt(ctx, l.index.Namespace(e), l.index.Name(e), 0)
	if errors.Is(err, listwatch.ErrOutside) || l.loop.unanswerable(err) {
		return nil, l.mayExist(), nil
	}
	return l.asEntry(ctx, e, found, ok, err)
}

// mayExist reports whether an object that the selection does not hold any more can exist: it may
// have changed, or the selection was edited.
func (l *lookups) mayExist() bool {
	return l.discovery.Source.Resource.Loses() || l.loop.edited(l.coverage) && l.discovery.spec.Selects()
}

// stillSelected is stillThere for what the target's selectors let through.
func (l *lookups) stillSelected(ctx context.Context, e *index.Entry, rv uint64) (there bool, err error) {
	found, ok, err := l.discovery.Source.MatchAt(ctx, l.index.Namespace(e), l.index.Name(e), rv)
	_, there, err = l.asEntry(ctx, e, found, ok, err)
	return there, err
}

// asEntry tells an answer about an entry's name from one about the entry.
func (l *lookups) asEntry(ctx context.Context, e *index.Entry, found frame.Object, ok bool, err error) (*frame.Object, bool, error) {
	if bad, isBad := errors.AsType[*frame.Malformed](err); isBad {
		return nil, l.index.IsUID(e, bad.UID), l.rejections.reject(ctx, bad)
	}
	return &found, ok && l.index.IsUID(e, found.UID), err
}

// existedAt reports whether the object existed at a revision, outside of the selection. If etcd has
// compacted that, it is taken for new unless the log knows it.
func (l *lookups) existedAt(ctx context.Context, o *frame.Object, rv uint64) (existed, compacted bool, err error) {
	then, ok, err := l.discovery.Source.ObjectAt(ctx, o.Namespace, o.Name, rv)
	if bad, isBad := errors.AsType[*frame.Malformed](err); isBad {
		return bad.UID == o.UID, false, nil // it was there, in whatever state
	}
	compacted = listwatch.Expired(err)
	switch {
	case compacted, l.loop.unanswerable(err):
		of := l.writer.Event(event.Entered, emit.IDOf(o), false)
		_, existed, err = l.writer.Last(ctx, &of)
		return existed, compacted, err
	case errors.Is(err, listwatch.ErrOutside):
		return l.discovery.Source.Resource.Loses(), false, nil
	}
	return err == nil && ok && then.UID == o.UID, false, err
}

// ask returns the event of a decision about a state of an object. If the decision asks, it finds out
// whether the object existed at the revision before, which etcd may have compacted.
func (l *lookups) ask(ctx context.Context, d decide.Decision, o *frame.Object, before uint64) (op event.Op, compacted bool, err error) {
	if !d.Ask {
		return d.Op, false, nil
	}
	existed, compacted, err := l.existedAt(ctx, o, before)
	if existed {
		return d.IfExists, compacted, err
	}
	return d.Op, compacted, err
}

// A list can come from a watch cache that is wrong, and lack objects that exist: since
// Kubernetes 1.34 consistent lists, and lists at an exact revision, are served by it
// (k8s.io/apiserver pkg/storage/cacher/delegator.go). A list of one name at an exact
// revision is not recursive and always served by etcd (Cacher.ShouldDelegateExactRV in
// cacher.go, and CacheDelegator.GetList). So etcd confirms some deletions of each list by name.

// maxConfirmed is how many of the objects that a list lacks are read from etcd.
const maxConfirmed = 32

// confirmGone returns [listwatch.ErrWrongList] if etcd has an object that a list at revision rv lacks.
// Of many objects it reads some, spread over all. A server that cannot read single objects, or fails to for long, is
// believed.
func (l *lookups) confirmGone(ctx context.Context, gone []*index.Entry, rv uint64) error {
	gone = slices.DeleteFunc(slices.Clone(gone), func(e *index.Entry) bool {
		return !l.coverage.Filter.Covers(l.index.Namespace(e)) // etcd is asked about these anyway
	})
	n := min(len(gone), maxConfirmed)
	for i := range n {
		e := gone[i*len(gone)/n]
		l.status.Alive()
		there, err := l.stillSelected(ctx, e, rv)
		if listwatch.Expired(err) || listwatch.Unsupported(err) {
			there, err = l.stillSelected(ctx, e, 0)
		}
		if there && err == nil {
			return l.wrongList(l.index.Namespace(e), l.index.Name(e), rv)
		}
		if err != nil && !l.loop.unanswerable(err) {
			return err
		}
	}
	l.discovery.Source.ListElsewhere(false)
	return nil
}

// wrongList notes that a list at revision rv lacks an object that etcd has. The next list goes over
// a new connection, which may reach another API server.
func (l *lookups) wrongList(namespace, name string, rv uint64) error {
	l.discovery.Source.ListElsewhere(true)
	l.logger.Warn("list lacks an object that etcd has; list not used",
		"namespace", namespace, "name", name, "revision", rv,
		"next", "the target lists over another connection; if it stays stale, restart the kube-apiserver")
	return fmt.Errorf("%s/%s at revision %d: %w", namespace, name, rv, listwatch.ErrWrongList)
}

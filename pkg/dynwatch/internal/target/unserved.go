package target

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/informd/informd/internal/display"
	"github.com/informd/informd/pkg/dynwatch/internal/catalog"
	"github.com/informd/informd/pkg/dynwatch/internal/kube"
	"github.com/informd/informd/pkg/event"
)

// endUnserved follows a resource that discovery does not list. When the authorities have
// agreed for long enough that it was removed, its objects were removed with it. If a watch
// was open until then, the watch has brought their deletions. If none was, the known
// objects get them here, and a gap says that there can have been others. When the resource
// returns, it is a new one. endUnserved returns the denial, with what follows from it.
func (t *Target) endUnserved(ctx context.Context, denial error) error {
	a := &t.Discovery.absence
	known := t.Index.Len() > 0 || t.Status.Synced.Load()
	if kube.IsUnconfirmed(denial) {
		*a = catalog.Absence{}
		if kube.IsOutage(denial) {
			t.Discovery.unwatched.fail()
		}
		return denial
	}
	if !known {
		if a.Since.IsZero() {
			a.Since = time.Now()
		}
		if time.Since(a.Since) >= t.Timing.Unserved {
			t.Discovery.noteGone()
		}
		return denial
	}
	if catalog.ServedOtherwise(ctx, t.Clients.Discovery, t.Spec.Wanted()) {
		*a = catalog.Absence{}
		t.Discovery.unwatched.fail()
		if t.Index.Len() == 0 {
			t.Discovery.noteGone()
		}
		return denial
	}
	began := a.Since.IsZero()
	due, open := a.Confirm(ctx, t.Served, t.Spec.Wanted(), t.Discovery.notice.Custom.Load(), denial, t.Timing.Periods)
	if open != "" {
		return fmt.Errorf("%w; informd keeps the %d objects: %s", denial, t.Index.Len(), open)
	}
	if began {
		t.Discovery.unwatched.unlisted()
	}
	if time.Now().Before(due) {
		return fmt.Errorf("%w; unless the resource returns, informd announces its %d objects as deleted at %s",
			denial, t.Index.Len(), due.UTC().Format(time.RFC3339))
	}
	if err := t.endResource(ctx, reasonUnserved, a.At); err != nil {
		return err
	}
	return removed{denial}
}

// endResource announces all known objects as deleted, and forgets the target's position:
// objects that appear later are new ones, in a storage that may be another one. The caller returns [removed].
func (t *Target) endResource(ctx context.Context, reason string, at uint64) error {
	if err := t.endAll(ctx, reason, at); err != nil {
		return err
	}
	t.refusals, t.Discovery.FirstOp, t.Discovery.unwatched = refusals{}, event.Added, unwatched{}
	t.Discovery.absence = catalog.Absence{}
	t.position.set(0)
	t.position.logged = 0
	clear(t.position.ended)
	t.Coverage.Forget()
	t.Status.Synced.Store(false)
	if err := t.Writer.Flush(ctx); err != nil {
		return err
	}
	t.Discovery.noteGone()
	return nil
}

// endAll announces all known objects as deleted, and declares events that can be missing.
// at is a revision at which they were gone, 0 if none is known.
func (t *Target) endAll(ctx context.Context, reason string, at uint64) error {
	lost := t.Discovery.unwatched.lost()
	if t.Discovery.notice.Custom.Load() {
		lost = t.Discovery.unwatched.lostOfCustom(t.Discovery.notice.Removed.Load(), t.appends.stalled)
	}
	if t.Index.Len() == 0 && t.loop.loss() == nil && !lost {
		return nil
	}
	from := t.position.resume()
	switch l := t.loop.loss(); {
	case !t.Status.Synced.Load():
		from = t.loop.first().began()
	case l != nil:
		from = min(from, l.from)
	}
	last := t.position.rv
	for e := range t.Index.All() {
		last = max(last, e.RV)
	}
	to := max(last+1, at)
	for e := range t.Index.All() {
		if err := t.Objects.End(ctx, event.Deleted, e, nil, to, true); err != nil {
			return err
		}
	}
	gap := event.GapInfo{From: from, To: to, Reason: reason, Recovered: event.RecoveredState}
	t.Logger.Warn("resource removed; its objects are announced as deleted", "reason", reason, "from", from, "to", to,
		"runbook", display.GapRunbook(reason))
	return t.Writer.EmitGap(ctx, gap)
}

// noteGone lets a wildcard that has made the target know that it may end.
func (d *discovery) noteGone() {
	if !d.status.Gone.Swap(true) {
		d.served.All.Send(false)
	}
}

// A namespace can be deleted together with the Role that lets informd read it. Then the
// target's requests are forbidden, and the deletions of its objects never arrive. The
// Namespace itself is the authority then: without it there are no objects.

// explainForbidden finds out whether a target is forbidden because its namespace was
// deleted. If so, its objects are announced as deleted. It returns the error to show.
func (t *Target) explainForbidden(ctx context.Context, err error) error {
	if t.Spec.Namespace == "" || !apierrors.IsForbidden(err) {
		return err
	}
	exists, rv, unread := t.Coverage.Namespaces.Exists(ctx, t.Spec.Namespace)
	switch {
	case apierrors.IsForbidden(unread):
		return fmt.Errorf("%w; informd cannot check whether namespace %q exists: "+
			"grant a ClusterRole with `list` on namespaces and resourceNames: [%s]", err, t.Spec.Namespace, t.Spec.Namespace)
	case errors.Is(unread, kube.ErrOtherCluster):
		return unread
	case unread != nil, exists:
		return err
	}
	if unsure := t.Clients.Identity.Check(ctx); unsure != nil {
		return unsure // the namespace may be one of another cluster
	}
	err = fmt.Errorf("%w; namespace %q does not exist, so it has no objects", err, t.Spec.Namespace)
	if t.Index.Len() == 0 && !t.Status.Synced.Load() {
		return err
	}
	if err := t.endResource(ctx, reasonNamespace, rv); err != nil {
		return err
	}
	return removed{err}
}

// unwatched records what happened since the last open watch. It answers whether a removal can
// have events that the watch did not bring.
//
// For a custom resource there are none if the watch was open when informd learnt of the
// removal: the API server deletes the objects, then the definition, and closes the watches at
// least a second later (tearDown in k8s.io/apiextensions-apiserver). For other resources
// informd knows only the time between the end of the watch and the first 404.
type unwatched struct {
	// since is when the watch was closed, zero while one is open.
	since time.Time
	// before: the watch has perhaps not brought all events until its end.
	before bool
	// after: since its end, an error other than a removal kept the next watch from being
	// opened, or the first 404 came later than denialLag.
	after bool
	// denied: the API server has said since then that it does not serve the resource.
	denied bool
}

// denialLag limits the time from the end of a watch to the first 404. An append that ends later
// than this before the removal can have left events of the watch unread.
const denialLag = 2 * time.Second

// discoveryLag is how long discovery can take to notice a removal.
const discoveryLag = 10 * time.Second

// begin notes that the watch was closed.
func (u *unwatched) begin() {
	if u.since.IsZero() {
		u.since = time.Now()
	}
}

// end notes that a watch is open.
func (u *unwatched) end() { *u = unwatched{} }

// fail notes that something else than a removal has closed the watch, or keeps it from being
// opened.
func (u *unwatched) fail() {
	if u.since.IsZero() {
		u.before = true
	} else {
		u.after = true
	}
}

// deny notes that the API server does not serve the resource.
func (u *unwatched) deny() {
	u.begin()
	u.after = u.after || !u.denied && time.Since(u.since) > denialLag
	u.denied = true
}

// unlisted notes that discovery does not list the resource either.
func (u *unwatched) unlisted() {
	u.after = u.after || time.Since(u.since) > discoveryLag
}

// lost reports whether events before a removal can be missing.
func (u *unwatched) lost() bool { return u.before || u.after }

// lostOfCustom is lost for a custom resource. Removed is when the news came that its
// definition was removed, nil if none did. Stalled is when the loop last returned from a long wait.
func (u *unwatched) lostOfCustom(removed *time.Time, stalled time.Time) bool {
	return u.before || removed == nil || u.since.Before(*removed) || stalled.After(removed.Add(-denialLag))
}

package resolve

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/informd/informd/pkg/dynwatch/internal/catalog"
	"github.com/informd/informd/pkg/dynwatch/internal/emit"
	"github.com/informd/informd/pkg/dynwatch/internal/feed"
	"github.com/informd/informd/pkg/dynwatch/internal/frame"
	"github.com/informd/informd/pkg/dynwatch/internal/kube"
	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
	"github.com/informd/informd/pkg/event"
)

// Resolver finds the resource of a target in discovery: the version to watch, another one
// if that fails, and whether the resource was removed.
type Resolver struct {
	*feed.Feed
	redactor *frame.Redactor
	// Served notifies the target when what is served may have changed, and looks are
	// what follows.
	Served *catalog.Watcher
	Notice *catalog.Notice
	Looks  looks
	// Offered is what the catalog says about a wildcard's resource, until it is used.
	Offered *catalog.Resolved
	// Absence is what is known of the resource while discovery does not list it.
	absence catalog.Absence
	// unlisted: discovery did not list the resource since it was resolved last.
	unlisted bool
	// Unwatched is what is known of the time since a watch was open last.
	Unwatched Unwatched
}

// New returns the Resolver of a target. Unsubscribe must be called at the end.
func New(f *feed.Feed, redactor *frame.Redactor, served *catalog.Watcher) *Resolver {
	return &Resolver{Feed: f, redactor: redactor, Served: served, Notice: served.Subscribe(f.Spec.GroupResource()), Looks: newLooks()}
}

// Unsubscribe ends the notices.
func (t *Resolver) Unsubscribe() { t.Served.Unsubscribe(t.Spec.Group, t.Notice) }

// Resolve finds the resource and makes its source.
func (t *Resolver) Resolve(ctx context.Context) error {
	r, err := t.discover(ctx)
	if r, err = t.knownInstead(ctx, r, err); errors.Is(err, kube.ErrNotServed) {
		t.unlisted = true
		if unsure := t.Clients.Identity.Check(ctx); unsure != nil {
			return unsure
		}
		if err = t.endUnserved(ctx, err); errors.Is(err, emit.ErrLog) {
			return err
		}
	} else {
		if err == nil && t.unlisted {
			t.unlisted = false
			t.ResetPause() // it has grown with the time in which the resource was not served
		}
		t.absence = catalog.Absence{}
		t.Status.Gone.Store(false)
	}
	notServed := errors.Is(err, kube.ErrNotServed) && !kube.IsUnconfirmed(err)
	if t.FirstOp == "" {
		switch {
		case err == nil, errors.Is(err, catalog.ErrUnusable):
			t.FirstOp = event.Snapshot
		case notServed:
			t.FirstOp = event.Added
		}
	}
	if err == nil || notServed || errors.Is(err, catalog.ErrUnusable) || apierrors.IsForbidden(err) {
		t.Status.Looked.Store(true)
	}
	if err != nil {
		return err
	}
	s, err := t.Spec.Source(r, t.Clients, t.redactor, t.Shape, t.Coverage.Filter)
	if err == nil {
		t.use(s, r)
	}
	return err
}

// knownInstead returns what discovery said about the resource earlier, before a restart too, if
// discovery keeps failing. It is asked again when what is served may have changed.
func (t *Resolver) knownInstead(ctx context.Context, r catalog.Resolved, err error) (catalog.Resolved, error) {
	known := t.Resolved
	says := errors.Is(err, kube.ErrNotServed) || errors.Is(err, catalog.ErrUnusable)
	if says || known.Kind == "" || t.Spec.Version != "" && t.Spec.Version != known.GVR.Version {
		return r, err
	}
	err = t.Failures.Note(ctx, err, t.Clients.Identity.Check, listwatch.Attempt{Request: "discovery"})
	if !errors.Is(err, listwatch.ErrLasting) {
		return r, err
	}
	for e := range t.Index.All() { // the log does not say it
		known.Namespaced = known.Namespaced || t.Index.Namespace(e) != ""
	}
	t.Logger.Warn("discovery keeps failing; watching the version that was served before",
		"version", known.GVR.Version, "err", err)
	return known, nil
}

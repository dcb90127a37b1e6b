package resolve

import (
	"context"
	"fmt"
	"time"

	"github.com/informd/informd/pkg/dynwatch/internal/catalog"
	"github.com/informd/informd/pkg/dynwatch/internal/kube"
	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
)

// The preferred version of a resource can stop to answer while others do, as with a broken
// conversion webhook. A target whose entry names no version then watches in another one,
// and moves back when the preferred one answers. The revisions of an object are the same in
// all versions, so its position stays.

// errVersion: the version that the entry names does not answer, and another one does.
var errVersion = fmt.Errorf("%w: its version fails", catalog.ErrUnusable)

// failing is since when a target's version has brought nothing but errors of the server.
type failing struct {
	since time.Time
	// progress is the target's when the errors began.
	progress time.Time
	// asked is when the other versions were asked last, and answers the one that answered,
	// empty if none did.
	asked   time.Time
	answers string
	// fellBack: the target watches in a version that its group does not prefer.
	fellBack bool
}

// initializingFor is for how many attempts a watch cache may be filled.
const initializingFor = 5

// FallBack moves the target to another version if its own has failed for long enough. It
// returns the error to show, nil if the target moved.
func (t *Resolver) FallBack(ctx context.Context, err error) error {
	f, progress := &t.failing, t.Status.Progress()
	switch {
	case t.Source == nil || !kube.IsServerFault(err):
		return err
	case f.since.IsZero() || !f.progress.Equal(progress):
		*f = failing{since: time.Now(), progress: progress, fellBack: f.fellBack}
		return err
	case time.Since(f.since) < t.Timing.Unserved:
		return err
	case !f.asked.IsZero() && time.Since(f.asked) < t.backAgain():
		return f.explain(err)
	}
	if kube.IsInitializing(err) && time.Since(f.since) < initializingFor*t.backAgain() && t.Source.Answers(ctx) == nil {
		// It answers a list that passes the cache by: the cache of a large resource is being
		// filled after a restart of the API server, which has nothing to do with the version.
		// For longer it fails: it cannot read some of the objects.
		f.asked, f.answers = time.Now(), ""
		return err
	}
	s, r := t.otherVersion(ctx)
	f.asked, f.answers = time.Now(), r.GVR.Version
	if s == nil || t.Spec.Version != "" {
		return f.explain(err)
	}
	t.Logger.Warn("preferred version fails; watching another version",
		"preferred_version", t.Resolved.GVR.Version, "version", r.GVR.Version, "err", err)
	t.use(s, r)
	t.failing = failing{fellBack: true}
	t.Looks.Timer.Reset(t.backAgain())
	return nil
}

// explain adds to an error that another version answers, if one does.
func (f *failing) explain(err error) error {
	if f.answers == "" {
		return err
	}
	return fmt.Errorf("%w, and version %s works: set that version in the entry, or none: %v", errVersion, f.answers, err) //nolint:errorlint // what it is says errVersion
}

// backAgain is the time between two attempts to move back to the preferred version.
func (t *Resolver) backAgain() time.Duration { return min(t.Timing.Noticed, t.Timing.DeniedCap) }

// otherVersion returns a source of another version that answers, nil if there is none.
func (t *Resolver) otherVersion(ctx context.Context) (*listwatch.Source, catalog.Resolved) {
	ctx, cancel := context.WithTimeout(ctx, lookPatience)
	defer cancel()
	versions, err := kube.ServedVersions(ctx, t.Clients.Discovery, t.Spec.Group)
	if err != nil {
		return nil, catalog.Resolved{}
	}
	for _, version := range versions {
		if version == t.Resolved.GVR.Version {
			continue
		}
		other := t.Spec.Wanted()
		other.Version = version
		r, err := catalog.Resolve(ctx, t.Clients.Discovery, other)
		if err != nil {
			continue
		}
		s, err := t.Spec.Source(r, t.Clients, t.redactor, t.Shape, t.Coverage.Filter)
		if err == nil && s.Answers(ctx) == nil {
			return s, r
		}
	}
	return nil, catalog.Resolved{}
}

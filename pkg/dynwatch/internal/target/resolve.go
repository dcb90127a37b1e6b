package target

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/informd/informd/internal/display"
	"github.com/informd/informd/pkg/dynwatch/internal/catalog"
	"github.com/informd/informd/pkg/dynwatch/internal/emit"
	"github.com/informd/informd/pkg/dynwatch/internal/kube"
	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
	"github.com/informd/informd/pkg/dynwatch/internal/selection"
	"github.com/informd/informd/pkg/dynwatch/internal/status"
	"github.com/informd/informd/pkg/event"
)

// discovery is what a target knows of its resource: the version to watch, another one if that
// fails, and whether the resource was removed.
type discovery struct {
	// Source is nil until the resource is resolved.
	Source *listwatch.Source
	// Notice is what the target hears when what is served may have changed, and looks are what follows. Looked is when
	// the last one was, and timer runs while the watch is open and one is due.
	notice *catalog.Notice
	looks  catalog.Series
	looked time.Time
	timer  *time.Timer
	// FirstOp is the operation of objects in the first list: they existed when
	// informd first asked for them, or the resource came later. Empty until it asked.
	FirstOp event.Op
	// Offered is what the catalog says about a wildcard's resource, until it is used.
	Offered *catalog.Resolved
	// Absence is what is known of the resource while discovery does not list it.
	absence catalog.Absence
	// unlisted: discovery did not list the resource since it was resolved last.
	unlisted bool
	// Unwatched is what is known of the time since a watch was open last.
	unwatched unwatched
	// reviewed is when it was asked last which permissions are missing.
	reviewed time.Time

	spec    *Spec
	served  *catalog.Watcher
	clients *kube.Clients
	timing  *Timing
	writer  *emit.Writer
	filter  *selection.Filter
	status  *status.Status
	logger  *slog.Logger
}

// unsubscribe ends the notices.
func (d *discovery) unsubscribe() { d.served.Unsubscribe(d.spec.Group, d.notice) }

// resolve finds the resource and makes its source.
func (t *Target) resolve(ctx context.Context) error {
	r, err := t.Discovery.discover(ctx)
	if errors.Is(err, kube.ErrNotServed) {
		t.Discovery.unlisted = true
		if unsure := t.Clients.Identity.Check(ctx); unsure != nil {
			return unsure
		}
		if err = t.endUnserved(ctx, err); errors.Is(err, emit.ErrLog) {
			return err
		}
	} else {
		if err == nil && t.Discovery.unlisted {
			t.Discovery.unlisted = false
			t.pause.reset() // it has grown with the time in which the resource was not served
		}
		t.Discovery.absence = catalog.Absence{}
		t.Status.Gone.Store(false)
	}
	notServed := errors.Is(err, kube.ErrNotServed) && !kube.IsUnconfirmed(err)
	if t.Discovery.FirstOp == "" {
		switch {
		case err == nil, errors.Is(err, catalog.ErrUnusable):
			t.Discovery.FirstOp = event.Snapshot
		case notServed:
			t.Discovery.FirstOp = event.Added
		}
	}
	if err == nil || notServed || errors.Is(err, catalog.ErrUnusable) || apierrors.IsForbidden(err) {
		t.Status.Looked.Store(true)
	}
	if err != nil {
		return err
	}
	s, err := t.Spec.Source(r, t.Clients, t.Writer.Shape, t.Coverage.Filter)
	if err == nil {
		t.Discovery.use(s, r)
	}
	return err
}

// A target that is nudged looks at discovery at once, and again in growing
// intervals for a while. One that waits for its resource begins with what it
// finds; one that watches moves on if it is to be watched in another version. The
// revisions of an object are the same in all its versions, so the cursor stays.

// lookPatience is what one look of a target whose watch is open may take: meanwhile nothing
// is read from it.
const lookPatience = 5 * time.Second

// errMoved says that the resource is to be watched in another version.
var errMoved = errors.New("the watch moves to another version")

// noticed begins to look. A target that is watching does so once if nothing is
// known to have changed.
func (d *discovery) noticed() {
	changed := d.notice.Changed.Swap(false)
	if changed || d.Source == nil {
		d.looks.Begin(d.timing.Lasting, d.timing.First, 2)
	}
}

// soon is the wait before the poll that follows a notice: none, unless notices come so fast
// that each would cost a poll.
func (d *discovery) soon() time.Duration {
	return max(0, d.timing.First-time.Since(d.looked))
}

// look asks discovery while the watch is open. It returns errMoved if the watch
// should end, since the resource is to be watched in another version. Nothing
// else matters: if the resource was removed, the watch brings the deletions.
func (d *discovery) look(ctx context.Context) error {
	if soon, more := d.looks.Next(); more {
		d.timer.Reset(soon)
	}
	ctx, cancel := context.WithTimeout(ctx, lookPatience)
	defer cancel()
	r, err := d.discover(ctx)
	if err == nil && r == d.writer.Resolved {
		return nil
	}
	var s *listwatch.Source
	if err == nil {
		s, err = d.spec.Source(r, d.clients, d.writer.Shape, d.filter)
	}
	if err == nil {
		// Discovery may be ahead of what it speaks of, and conversion can be broken.
		err = s.Answers(ctx)
	}
	if err != nil {
		d.logger.Debug("rediscovery failed", "err", err)
		return nil
	}
	d.logger.Info("watch moves to another version", "from_version", d.writer.Resolved.GVR.Version, "version", r.GVR.Version, "kind", r.Kind)
	d.use(s, r)
	return errMoved
}

func (d *discovery) discover(ctx context.Context) (catalog.Resolved, error) {
	if r := d.Offered; r != nil {
		d.Offered = nil
		return *r, nil
	}
	d.looked = time.Now()
	return catalog.Resolve(ctx, d.clients.Discovery, d.spec.Wanted())
}

// use makes a source that of the target.
func (d *discovery) use(s *listwatch.Source, r catalog.Resolved) {
	d.Source, d.writer.Resolved = s, r
	s.Times = &d.status.Lists
	d.status.SetResolved(r)
}

const (
	// anyNamespace stands for all namespaces in a log: no namespace can have this name.
	anyNamespace = "*"
	// reviewTimeout bounds the questions about one target.
	reviewTimeout = 30 * time.Second
	// reviewEvery is the least time between two reviews: each retry of a target is refused.
	reviewEvery = time.Minute
)

// reviewAccess says which permissions a target lacks that was refused: the error of the API server names one verb of
// two. It only reports.
func (d *discovery) reviewAccess(ctx context.Context) {
	if time.Since(d.reviewed) < reviewEvery {
		return
	}
	d.reviewed = time.Now()
	of := d.spec.Attributes()
	defer d.clients.Pace.Begin(ctx, of.Group)()
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	missing, err := catalog.MissingVerbs(ctx, d.clients.Discovery.Client, of, catalog.NeededVerbs())
	if err != nil {
		d.logger.Debug("permissions not checked", "err", err)
		return
	}
	if d.status.SetMissing(missing) {
		d.logger.Error("permissions missing; apply the output of `informd rbac`",
			"verbs", missing, "namespace", cmp.Or(d.spec.Namespace, anyNamespace),
			"runbook", display.AlertRunbook("InformdTargetNotWatched"))
	}
}

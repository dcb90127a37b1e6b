package catalog

import (
	"fmt"
	"log/slog"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/informd/informd/pkg/dynwatch/internal/kube"
	"github.com/informd/informd/pkg/dynwatch/internal/metadatawatch"
)

// definitionWatch tells which objects of one kind change. Of each it keeps the name
// and the revision, so that a list after a break tells no more than what has
// changed. All but open and denied belongs to the goroutine of the watch.
type definitionWatch struct {
	watch    *metadatawatch.Watch
	resource schema.GroupResource
	logger   *slog.Logger
	// tell is called with each object that has changed, or that the first list holds.
	tell func(news)

	// seen has the versions of all objects; it is nil before the first list.
	seen map[string]version

	// open: a watch is, or the next one is about to be.
	open atomic.Bool
	// denied says why there is none, if the API server does not let us.
	denied atomic.Pointer[string]
}

// version is one of an object.
type version struct {
	rv         uint64
	generation int64
}

// news is what is told of one object.
type news struct {
	name  string
	there bool
	// changed: it has, or is new. Else the first list holds it. Redefined: its spec has.
	changed, redefined bool
}

func newDefinitionWatch(c *kube.Clients, logger *slog.Logger, gvr schema.GroupVersionResource, kind string, tell func(news)) (*definitionWatch, error) {
	d := &definitionWatch{resource: gvr.GroupResource(), logger: logger.With("resource", gvr.GroupResource().String()), tell: tell}
	var err error
	d.watch, err = metadatawatch.New(c, gvr, kind, d)
	return d, err
}

// Failed notes that nothing is told at the moment.
func (d *definitionWatch) Failed(err error) bool {
	d.open.Store(false)
	if !apierrors.IsForbidden(err) && !apierrors.IsNotFound(err) {
		d.logger.Debug("resource definitions not watched; retrying", "err", err)
		return false
	}
	why := fmt.Sprintf("%s cannot be watched: %v", d.resource, err)
	if d.denied.Swap(&why) == nil {
		d.logger.Info("resource definitions not watchable; polling discovery", "err", err,
			"next", "apply the output of `informd rbac`, to notice added resources and versions at once")
	}
	return true
}

func (d *definitionWatch) Opened() {
	d.open.Store(true)
	if d.denied.Swap(nil) != nil {
		d.logger.Info("resource definitions watched; polling ends")
	}
}

// Listed tells how the objects differ from those that were seen.
func (d *definitionWatch) Listed(all []metadatawatch.Object, _ uint64, restored bool) {
	before := d.seen
	d.seen = make(map[string]version, len(all))
	for i := range all {
		o := &all[i]
		known, changed := before[o.Name], before != nil
		d.seen[o.Name] = version{o.RV, o.Generation}
		// Revisions of two histories do not compare.
		if restored || !changed || known.rv != o.RV {
			d.tell(news{o.Name, true, changed, changed && redefined(known, o)})
		}
	}
	for name := range before {
		if _, still := d.seen[name]; !still {
			d.tell(news{name: name, changed: true})
		}
	}
}

func (d *definitionWatch) Watched(typ watch.EventType, o *metadatawatch.Object) {
	switch typ {
	case watch.Bookmark:
	case watch.Deleted:
		delete(d.seen, o.Name)
		d.tell(news{name: o.Name, changed: true})
	default:
		spec := redefined(d.seen[o.Name], o)
		d.seen[o.Name] = version{o.RV, o.Generation}
		d.tell(news{o.Name, true, true, spec})
	}
}

// redefined reports whether the spec has changed since a version of the object, the zero
// value if it is new. The API server counts the beginning of a deletion as a generation, too.
func redefined(since version, o *metadatawatch.Object) bool {
	return !o.Ending && o.Generation != since.generation
}

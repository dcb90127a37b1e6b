package catalog

import (
	"fmt"
	"log/slog"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/informd/informd/pkg/dynwatch/internal/kube"
	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
)

// definitionWatch tells which objects of one kind change. Of each it keeps the name
// and the revision, so that a list after a break tells no more than what has
// changed. All but open and denied belongs to the goroutine of the watch.
type definitionWatch struct {
	watch    *listwatch.MetadataWatch
	resource schema.GroupResource
	logger   *slog.Logger
	// tell is called with the name of an object that has changed, or that the first
	// list holds, and with whether it is there.
	tell func(name string, there, changed bool)

	// seen has the revision of each object; it is nil before the first list.
	seen map[string]uint64

	// open: a watch is, or the next one is about to be.
	open atomic.Bool
	// denied says why there is none, if the API server does not let us.
	denied atomic.Pointer[string]
}

func newDefinitionWatch(c *kube.Clients, logger *slog.Logger, gvr schema.GroupVersionResource, kind string, tell func(name string, there, changed bool)) (*definitionWatch, error) {
	d := &definitionWatch{resource: gvr.GroupResource(), logger: logger.With("resource", gvr.GroupResource().String()), tell: tell}
	var err error
	d.watch, err = listwatch.NewMetadataWatch(c, gvr, kind, d)
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
func (d *definitionWatch) Listed(all []listwatch.MetadataObject, _ uint64, restored bool) {
	before := d.seen
	d.seen = make(map[string]uint64, len(all))
	for _, o := range all {
		d.seen[o.Name] = o.RV
		// Revisions of two histories do not compare.
		if restored || before == nil || before[o.Name] != o.RV {
			d.tell(o.Name, true, before != nil)
		}
	}
	for name := range before {
		if _, still := d.seen[name]; !still {
			d.tell(name, false, true)
		}
	}
}

func (d *definitionWatch) Watched(typ watch.EventType, o *listwatch.MetadataObject) {
	switch typ {
	case watch.Bookmark:
		return
	case watch.Deleted:
		delete(d.seen, o.Name)
	default:
		d.seen[o.Name] = o.RV
	}
	d.tell(o.Name, typ != watch.Deleted, true)
}

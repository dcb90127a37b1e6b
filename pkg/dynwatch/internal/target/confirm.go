package target

import (
	"context"
	"fmt"
	"slices"

	"github.com/informd/informd/pkg/dynwatch/internal/index"
	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
)

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
func (t *Target) confirmGone(ctx context.Context, gone []*index.Entry, rv uint64) error {
	gone = slices.DeleteFunc(slices.Clone(gone), func(e *index.Entry) bool {
		return !t.Coverage.Filter.Covers(t.Index.Namespace(e)) // etcd is asked about these anyway
	})
	n := min(len(gone), maxConfirmed)
	for i := range n {
		e := gone[i*len(gone)/n]
		t.Status.Alive()
		there, err := t.stillSelected(ctx, e, rv)
		if listwatch.Expired(err) || listwatch.Unsupported(err) {
			there, err = t.stillSelected(ctx, e, 0)
		}
		if there && err == nil {
			return t.wrongList(t.Index.Namespace(e), t.Index.Name(e), rv)
		}
		if err != nil && !t.loop.unanswerable(err) {
			return err
		}
	}
	t.Discovery.Source.ListElsewhere(false)
	return nil
}

// wrongList notes that a list at revision rv lacks an object that etcd has. The next list goes over
// a new connection, which may reach another API server.
func (t *Target) wrongList(namespace, name string, rv uint64) error {
	t.Discovery.Source.ListElsewhere(true)
	t.Logger.Warn("list lacks an object that etcd has; list not used",
		"namespace", namespace, "name", name, "revision", rv,
		"next", "the target lists over another connection; if it stays stale, restart the kube-apiserver")
	return fmt.Errorf("%s/%s at revision %d: %w", namespace, name, rv, listwatch.ErrWrongList)
}

package resolve

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/informd/informd/pkg/dynwatch/internal/kube"
	"github.com/informd/informd/pkg/dynwatch/internal/recovery"
)

// A namespace can be deleted together with the Role that lets informd read it. Then the
// target's requests are forbidden, and the deletions of its objects never arrive. The
// Namespace itself is the authority then: without it there are no objects.

// ExplainForbidden finds out whether a target is forbidden because its namespace was
// deleted. If so, its objects are announced as deleted. It returns the error to show.
func (t *Resolver) ExplainForbidden(ctx context.Context, err error) error {
	if t.Spec.Namespace == "" || !apierrors.IsForbidden(err) {
		return err
	}
	exists, rv, unread := t.Coverage.Namespaces.Exists(ctx, t.Clients.Discovery.Client, t.Spec.Namespace)
	switch {
	case apierrors.IsForbidden(unread):
		return fmt.Errorf("%w; informd cannot check whether namespace %q exists: "+
			"grant a ClusterRole with `get` on namespaces and resourceNames: [%s]", err, t.Spec.Namespace, t.Spec.Namespace)
	case errors.Is(unread, kube.ErrOtherCluster):
		return unread
	case unread != nil, exists:
		return err
	}
	if unsure := t.Clients.Identity.Check(ctx); unsure != nil {
		return unsure // the namespace may be one of another cluster
	}
	known := t.Index.Len() > 0 || t.Status.Synced.Load()
	if known {
		if err := t.endResource(ctx, recovery.ReasonNamespace, rv); err != nil {
			return err
		}
	}
	return fmt.Errorf("%w; namespace %q does not exist, so it has no objects", err, t.Spec.Namespace)
}

package dynwatch

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

// explainForbidden finds out whether a target is forbidden because its namespace was
// deleted. If so, its objects are announced as deleted. It returns the error to show.
func (t *target) explainForbidden(ctx context.Context, err error) error {
	if t.spec.namespace == "" || !apierrors.IsForbidden(err) {
		return err
	}
	exists, rv, unread := t.coverage.Namespaces.Exists(ctx, t.clients.Discovery.Client, t.spec.namespace)
	switch {
	case apierrors.IsForbidden(unread):
		return fmt.Errorf("%w; informd cannot check whether namespace %q exists: "+
			"grant a ClusterRole with `get` on namespaces and resourceNames: [%s]", err, t.spec.namespace, t.spec.namespace)
	case errors.Is(unread, kube.ErrOtherCluster):
		return unread
	case unread != nil, exists:
		return err
	}
	if unsure := t.clients.Identity.Check(ctx); unsure != nil {
		return unsure // the namespace may be one of another cluster
	}
	known := t.index.Len() > 0 || t.status.synced.Load()
	if known {
		if err := t.endResource(ctx, recovery.ReasonNamespace, rv); err != nil {
			return err
		}
	}
	return fmt.Errorf("%w; namespace %q does not exist, so it has no objects", err, t.spec.namespace)
}

package dynwatch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/informd/informd/pkg/dynwatch/internal/kube"
	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
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
	exists, rv, unread := t.coverage.namespaces.exists(ctx, t.clients.Discovery.Client, t.spec.namespace)
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
		if err := t.endResource(ctx, reasonNamespace, rv); err != nil {
			return err
		}
	}
	return fmt.Errorf("%w; namespace %q does not exist, so it has no objects", err, t.spec.namespace)
}

// exists asks etcd whether a Namespace exists, with a list of that one name, or with a get
// where lists are forbidden. It returns the revision of the answer, 0 if that has none.
func (n *namespaces) exists(ctx context.Context, client rest.Interface, name string) (exists bool, rv uint64, err error) {
	_, exists, rv, err = n.watch.Source.Look(ctx, "", name, 0)
	if err == nil && rv == 0 {
		return false, 0, fmt.Errorf("list namespaces: %w", listwatch.ErrInexact)
	}
	if !apierrors.IsForbidden(err) {
		return exists, rv, err
	}
	exists, err = getNamespace(ctx, client, name)
	return exists, 0, err
}

// getNamespace reads a Namespace. A 404 counts only as a Status about that Namespace.
func getNamespace(ctx context.Context, client rest.Interface, name string) (exists bool, err error) {
	g := kube.NewGuard(ctx)
	defer g.Close()
	body, err := client.Get().MaxRetries(0).AbsPath("/api/v1/namespaces", name).Do(g.Context).Raw()
	switch {
	case err != nil && apierrors.IsNotFound(err) && deniesNamespace(body, name):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("get namespace %s: %w", name, g.Explain(err))
	}
	var found metav1.PartialObjectMetadata
	if err := json.Unmarshal(body, &found); err != nil {
		return false, fmt.Errorf("get namespace %s: %w", name, err)
	}
	if found.Kind != "Namespace" || found.Name != name {
		return false, fmt.Errorf("get namespace %s: the answer is %s %q", name, found.Kind, found.Name)
	}
	return true, nil
}

// deniesNamespace reports whether the body of a 404 is a Status about this Namespace.
func deniesNamespace(body []byte, name string) bool {
	var s metav1.Status
	return json.Unmarshal(body, &s) == nil && s.Kind == "Status" && s.Reason == metav1.StatusReasonNotFound &&
		s.Details != nil && s.Details.Kind == "namespaces" && s.Details.Name == name
}

package selection

import (
	"context"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/informd/informd/pkg/dynwatch/internal/kube"
	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
)

// Exists asks etcd whether a Namespace exists, with a list of that one name, or with a get
// where lists are forbidden. It returns the revision of the answer, 0 if that has none.
func (n *Namespaces) Exists(ctx context.Context, client rest.Interface, name string) (exists bool, rv uint64, err error) {
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

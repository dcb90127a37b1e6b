package watching_test

import (
	"context"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"

	"github.com/informd/informd/test/e2e"
)

// removeDefinition deletes the custom resource definition of a custom kind and waits
// until it is gone, its objects with it.
func removeDefinition(t *testing.T, client dynamic.Interface, k e2e.Kind) {
	t.Helper()
	crds, name := e2e.CustomResourceDefinitions(client), k.Definition().GetName()
	e2e.Must(t, crds.Delete(t.Context(), name, metav1.DeleteOptions{}))
	e2e.WaitAtOnce(t, name+" gone", func() bool {
		_, err := crds.Get(context.WithoutCancel(t.Context()), name, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
}

// createAgain deletes the custom resource definition, creates it again, and returns
// the uids of the objects that went with it.
func createAgain(r *e2e.CRDRig) (old []string) {
	r.T.Helper()
	list, err := r.Client.Resource(r.Kind.GVR).List(r.T.Context(), metav1.ListOptions{})
	e2e.Must(r.T, err)
	for _, o := range list.Items {
		old = append(old, string(o.GetUID()))
		r.Ledger.Removed(r.Kind, o.GetUID())
	}
	if len(old) == 0 {
		r.T.Fatal("there are no objects")
	}
	began := time.Now()
	removeDefinition(r.T, r.Client, r.Kind)
	r.Kind.Install(r.T, r.Client)
	r.T.Logf("%d objects; deleted and served again within %v", len(old), time.Since(began).Round(time.Millisecond))
	return old
}

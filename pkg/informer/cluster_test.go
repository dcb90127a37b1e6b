package informer_test

import (
	"maps"
	"strconv"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/informd/informd/pkg/informer/informertest"
)

// fakeAPI is a fake cluster whose objects the tests name in short.
type fakeAPI struct{ *informertest.Cluster }

func newFakeAPI(t *testing.T) *fakeAPI {
	t.Helper()
	return &fakeAPI{informertest.New()}
}

func (f *fakeAPI) config() *rest.Config { return f.Config() }

// put creates or changes an object: more is merged into it.
func (f *fakeAPI) put(resource, namespace, name string, more map[string]any) {
	kinds := map[string]string{"pods": "Pod", "configmaps": "ConfigMap", "secrets": "Secret", "namespaces": "Namespace"}
	metadata := map[string]any{"name": name, "namespace": namespace}
	if given, ok := more["metadata"].(map[string]any); ok {
		maps.Copy(metadata, given)
	}
	o := map[string]any{"apiVersion": "v1", "kind": kinds[resource]}
	maps.Copy(o, more)
	o["metadata"] = metadata
	f.Patch(o)
}

func (f *fakeAPI) delete(resource, namespace, name string) {
	f.Delete(schema.GroupResource{Resource: resource}, namespace, name)
}

// lose deletes an object such that only a list shows it.
func (f *fakeAPI) lose(resource, namespace, name string) {
	f.Outage(func() {
		f.delete(resource, namespace, name)
		f.Compact()
	})
}

// denySecrets makes lists of Secrets forbidden.
func (f *fakeAPI) denySecrets() (allow func()) {
	return f.Inject(informertest.Fault{Verb: informertest.List, Resource: schema.GroupResource{Resource: "secrets"}, Code: 403})
}

// revision is the newest resourceVersion.
func (f *fakeAPI) revision() string { return strconv.FormatUint(f.Revision(), 10) }

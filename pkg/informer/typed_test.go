package informer_test

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/informd/informd/pkg/informer"
)

func TestExampleOfAnotherResource(t *testing.T) {
	other := &unstructured.Unstructured{}
	other.SetGroupVersionKind(schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Pod"})
	for name, c := range map[string]struct {
		group, version, resource string
		example                  runtime.Object
		wrong                    bool
	}{
		"kind":                {"", "v1", "pods", &corev1.Node{}, true},
		"version":             {"apps", "v1beta1", "deployments", &appsv1.Deployment{}, true},
		"group":               {"", "v1", "events", &eventsv1.Event{}, true},
		"unstructured":        {"", "v1", "pods", other, true},
		"none":                {"", "v1", "pods", nil, false},
		"unstructured, empty": {"", "v1", "pods", &unstructured.Unstructured{}, false},
		"metadata":            {"", "v1", "pods", &metav1.PartialObjectMetadata{}, false},
		"custom":              {"", "v1", "pods", &gadget{}, false},
		"core":                {"", "v1", "endpoints", &corev1.Endpoints{}, false}, //nolint:staticcheck // its plural is its kind
		"events":              {"events.k8s.io", "v1", "events", &eventsv1.Event{}, false},
		"es":                  {"networking.k8s.io", "v1", "ingresses", &networkingv1.Ingress{}, false},
		"ies":                 {"networking.k8s.io", "v1", "networkpolicies", &networkingv1.NetworkPolicy{}, false},
		"long group":          {"rbac.authorization.k8s.io", "v1", "roles", &rbacv1.Role{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			gvr := schema.GroupVersionResource{Group: c.group, Version: c.version, Resource: c.resource}
			_, err := informer.NewSharedIndexInformer(&rest.Config{}, gvr, c.example, 0, nil)
			if (err != nil) != c.wrong {
				t.Errorf("error %v, want one: %t", err, c.wrong)
			}
		})
	}
}

// nodding changes the kind of Pods with an odd name in the frames of watches.
type nodding struct{ http.RoundTripper }

func (n nodding) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := n.RoundTripper.RoundTrip(r)
	if err == nil && strings.HasSuffix(r.URL.Path, "/pods") {
		answer.Body = noddingBody{answer.Body}
	}
	return answer, err
}

type noddingBody struct{ io.ReadCloser }

func (b noddingBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	for line := range bytes.Lines(p[:n]) {
		if bytes.Contains(line, []byte(`"odd`)) {
			copy(line, bytes.ReplaceAll(line, []byte(`"kind":"Pod"`), []byte(`"kind":"Nod"`)))
		}
	}
	return n, err
}

// TestObjectOfAnotherKind: an object of another kind in a watch reaches neither the store nor the
// handlers, and the objects behind it do.
func TestObjectOfAnotherKind(t *testing.T) {
	api := newFakeAPI(t)
	config := api.config()
	config.Transport = nodding{config.Transport}
	i, err := informer.NewSharedIndexInformer(config, pods(), &corev1.Pod{}, 0, nil)
	must(t, err)
	var seen recorder
	handle(t, i, &seen)
	run(t, i)
	api.put("pods", "a", "odd", nil)
	api.put("pods", "a", "good", nil)
	seen.wants(t, "add good false")
	if keys := i.GetStore().ListKeys(); len(keys) != 1 || keys[0] != "a/good" {
		t.Errorf("the store has %q", keys)
	}
}

package e2e

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
)

// AllowConfigMaps lets a user read config maps.
func AllowConfigMaps(t *testing.T, client dynamic.Interface, user string) {
	t.Helper()
	Allow(t, client, user, "", "configmaps")
}

// AllowPods lets a user read pods.
func AllowPods(t *testing.T, client dynamic.Interface, user string) {
	t.Helper()
	Allow(t, client, user, "", "pods")
}

// Allow lets a user list and watch a resource in the whole cluster.
func Allow(t *testing.T, client dynamic.Interface, user, group, resource string) {
	t.Helper()
	AllowVerbs(t, client, user, group, resource, "list", "watch")
}

// AllowVerbs lets a user do so much with a resource.
func AllowVerbs(t *testing.T, client dynamic.Interface, user, group, resource string, verbs ...any) {
	t.Helper()
	name := fmt.Sprint(append([]any{user, "-", resource}, verbs...)...)
	Apply(t, client, map[string]any{
		"kind":  "ClusterRole",
		"rules": []any{map[string]any{"apiGroups": []any{group}, "resources": []any{resource}, "verbs": verbs}},
	}, rbacVersion, name)
	Apply(t, client, map[string]any{
		"kind":     "ClusterRoleBinding",
		"roleRef":  map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
		"subjects": []any{map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}},
	}, rbacVersion, name)
}

// Apply creates an object of one of the kinds that permissions are made of.
func Apply(t *testing.T, client dynamic.Interface, fields map[string]any, apiVersion, name string) {
	t.Helper()
	o := &unstructured.Unstructured{Object: fields}
	o.SetAPIVersion(apiVersion)
	o.SetName(name)
	gv, err := schema.ParseGroupVersion(apiVersion)
	Must(t, err)
	resource := client.Resource(gv.WithResource(strings.ToLower(o.GetKind()) + "s"))
	_, err = resource.Namespace(o.GetNamespace()).Create(t.Context(), o, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatalf("create %s %s: %v", o.GetKind(), name, err)
	}
}

// ApplyAll is Apply for the documents of a YAML stream.
func ApplyAll(t *testing.T, client dynamic.Interface, stream string) {
	t.Helper()
	for documents := yaml.NewYAMLOrJSONDecoder(strings.NewReader(stream), len(stream)); ; {
		var o unstructured.Unstructured
		err := documents.Decode(&o.Object)
		if errors.Is(err, io.EOF) {
			return
		}
		Must(t, err)
		Apply(t, client, o.Object, o.GetAPIVersion(), o.GetName())
	}
}

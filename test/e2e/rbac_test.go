package e2e_test

import (
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

func allowConfigMaps(t *testing.T, client dynamic.Interface, user string) {
	t.Helper()
	allow(t, client, user, "configmaps")
}

func allowPods(t *testing.T, client dynamic.Interface, user string) {
	t.Helper()
	allow(t, client, user, "pods")
}

// allow lets a user list and watch a core resource in the whole cluster.
func allow(t *testing.T, client dynamic.Interface, user, resource string) {
	t.Helper()
	name := user + "-" + resource
	rbac := func(plural string) schema.GroupVersionResource {
		return schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: plural}
	}
	objects := map[string]map[string]any{
		"clusterroles": {
			"kind":  "ClusterRole",
			"rules": []any{map[string]any{"apiGroups": []any{""}, "resources": []any{resource}, "verbs": []any{"list", "watch"}}},
		},
		"clusterrolebindings": {
			"kind":     "ClusterRoleBinding",
			"roleRef":  map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
			"subjects": []any{map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}},
		},
	}
	for plural, fields := range objects {
		o := &unstructured.Unstructured{Object: fields}
		o.SetAPIVersion("rbac.authorization.k8s.io/v1")
		o.SetName(name)
		if _, err := client.Resource(rbac(plural)).Create(t.Context(), o, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
	}
}

package chaos

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// customGroup is the API group of the custom resources.
const customGroup = "chaos.informd.dev"

// Kind is a resource that is watched and written.
type Kind struct {
	gvr        schema.GroupVersionResource
	kind       string
	namespaced bool
	custom     bool
	fields     map[string]any                      // what a new object has besides metadata
	patch      func(text string) string            // a merge patch that changes the object
	status     func(text string) string            // one for the status subresource; nil: it has none
	labels     func(text string) map[string]string // of a new object; nil: none
	small      bool                                // it is never made large
	weight     int                                 // how often it is written; 0: only watched
	// What its entry in informd's config says besides.
	labelSelector, namespaceSelector, emitWhen string
}

// rule is what the entry says.
func (k *Kind) rule() rule {
	return rule{selector(k.labelSelector), selector(k.namespaceSelector), k.emitWhen != ""}
}

// entry is the one in informd's config.
func (k *Kind) entry() string {
	keys := []string{fmt.Sprintf("group: %q, resource: %s", k.gvr.Group, k.gvr.Resource)}
	for _, x := range [][2]string{{"labelSelector", k.labelSelector}, {"namespaceSelector", k.namespaceSelector}} {
		if x[1] != "" {
			keys = append(keys, fmt.Sprintf("%s: %q", x[0], x[1]))
		}
	}
	if k.emitWhen != "" {
		keys = append(keys, "emitWhen: "+k.emitWhen)
	}
	return "{" + strings.Join(keys, ", ") + "}"
}

func (k *Kind) target() string { return targetName(k.gvr.Group, k.gvr.Resource) }

// crd is the name of the kind's definition.
func (k *Kind) crd() string { return k.gvr.Resource + "." + k.gvr.Group }

// kinds are all resources of a run: built-ins and custom resources, namespaced
// and cluster-scoped, busy and quiet.
func kinds() []*Kind {
	spec := func(s string) string { return fmt.Sprintf(`{"spec":{"text":%q}}`, s) }
	state := func(s string) string { return fmt.Sprintf(`{"status":{"text":%q}}`, s) }
	label := func(s string) string { return fmt.Sprintf(`{"metadata":{"labels":{"text":%q}}}`, s) }
	container := map[string]any{"name": "c", "image": "example.com/image:1"}
	all := []*Kind{
		builtIn("", "configmaps", "ConfigMap", 20, func(s string) string { return fmt.Sprintf(`{"data":{"text":%q}}`, s) }),
		builtIn("", "secrets", "Secret", 6, func(s string) string { return fmt.Sprintf(`{"stringData":{"text":%q}}`, canary+s) }),
		builtIn("", "pods", "Pod", 15, label),
		builtIn("", "serviceaccounts", "ServiceAccount", 3, label),
		builtIn("", "events", "Event", 8, func(s string) string { return fmt.Sprintf(`{"message":%q}`, s) }),
		builtIn("", "namespaces", "Namespace", 0, label),
		builtIn("", "nodes", "Node", 3, label),
		builtIn("apps", "deployments", "Deployment", 10, func(s string) string {
			return fmt.Sprintf(`{"spec":{"template":{"metadata":{"labels":{"text":%q}}}}}`, s)
		}),
		builtIn("coordination.k8s.io", "leases", "Lease", 10, func(s string) string { return fmt.Sprintf(`{"spec":{"holderIdentity":%q}}`, s) }),
		builtIn("rbac.authorization.k8s.io", "clusterroles", "ClusterRole", 2, label),
		builtIn("apiextensions.k8s.io", "customresourcedefinitions", "CustomResourceDefinition", 0, label),
		custom("widgets", "Widget", true, 12, spec, state),
		custom("gadgets", "Gadget", true, 8, spec, state),
		custom("comets", "Comet", true, 5, spec, state),
		custom("planets", "Planet", false, 5, spec, state),
		builtIn("rbac.authorization.k8s.io", "roles", "Role", 0, label),
	}
	all = append(all, selectiveKinds()...)
	pod, deployment := all[2], all[7]
	pod.fields = map[string]any{"spec": map[string]any{"containers": []any{container}}}
	pod.status = func(s string) string { return fmt.Sprintf(`{"status":{"phase":"Running","message":%q}}`, s) }
	deployment.fields = map[string]any{"spec": map[string]any{
		"replicas": int64(1), "selector": map[string]any{"matchLabels": map[string]any{"app": "x"}},
		"template": map[string]any{
			"metadata": map[string]any{"labels": map[string]any{"app": "x"}},
			"spec":     map[string]any{"containers": []any{container}},
		},
	}}
	deployment.status = func(s string) string {
		return fmt.Sprintf(`{"status":{"conditions":[{"type":"Available","status":"True","reason":"R","message":%q}]}}`, s)
	}
	return all
}

// selectiveKinds are those with selectors and change filters.
func selectiveKinds() []*Kind {
	state := func(s string) string { return fmt.Sprintf(`{"status":{"text":%q}}`, s) }
	shade := func(s string) string { return pick(s, "dark", "dim", "light") }
	moons := custom("moons", "Moon", true, 8, func(s string) string { return fmt.Sprintf(`{"spec":{"text":%q}}`, s) }, state)
	moons.namespaceSelector = tierSelector
	rings := custom("rings", "Ring", true, 8, func(s string) string {
		return pick(s, fmt.Sprintf(`{"spec":{"text":%q}}`, s), fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, lastApplied, s),
			fmt.Sprintf(`{"metadata":{"labels":{"shade":%q}}}`, shade(s)), fmt.Sprintf(`{"metadata":{"labels":{"shade":%q}},"spec":{"text":%q}}`, shade(s), s),
			`{"metadata":{"labels":{"hidden":"x"}}}`, `{"metadata":{"labels":{"hidden":null}}}`)
	}, state)
	rings.labelSelector, rings.emitWhen = shadeSelector, noopFilter
	rings.labels = func(s string) map[string]string { return map[string]string{"shade": shade(s)} }
	flares := custom("flares", "Flare", true, 8, func(s string) string {
		return pick(s, fmt.Sprintf(`{"spec":{"text":%q}}`, s), fmt.Sprintf(`{"metadata":{"labels":{"text":%q}}}`, s),
			fmt.Sprintf(`{"metadata":{"annotations":{"text":%q}}}`, s), fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, lastApplied, s))
	}, state)
	flares.emitWhen = changedFilter
	all := []*Kind{moons, rings, flares}
	for _, k := range all {
		k.small = true // so that every event has its object
	}
	return all
}

func builtIn(group, plural, kind string, weight int, patch func(string) string) *Kind {
	clusterScoped := map[string]bool{"namespaces": true, "nodes": true, "clusterroles": true, "customresourcedefinitions": true}
	return &Kind{
		gvr: schema.GroupVersionResource{Group: group, Version: "v1", Resource: plural}, kind: kind,
		namespaced: !clusterScoped[plural], fields: map[string]any{}, patch: patch, weight: weight,
	}
}

func custom(plural, kind string, namespaced bool, weight int, patch, status func(string) string) *Kind {
	return &Kind{
		gvr:  schema.GroupVersionResource{Group: customGroup, Version: "v1", Resource: plural},
		kind: kind, namespaced: namespaced, custom: true, fields: map[string]any{}, patch: patch, status: status, weight: weight,
	}
}

// object is a new object of the kind.
func (k *Kind) object(namespace, name, text string) *unstructured.Unstructured {
	o := (&unstructured.Unstructured{Object: k.fields}).DeepCopy()
	o.SetAPIVersion(k.gvr.GroupVersion().String())
	o.SetKind(k.kind)
	o.SetName(name)
	o.SetNamespace(namespace)
	o.SetAnnotations(map[string]string{lastApplied: `{"a":"` + text + `"}`, "text": text})
	if k.labels != nil {
		o.SetLabels(k.labels(text))
	}
	switch k.kind {
	case "Secret":
		o.Object["stringData"] = map[string]any{"text": canary + text}
		o.SetAnnotations(map[string]string{lastApplied: `{"a":"` + text + `"}`, "text": text, "copy": canary + text})
	case "Event":
		o.Object["involvedObject"] = map[string]any{"kind": "Pod", "namespace": namespace, "name": name}
		o.Object["reason"], o.Object["type"], o.Object["message"] = "Chaos", "Normal", text
	}
	return o
}

// definition is the kind's custom resource definition. The columns change with
// the edition, which is a harmless edit of the schema.
func (k *Kind) definition(edition int) *unstructured.Unstructured {
	scope := "Cluster"
	if k.namespaced {
		scope = "Namespaced"
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": k.crd()},
		"spec": map[string]any{
			"group": k.gvr.Group, "scope": scope,
			"names": map[string]any{"plural": k.gvr.Resource, "singular": strings.ToLower(k.kind), "kind": k.kind, "listKind": k.kind + "List"},
			"versions": []any{map[string]any{
				"name": "v1", "served": true, "storage": true, "subresources": map[string]any{"status": map[string]any{}},
				"schema": map[string]any{"openAPIV3Schema": map[string]any{
					"type": "object", "description": fmt.Sprintf("edition %d", edition), "x-kubernetes-preserve-unknown-fields": true,
				}},
			}},
		},
	}}
}

func definitions() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
}

func namespaces() schema.GroupVersionResource {
	return schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
}

func namespaceTarget() string { return targetName("", "namespaces") }

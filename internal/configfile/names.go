package configfile

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/internal/config"
	"github.com/informd/informd/internal/display"
)

// builtins are plural names that Kubernetes itself serves, by group. They serve
// to explain mistakes only: a name that is not here may well exist.
func builtins() map[string][]string {
	return map[string][]string{
		"": {
			"configmaps", "endpoints", "events", "limitranges", "namespaces", "nodes", "persistentvolumeclaims",
			"persistentvolumes", "pods", "podtemplates", "replicationcontrollers", "resourcequotas", "secrets",
			"serviceaccounts", "services",
		},
		"apps":                      {"controllerrevisions", "daemonsets", "deployments", "replicasets", "statefulsets"},
		"autoscaling":               {"horizontalpodautoscalers"},
		"batch":                     {"cronjobs", "jobs"},
		"apiextensions.k8s.io":      {"customresourcedefinitions"},
		"coordination.k8s.io":       {"leases"},
		"discovery.k8s.io":          {"endpointslices"},
		"networking.k8s.io":         {"ingressclasses", "ingresses", "networkpolicies"},
		"policy":                    {"poddisruptionbudgets"},
		"rbac.authorization.k8s.io": {"clusterrolebindings", "clusterroles", "rolebindings", "roles"},
		"scheduling.k8s.io":         {"priorityclasses"},
		"storage.k8s.io":            {"csidrivers", "csinodes", "storageclasses", "volumeattachments"},
	}
}

// shortNames are kubectl's for the built-in resources people watch.
func shortNames() map[string]string {
	return map[string]string{
		"cm": "configmaps", "crd": "customresourcedefinitions", "crds": "customresourcedefinitions", "cj": "cronjobs",
		"deploy": "deployments", "ds": "daemonsets", "ep": "endpoints", "ev": "events", "hpa": "horizontalpodautoscalers",
		"ing": "ingresses", "netpol": "networkpolicies", "no": "nodes", "ns": "namespaces", "pdb": "poddisruptionbudgets",
		"po": "pods", "pv": "persistentvolumes", "pvc": "persistentvolumeclaims", "quota": "resourcequotas",
		"rs": "replicasets", "sa": "serviceaccounts", "sc": "storageclasses", "sts": "statefulsets", "svc": "services",
	}
}

// matchKeys are the keys of an entry of match.
func matchKeys() []string {
	return config.Keys(config.FieldsOf(reflect.ValueOf(&config.Match{}).Elem()))
}

// builtinPlural returns the built-in resource of a group that word is another
// name of: its kind, its singular, its short name or its plural in another case.
func builtinPlural(group, word string) (string, bool) {
	names := builtins()[group]
	if slices.Contains(names, word) {
		return "", false
	}
	lower := strings.ToLower(word)
	for _, meant := range []string{lower, pluralOf(lower), shortNames()[lower]} {
		if slices.Contains(names, meant) {
			return meant, true
		}
	}
	return "", false
}

// builtinElsewhere returns the built-in resource that word names in any way, and
// its group, unless the core group has one of that name.
func builtinElsewhere(word string) (group, plural string, ok bool) {
	all := builtins()
	if slices.Contains(all[""], word) {
		return "", "", false
	}
	for group, names := range all {
		if slices.Contains(names, word) {
			return group, word, true
		}
		if meant, ok := builtinPlural(group, word); ok {
			return group, meant, true
		}
	}
	return "", "", false
}

// subresources are those that Kubernetes itself serves.
func subresources() []string {
	return []string{
		"approval", "attach", "binding", "ephemeralcontainers", "eviction", "exec", "finalize", "log", "portforward", "proxy", "resize",
		"scale", "status", "token",
	}
}

// mixedName explains a resource that has its group in front, as apps/deployments has, with a
// version or without; or it returns nothing.
func mixedName(group, resource string) string {
	before, after, slash := strings.Cut(resource, "/")
	if !slash || slices.Contains(subresources(), after) && !strings.Contains(before, ".") {
		return "" // pods, pods/status
	}
	home, version, plural := before, "", after
	if first, second, more := strings.Cut(after, "/"); more {
		version, plural = first, second
	} else if config.IsAPIVersion(home) {
		home, version = "", home
	}
	if home == config.CoreName {
		home = ""
	}
	known := home == "" || config.IsGroup(home)
	if !known || !config.IsPlural(plural) || version != "" && !config.IsAPIVersion(version) || group != "" && group != home {
		return ""
	}
	parts := slices.DeleteFunc([]string{plural, version, home}, func(part string) bool { return part == "" })
	return config.Quote(resource) + " is a group and a plural name: write " + strings.Join(parts, ".")
}

// guessPlural ends a message about a kind with the plural it probably has.
func guessPlural(kind string) string {
	plural := pluralOf(kind)
	if len(kind) > display.MaxWord || !config.IsPlural(plural) {
		return ""
	}
	return fmt.Sprintf(" (did you mean %q?)", plural)
}

func pluralOf(kind string) string {
	plural, _ := meta.UnsafeGuessKindToResource(schema.GroupVersionKind{Kind: kind})
	return plural.Resource
}

// habit explains keys that people bring along from manifests, or write one level too
// high, where known has the one they mean.
func habit(key string, known []string) (meant, hint string, ok bool) {
	switch {
	case slices.Contains(known, "match") && slices.Contains(matchKeys(), key):
		return "match", fmt.Sprintf("%s is a key of an entry of match, as in match: [{%[1]s: ...}]", key), true
	case slices.Contains(known, "labelSelector") && (key == "condition" || key == "onConditionError"):
		return "", key + " is a key of an entry of a sink's match, as in match: [{resource: pods, condition: ...}]", true
	case slices.Contains(known, "labelSelector") && key == "selector":
		return "labelSelector", `did you mean "labelSelector", about the objects, or "namespaceSelector", about their Namespaces?`, true
	case !slices.Contains(known, "resource"):
		return "", "", false
	case key == "apiVersion":
		return "group", "write group and version, as in group: apps, version: v1", true
	case key == "kind":
		return "resource", "write resource, the plural name, as in resource: deployments", true
	default:
		return "", "", false
	}
}

// didYouMean ends a message about a word that is none of the candidates: with
// the one that was probably meant, else with all of them.
func didYouMean(word string, candidates []string) string {
	return cmp.Or(display.DidYouMean(word, candidates), " (one of: "+strings.Join(candidates, ", ")+")")
}

package configfile

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/informd/informd/internal/config"
	"github.com/informd/informd/pkg/dynwatch"
	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/fieldpath"
)

func (r *checker) checkResources(resources []config.Resource) {
	if len(resources) == 0 && !r.Bad("resources") {
		r.Add(r.place("resources"), "resources", "is required: at least one, as in - {group: apps, resource: deployments}")
	}
	seen := map[string]config.Resource{}
	for i, one := range resources {
		path := config.Index("resources", i)
		if one.Pos == (config.Pos{}) {
			continue // not a mapping, which is reported
		}
		r.checkName(one, path)
		r.checkVersion(one.Version, path+".version")
		r.checkWildcard(one, path)
		r.checkCoverage(one, path)
		r.checkSelectors(one, path)
		r.checkRules(one, path)
		r.checkEmitWhen(one, path)
		r.checkItems(one.Changes, path+".changes", nil)
		r.refuse(one.ResnapshotEvery != 0 && one.ResnapshotEvery < dynwatch.MinResnapshot, path+".resnapshotEvery", "must be at least 1m, or 0 for none: informd announces every object again once in this period, as in 1h")
		if one.Resource == "" || r.Bad(path+".group") || r.Bad(path+".resource") {
			continue
		}
		name := event.GroupOrCore(one.Group) + "/" + one.Resource
		if first, ok := seen[name]; ok {
			r.fail(path, "%s has an entry on line %d already: %s", name, first.Pos.Line, merged(first, one))
			continue
		}
		seen[name] = one
	}
}

// merged says how two entries for one resource become one.
func merged(first, second config.Resource) string {
	const one = "a resource has one entry; "
	others := config.FieldsOf(reflect.ValueOf(&second).Elem())
	var differ []string
	for i, f := range config.FieldsOf(reflect.ValueOf(&first).Elem()) {
		if f.Key != "namespaces" && !reflect.DeepEqual(f.Value.Interface(), others[i].Value.Interface()) {
			differ = append(differ, f.Key)
		}
	}
	switch {
	case len(differ) > 0:
		return one + "write one in the place of both, which differ in " + strings.Join(differ, ", ")
	case len(first.Namespaces) == 0 && len(second.Namespaces) == 0:
		return "remove this one"
	case len(first.Namespaces) == 0 || len(second.Namespaces) == 0:
		return one + "keep the one without namespaces, it covers all"
	default:
		all := config.Unique(slices.Concat(first.Namespaces, second.Namespaces))
		return one + "merge them with namespaces: [" + strings.Join(all, ", ") + "]"
	}
}

// checkName checks group and resource.
func (r *checker) checkName(one config.Resource, path string) {
	message := groupMistake(one.Group)
	r.refuse(message != "", path+".group", "%s", message)
	resource := path + ".resource"
	if r.Bad(resource) {
		return
	}
	if message = resourceMistake(one.Group, one.Resource); message != "" {
		r.fail(resource, "%s", message)
		return
	}
	if home, meant, ok := builtinElsewhere(one.Resource); ok && one.Group == "" && !r.Bad(path+".group") {
		r.fail(resource, "the core group has no %s: write %s.%s, or group: %s", one.Resource, meant, home, home)
	}
}

// groupMistake says what is wrong with an API group, or nothing.
func groupMistake(group string) string {
	before, after, slash := strings.Cut(group, "/")
	switch {
	case group == "":
		return ""
	case slash:
		return fmt.Sprintf("%s is a group and a version: write group: %s and version: %s", config.Quote(group), before, after)
	case group == "v1":
		return "v1 is a version of the core group: write version: v1, without a group"
	case config.IsGlob(group) && !config.IsPattern(group, config.IsGroup):
		return config.Quote(group) + ` is not a pattern for API groups: a name with * and ?, as in "*.example.com"; "*" is every group`
	case !config.IsGlob(group) && !config.IsGroup(group):
		return config.Quote(group) + " is not an API group: a lower-case DNS name, as in apps or cert-manager.io"
	}
	return ""
}

// resourceMistake says what is wrong with a resource's name, or nothing.
func resourceMistake(group, resource string) string {
	const plural = "resource is the plural name, as in `kubectl api-resources`"
	base, sub, slash := strings.Cut(resource, "/")
	switch {
	case resource == "":
		return "is required: the plural name, as in deployments"
	case mixedName(group, resource) != "":
		return mixedName(group, resource)
	case slash:
		return fmt.Sprintf("the subresource %s cannot be watched: a change of it shows in %s", config.Quote(sub), config.Quote(base))
	}
	if config.IsGlob(resource) {
		if !config.IsPattern(resource, config.IsPlural) {
			return config.Quote(resource) + ` is not a pattern for plural names: a name with * and ?, as in "*sets"; "*" is everything that can be watched`
		}
		return ""
	}
	if meant, ok := builtinPlural(group, resource); ok {
		return fmt.Sprintf("%s: %s (did you mean %q?)", config.Quote(resource), plural, meant)
	}
	if len(validation.IsDNS1035Label(resource)) > 0 {
		return fmt.Sprintf("%s: %s%s", config.Quote(resource), plural, guessPlural(resource))
	}
	return ""
}

func (r *checker) checkVersion(version, path string) {
	group, after, slash := strings.Cut(version, "/")
	switch {
	case version == "" || r.Bad(path):
	case slash:
		r.fail(path, "%s is a group and a version: write group: %s and version: %s", config.Quote(version), group, after)
	case len(validation.IsDNS1035Label(version)) > 0:
		r.fail(path, "%s is not a version: write one as in v1 or v1beta1, or remove the key for the one the server prefers", config.Quote(version))
	}
}

func (r *checker) checkSelectors(one config.Resource, path string) {
	if _, err := labels.Parse(one.LabelSelector); err != nil {
		r.fail(path+".labelSelector", `%s is not a label selector, as in "app=web,tier in (a,b)": %v`, config.Quote(one.LabelSelector), err)
	}
	if _, err := labels.Parse(one.NamespaceSelector); err != nil {
		r.fail(path+".namespaceSelector", `%s is not a label selector, as in "tier=prod,!sandbox": %v`, config.Quote(one.NamespaceSelector), err)
	}
	if _, err := fields.ParseSelector(one.FieldSelector); err != nil {
		r.fail(path+".fieldSelector", `%s is not a field selector, as in "status.phase=Running": %v`, config.Quote(one.FieldSelector), err)
	}
}

// checkRules checks what is to become of the objects.
func (r *checker) checkRules(one config.Resource, path string) {
	var rules fieldpath.Rules
	metadataOnly := one.Mode == config.ModeMetadata && !r.Bad(path+".mode")
	for _, list := range []struct {
		key   string
		items []string
	}{{"keep", one.Keep}, {"omit", one.Omit}, {"redact", one.Redact}} {
		r.checkItems(list.items, path+"."+list.key, func(item string) string { return quoted(item, rules.Add(list.key, item, metadataOnly)) })
	}
}

// minAudit keeps audits from being a poll of the API server.
const minAudit = time.Minute

// checkWildcard checks what has a meaning for wildcards only, or none for them.
func (r *checker) checkWildcard(one config.Resource, at string) {
	r.refuse(config.IsGlob(one.Group) && one.Version != "", at+".version", "has no meaning with a pattern for groups: remove it, each resource is watched in the version that the server prefers")
	if len(one.ExcludeResources) > 0 && !one.Wildcard() && !r.Bad(at+".group") && !r.Bad(at+".resource") {
		r.fail(at+".excludeResources", `is for entries with a pattern, as in resource: "*": remove it`)
		return
	}
	r.checkItems(one.ExcludeResources, at+".excludeResources", func(pattern string) string {
		group, resource, slash := strings.Cut(pattern, "/")
		if slash && (group == "" || !config.IsPattern(group, config.IsGroup)) || !slash && !config.IsPattern(group, config.IsPlural) || slash && !config.IsPattern(resource, config.IsPlural) {
			return config.Quote(pattern) + ` is neither a plural name, as in events, nor a group and one, as in apps/deployments or core/secrets; both may have * and ?`
		}
		return ""
	})
}

// checkCoverage checks which namespaces an entry covers.
func (r *checker) checkCoverage(one config.Resource, path string) {
	r.checkNamespaces(one.Namespaces, path+".namespaces")
	r.checkNamespaces(one.ExcludeNamespaces, path+".excludeNamespaces")
	if r.Failed[path+".namespaces"] || r.Failed[path+".excludeNamespaces"] {
		return
	}
	if len(one.ExcludeNamespaces) > 0 && one.ExcludesAll() {
		r.fail(path+".excludeNamespaces", "excludes all of namespaces: remove the names that are in both")
	}
	if one.Scope == config.ScopeNamespaced && (len(one.Namespaces) == 0 || one.Patterned()) {
		r.fail(path+".scope", "namespaced is one watch for each namespace: it needs namespaces with exact names, without excludeNamespaces and namespaceSelector")
	}
}

func (r *checker) checkNamespaces(namespaces []string, path string) {
	r.checkItems(namespaces, path, func(namespace string) string {
		switch {
		case config.IsGlob(namespace) && !config.ValidGlob(namespace):
			return config.Quote(namespace) + " is not a pattern for namespaces: lower-case letters, digits and '-', and * for any of them, ? for one, [abc] for one of these"
		case !config.IsGlob(namespace) && len(validation.IsDNS1123Label(namespace)) > 0:
			return config.Quote(namespace) + " is not a namespace: up to 63 lower-case letters, digits and '-', with a letter or digit at both ends"
		}
		return ""
	})
}

// checkItems checks each item of a list, and that no item is in the list twice. Mistake returns
// what is wrong with an item, "" if nothing is; nil permits all items.
func (r *checker) checkItems(items []string, path string, mistake func(item string) string) {
	seen := make(map[string]bool, len(items))
	for i, item := range items {
		at := config.Index(path, i)
		switch {
		case r.Bad(at):
		case seen[item]:
			r.fail(at, "%s is in the list twice", config.Quote(item))
		case mistake != nil:
			if message := mistake(item); message != "" {
				r.fail(at, "%s", message)
			}
		}
		seen[item] = true
	}
}

// quoted returns the message of an error about an item, "" for nil.
func quoted(item string, err error) string {
	if err == nil {
		return ""
	}
	return config.Quote(item) + ": " + err.Error()
}

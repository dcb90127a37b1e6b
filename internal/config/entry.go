package config

import (
	"reflect"
	"regexp"
	"strings"

	"github.com/informd/informd/internal/config/internal/document"
	"github.com/informd/informd/pkg/event"
)

// coreName is how kubectl's output, subjects and topics write the core group, whose name
// is empty.
const coreName = "core"

// resource decodes an entry of resources: a mapping, or the name of a resource as kubectl
// takes it: "pods", "deployments.apps" or "deployments.v1.apps".
func (r *reading) resource(n *document.Node, path string, entry *Resource) {
	if n.Kind != document.Text || document.Glued(n.Text) {
		r.object(n, path, reflect.ValueOf(entry).Elem())
	} else {
		entry.begin(n.At)
		entry.Resource = n.Text
		r.places[path+".resource"] = n.At
	}
	if entry.Pos == (Pos{}) || r.Bad(path+".group") || r.Bad(path+".version") || r.Bad(path+".resource") {
		return
	}
	if entry.Group == coreName {
		entry.Group = ""
	}
	group := n.Pair("group")
	r.splitName(path, entry, group != nil && group.Value.Kind != document.Null)
}

// splitName moves group and version out of a name like "deployments.v1.apps". What is not
// such a name stays as it is; [reading.checkName] explains it. HasGroup: the entry names its
// group, of which "" is the core group.
func (r *reading) splitName(path string, entry *Resource, hasGroup bool) {
	name, ok := parseResourceName(entry.Resource)
	if !ok {
		return
	}
	switch {
	case hasGroup && entry.Group != name.group:
		r.fail(path+".resource", "%s names the group %s, and group names another: remove one of them", document.Quote(entry.Resource), event.GroupOrCore(name.group))
	case entry.Version != "" && name.version != "" && entry.Version != name.version:
		r.fail(path+".resource", "%s names the version %s, and version names another: remove one of them", document.Quote(entry.Resource), name.version)
	default:
		entry.Group, entry.Resource = name.group, name.resource
		if name.version != "" {
			entry.Version = name.version
		}
	}
}

// resourceName is a resource as kubectl's argument has it.
type resourceName struct{ resource, version, group string }

// ParseResourceName splits a name as an entry of resources takes it: "pods",
// "deployments.apps" or "deployments.v1.apps", each part a name or a pattern. The core group
// is "". It reports whether the text is such a name.
func ParseResourceName(text string) (r Resource, ok bool) {
	if partIs(text, isPlural) {
		return Resource{Resource: text}, true
	}
	name, ok := parseResourceName(text)
	return Resource{Resource: name.resource, Version: name.version, Group: name.group}, ok
}

// Matches reports whether the entry names a resource or matches it with patterns.
func (r Resource) Matches(group, resource string) bool { return r.mayBe(&group, resource) }

// parseResourceName splits <resource>.<group> and <resource>.<version>.<group>, each part
// a name or a pattern. The second part is a version if it looks like one; without a group
// behind it the group is the core group.
func parseResourceName(name string) (resourceName, bool) {
	resource, rest, dotted := strings.Cut(name, ".")
	if !dotted || rest == "" || strings.Contains(name, "/") {
		return resourceName{}, false
	}
	out := resourceName{resource: resource, group: rest}
	if first, group, _ := strings.Cut(rest, "."); isAPIVersion(first) {
		out.version, out.group = first, group
	}
	if out.group == coreName {
		out.group = ""
	}
	return out, partIs(out.resource, isPlural) && (out.group == "" || partIs(out.group, isGroup))
}

// partIs reports whether s is a name of a kind or a pattern for such names.
func partIs(s string, valid func(string) bool) bool {
	if isGlob(s) {
		return isPattern(s, valid)
	}
	return valid(s)
}

// isAPIVersion reports whether s is a version by the rules of Kubernetes: v1, v2beta1.
func isAPIVersion(s string) bool {
	return regexp.MustCompile(`^v[1-9][0-9]*((alpha|beta)[1-9][0-9]*)?$`).MatchString(s)
}

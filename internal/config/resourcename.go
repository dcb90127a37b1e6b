package config

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// CoreName is how kubectl's output, subjects and topics write the core group, whose name
// is empty.
const CoreName = "core"

// ParseResourceName splits a name as an entry of resources takes it: "pods",
// "deployments.apps" or "deployments.v1.apps", each part a name or a pattern. The core group
// is "". It reports whether the text is such a name.
func ParseResourceName(text string) (r Resource, ok bool) {
	if partIs(text, IsPlural) {
		return Resource{Resource: text}, true
	}
	return ResourceNameOf(text)
}

// ResourceNameOf splits <resource>.<group> and <resource>.<version>.<group>, each part
// a name or a pattern. The second part is a version if it looks like one; without a group
// behind it the group is the core group.
func ResourceNameOf(name string) (Resource, bool) {
	resource, rest, dotted := strings.Cut(name, ".")
	if !dotted || rest == "" || strings.Contains(name, "/") {
		return Resource{}, false
	}
	out := Resource{Resource: resource, Group: rest}
	if first, group, _ := strings.Cut(rest, "."); IsAPIVersion(first) {
		out.Version, out.Group = first, group
	}
	if out.Group == CoreName {
		out.Group = ""
	}
	return out, partIs(out.Resource, IsPlural) && (out.Group == "" || partIs(out.Group, IsGroup))
}

// KubectlName returns the name of a resource as kubectl has it: deployments.apps. The core
// group is "" or core.
func KubectlName(group, resource string) string {
	if group == "" || group == CoreName {
		return resource
	}
	return resource + "." + group
}

// partIs reports whether s is a name of a kind or a pattern for such names.
func partIs(s string, valid func(string) bool) bool {
	if IsGlob(s) {
		return IsPattern(s, valid)
	}
	return valid(s)
}

// IsAPIVersion reports whether s is a version by the rules of Kubernetes: v1, v2beta1.
func IsAPIVersion(s string) bool { return apiVersion.MatchString(s) }

var apiVersion = regexp.MustCompile(`^v[1-9][0-9]*((alpha|beta)[1-9][0-9]*)?$`)

// ParseObjectName splits <resource>[.<group>]/[<namespace>/]<name>, as in pods/shop/web-1 or
// nodes/a. The group is "core" or another if the text names one, else "".
func ParseObjectName(text string) (group, resource, namespace, name string, err error) {
	parts := strings.Split(text, "/")
	r, named := ParseResourceName(parts[0])
	if !named || r.Wildcard() || len(parts) < 2 || len(parts) > 3 || slices.Contains(parts, "") {
		return "", "", "", "", fmt.Errorf("object %q: it must be <resource>[.<group>]/[<namespace>/]<name>, as in pods/shop/web-1", text)
	}
	if group = r.Group; strings.Contains(parts[0], ".") && group == "" {
		group = CoreName
	}
	if len(parts) == 3 {
		namespace = parts[1]
	}
	return group, r.Resource, namespace, parts[len(parts)-1], nil
}

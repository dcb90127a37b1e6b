package configfile

import (
	"reflect"

	"github.com/informd/informd/internal/config"
	"github.com/informd/informd/pkg/event"
)

// resource decodes an entry of resources: a mapping, or the name of a resource as kubectl
// takes it: "pods", "deployments.apps" or "deployments.v1.apps".
func (r *reading) resource(n *node, path string, entry *config.Resource) {
	if n.Kind != kindText || isGlued(n.Text) {
		r.object(n, path, reflect.ValueOf(entry).Elem())
	} else {
		entry.Begin(n.At)
		entry.Resource = n.Text
		r.places[path+".resource"] = n.At
	}
	if entry.Pos == (config.Pos{}) || r.Bad(path+".group") || r.Bad(path+".version") || r.Bad(path+".resource") {
		return
	}
	if entry.Group == config.CoreName {
		entry.Group = ""
	}
	group := n.Pair("group")
	r.splitName(path, entry, group != nil && group.Value.Kind != kindNull)
}

// splitName moves group and version out of a name like "deployments.v1.apps". What is not
// such a name stays as it is; [checker.checkName] explains it. HasGroup: the entry names its
// group, of which "" is the core group.
func (r *reading) splitName(path string, entry *config.Resource, hasGroup bool) {
	name, ok := config.ResourceNameOf(entry.Resource)
	if !ok {
		return
	}
	switch {
	case hasGroup && entry.Group != name.Group:
		r.fail(path+".resource", "%s names the group %s, and group names another: remove one of them", config.Quote(entry.Resource), event.GroupOrCore(name.Group))
	case entry.Version != "" && name.Version != "" && entry.Version != name.Version:
		r.fail(path+".resource", "%s names the version %s, and version names another: remove one of them", config.Quote(entry.Resource), name.Version)
	default:
		entry.Group, entry.Resource = name.Group, name.Resource
		if name.Version != "" {
			entry.Version = name.Version
		}
	}
}

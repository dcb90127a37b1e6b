package daemon

import (
	"fmt"
	"slices"
	"strings"

	"github.com/informd/informd/internal/admin"
	"github.com/informd/informd/internal/config"
	"github.com/informd/informd/internal/display"
	"github.com/informd/informd/pkg/dynwatch"
	"github.com/informd/informd/pkg/event"
)

// watchedResource returns the resource of targets that an operator names, as
// <group>/<resource>. The operator names it as kubectl does (pods, deployments.apps,
// deployments.v1.apps), or as a target does (apps/deployments). As with kubectl, a name
// without a group is that of the core group if this has the resource.
func watchedResource(said string, targets []dynwatch.TargetStatus) (string, error) {
	var found []string
	for i := range targets {
		t := &targets[i]
		group := event.GroupOrCore(t.Group)
		name := group + "/" + t.Resource
		if slices.Contains([]string{t.Resource, name, t.Resource + "." + group, t.Resource + "." + t.Version + "." + group}, said) {
			found = append(found, name)
		}
	}
	slices.Sort(found)
	found = slices.Compact(found)
	if core := event.GroupOrCore("") + "/" + said; slices.Contains(found, core) {
		return core, nil
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return "", notWatched(said, targets)
	default:
		for i, name := range found {
			group, resource, _ := strings.Cut(name, "/")
			found[i] = resource + "." + group
		}
		return "", admin.Unknown("the resource %q is ambiguous: name one of %s", said, strings.Join(found, ", "))
	}
}

// notWatched returns the error of a resource that no target has.
func notWatched(said string, targets []dynwatch.TargetStatus) error {
	names := make([]string, len(targets))
	for i := range targets {
		names[i] = config.KubectlName(event.GroupOrCore(targets[i].Group), targets[i].Resource)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	return admin.Unknown("informd does not watch the resource %q%s", said, suggestion(said, "watched resources", names))
}

// unknownSink returns the error of a sink that does not exist.
func unknownSink(said string, names []string) error {
	return admin.Unknown("there is no sink %q%s", said, suggestion(said, "sinks", names))
}

// suggestion ends the error of an unknown name: with the one that was probably meant, else
// with the names that exist.
func suggestion(said, things string, names []string) string {
	const most = 20
	if meant := display.DidYouMean(said, names); meant != "" {
		return meant
	}
	if more := len(names) - most; more > 0 {
		return fmt.Sprintf(" (%s: %s and %d more)", things, strings.Join(names[:most], ", "), more)
	}
	return fmt.Sprintf(" (%s: %s)", things, strings.Join(names, ", "))
}

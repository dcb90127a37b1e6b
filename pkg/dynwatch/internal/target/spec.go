package target

import (
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/pkg/dynwatch/internal/catalog"
	"github.com/informd/informd/pkg/dynwatch/internal/emit"
	"github.com/informd/informd/pkg/dynwatch/internal/frame"
	"github.com/informd/informd/pkg/dynwatch/internal/kube"
	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
	"github.com/informd/informd/pkg/dynwatch/internal/selection"
	"github.com/informd/informd/pkg/event"
)

// Spec is what one target watches.
type Spec struct {
	Group, Version, Resource string
	Namespace                string
	MetadataOnly             bool
	// Exact says that objects stay as the API server sends them.
	Exact                        bool
	LabelSelector, FieldSelector string
	ResnapshotEvery              time.Duration
	// Namespaces are what a watch of all namespaces is filtered by.
	Namespaces selection.Rule
	// Earlier are the groups of entries before it, see [catalog.Wanted].
	Earlier string
	// Content is what events contain.
	emit.Content
}

// Watches reports whether a target of s needs no other watch than one of as: all but the
// content of events is the same.
func (s Spec) Watches(as Spec) bool {
	s.Content, as.Content = emit.Content{}, emit.Content{}
	return s == as
}

// Name is the target's name, without the version, so that a version change
// keeps it: "<group or core>/<resource>[@<namespace>]".
func (s Spec) Name() string {
	n := event.GroupOrCore(s.Group) + "/" + s.Resource
	if s.Namespace != "" {
		n += "@" + s.Namespace
	}
	return n
}

// Selects reports whether objects can leave and enter the selection while they
// exist.
func (s Spec) Selects() bool { return s.LabelSelector != "" || s.FieldSelector != "" }

// GroupResource is the resource without its version.
func (s Spec) GroupResource() schema.GroupResource {
	return schema.GroupResource{Group: s.Group, Resource: s.Resource}
}

// Wanted is the resource of a target.
func (s Spec) Wanted() catalog.Wanted {
	return catalog.Wanted{Group: s.Group, Version: s.Version, Resource: s.Resource, NamespaceKeys: s.namespaceKeys(), Earlier: s.Earlier}
}

// Shown is the content of events. Values of Secrets do not show in it.
func (s Spec) Shown() emit.Content {
	c := s.Content
	c.Secret = s.Group == "" && s.Resource == "secrets" && !s.Exact
	return c
}

// Source makes the source of a resource as a target wants it. Its objects come in the
// shape that shape returns at the time; a nil filter lets all through.
func (s Spec) Source(r catalog.Resolved, c *kube.Clients, shape func() *frame.Shape, f *selection.Filter) (*listwatch.Source, error) {
	o := listwatch.Options{Clients: c, Options: frame.Options{Exact: s.Exact, Shape: shape}, Covers: f.Covers}
	if f != nil {
		o.Wants = f.Wants
	}
	return listwatch.New(listwatch.Resource{
		GVR: r.GVR, Kind: r.Kind, Namespaced: r.Namespaced, Name: s.Name(), Namespace: s.Namespace,
		MetadataOnly: s.MetadataOnly, LabelSelector: s.LabelSelector, FieldSelector: s.FieldSelector,
	}, o)
}

// namespaceKeys names what a cluster-scoped resource cannot have.
func (s Spec) namespaceKeys() string {
	var keys []string
	if s.Namespace != "" || s.Namespaces.Names != "" {
		keys = append(keys, "namespaces")
	}
	if s.Namespaces.Excluded != "" {
		keys = append(keys, "excludeNamespaces")
	}
	if s.Namespaces.Selector != "" {
		keys = append(keys, "namespaceSelector")
	}
	if last := len(keys) - 1; last > 0 {
		keys = []string{strings.Join(keys[:last], ", "), keys[last]}
	}
	return strings.Join(keys, " and ")
}

// Selection differs for two specs that select other objects.
func (s Spec) Selection() string {
	text := s.LabelSelector + "\n" + s.FieldSelector
	switch {
	case s.Namespaces != (selection.Rule{}):
		return text + "\n" + s.Namespaces.Names + "\n" + s.Namespaces.Excluded + "\n" + s.Namespaces.Selector
	case s.Selects():
		return text
	default:
		return ""
	}
}

// Attributes are what is asked about a spec's own resource.
func (s Spec) Attributes() catalog.Attributes {
	name, _ := listwatch.SelectedName(s.FieldSelector)
	return catalog.Attributes{
		Namespace: s.Namespace, Group: s.Group, Version: s.Version, Resource: s.Resource, Name: name,
		FieldSelector: catalog.Selector{Raw: s.FieldSelector}, LabelSelector: catalog.Selector{Raw: s.LabelSelector},
	}
}

// Covers reports whether the target is that of the event, or may be by its namespace.
func (s Spec) Covers(e *event.Event) bool {
	switch {
	case e.Op.Control():
		return e.Target == s.Name()
	case s.Namespace != "":
		return e.Namespace == s.Namespace
	}
	f := selection.NewFilter(s.Namespaces)
	return f == nil || f.Named(e.Namespace)
}

package dynwatch

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/pkg/dynwatch/internal/catalog"
	"github.com/informd/informd/pkg/dynwatch/internal/selection"
	"github.com/informd/informd/pkg/dynwatch/internal/target"
	"github.com/informd/informd/pkg/event"
)

// selectable is what selectors see of an object.
type selectable struct {
	Metadata struct {
		Name      string            `json:"name"`
		Namespace string            `json:"namespace"`
		Labels    map[string]string `json:"labels"`
	} `json:"metadata"`
}

func selectableOf(raw []byte) (s selectable, err error) {
	err = json.Unmarshal(raw, &s)
	return s, err
}

// outcome is what an entry makes of a change.
type outcome struct {
	spec    target.Spec
	refusal string
	assumed []string
	// left and entered: the object has crossed the edge of the selection.
	left, entered bool
}

func refused(format string, args ...any) (outcome, error) {
	return outcome{refusal: fmt.Sprintf(format, args...)}, nil
}

// judge says what an entry makes of a change, before being the entries ahead of it.
func (w *wantedSet) judge(before []Resource, r Resource, c *Change, now selectable) (outcome, error) {
	one, p := schema.GroupResource{Group: c.Group, Resource: c.Resource}, r.pattern()
	wild := p.Wild()
	switch {
	case !wild && (r.Group != c.Group || r.Resource != c.Resource):
		return refused("the entry is for %s, and the object is of %s", p.ID(), catalog.NameOf(one))
	case wild && !catalog.Glob(r.Group, c.Group):
		return refused("group %q of the entry does not match %q", event.GroupOrCore(r.Group), event.GroupOrCore(c.Group))
	case wild && !catalog.Glob(r.Resource, c.Resource):
		return refused("resource %q of the entry does not match %q", r.Resource, c.Resource)
	case wild && p.Excludes(one):
		return refused("excludeResources excludes %s", catalog.NameOf(one))
	case wild && w.Named[one]:
		return refused("%s has its own entry", catalog.NameOf(one))
	}
	for _, b := range before {
		if earlier := b.pattern(); wild && earlier.Wild() && earlier.Matches(one) && !earlier.Excludes(one) {
			return refused("the earlier wildcard %s matches the resource", earlier.ID())
		}
	}
	if v, bad := r.inNamespace(now.Metadata.Namespace); bad {
		return v, nil
	}
	v := outcome{spec: r.specFor(one, now.Metadata.Namespace)}
	if wild {
		v.assumed = append(v.assumed, fmt.Sprintf("that the API server can list and watch %s", catalog.NameOf(one)))
	}
	if r.Version != "" && r.Version != c.Version {
		v.assumed = append(v.assumed, fmt.Sprintf("the object is of version %s; informd would watch it in version %s, as the API server converts it", c.Version, r.Version))
	}
	if r.NamespaceSelector != "" {
		v.assumed = append(v.assumed, fmt.Sprintf("that the Namespace %s has labels that match namespaceSelector %q", now.Metadata.Namespace, r.NamespaceSelector))
	}
	if r.Changes != (Changes{}) && c.Op == event.Modified && c.Old == nil {
		v.assumed = append(v.assumed, "that the previous object is unknown, so the event lists no changes")
	}
	return v, v.selects(r, c, now)
}

// inNamespace says whether the names of namespaces keep an entry from taking objects of
// one; of a cluster-scoped object it is empty.
func (r Resource) inNamespace(namespace string) (v outcome, bad bool) {
	switch {
	case len(r.Namespaces) == 0 && !r.patterned():
		return outcome{}, false
	case namespace == "":
		v.refusal = "the entry is for namespaced objects, and the object has no metadata.namespace"
		return v, true
	}
	// What takes a label to be known is the API server's.
	r.NamespaceSelector, r.Scope = "", ScopeCluster
	if f := selection.NewFilter(r.specs()[0].Namespaces); f != nil && !f.Named(namespace) {
		v.refusal = fmt.Sprintf("namespace %s does not match (namespaces: %s)", namespace, namespacesOf(r))
		return v, true
	}
	return outcome{}, false
}

func namespacesOf(r Resource) string {
	text := "all"
	if len(r.Namespaces) > 0 {
		text = strings.Join(r.Namespaces, ", ")
	}
	if len(r.ExcludeNamespaces) > 0 {
		text += ", except " + strings.Join(r.ExcludeNamespaces, ", ")
	}
	return text
}

// specFor is the spec of the target that has the objects of a namespace.
func (r Resource) specFor(one schema.GroupResource, namespace string) target.Spec {
	all := r.specs()
	s := all[max(slices.IndexFunc(all, func(s target.Spec) bool { return s.Namespace == namespace }), 0)]
	s.Group, s.Resource = one.Group, one.Resource
	return s
}

// selects evaluates the selectors on the object, and on that before.
func (v *outcome) selects(r Resource, c *Change, now selectable) error {
	is, unknown, err := r.selected(now)
	if err != nil {
		return err
	}
	if len(unknown) > 0 {
		v.assumed = append(v.assumed, "that the object matches "+strings.Join(unknown, ", ")+" of fieldSelector, which only the API server evaluates")
	}
	was := is
	if c.Old != nil {
		old, err := selectableOf(c.Old)
		if err != nil {
			return fmt.Errorf("read the previous object: %w", err)
		}
		if was, _, err = r.selected(old); err != nil {
			return err
		}
	}
	switch {
	case c.Op == event.Modified && was != is:
		v.left, v.entered = was, is
	case c.Op == event.Deleted && !was, !is:
		v.refusal = "the object does not match " + r.selectors()
	}
	return nil
}

func (r Resource) selectors() string {
	var all []string
	if r.LabelSelector != "" {
		all = append(all, fmt.Sprintf("labelSelector %q", r.LabelSelector))
	}
	if r.FieldSelector != "" {
		all = append(all, fmt.Sprintf("fieldSelector %q", r.FieldSelector))
	}
	return strings.Join(all, " and ")
}

// selected reports whether an object matches the selectors, and names the fields that
// only the API server can compare.
func (r Resource) selected(of selectable) (is bool, unknown []string, err error) {
	byLabel, err := labels.Parse(r.LabelSelector)
	if err != nil {
		return false, nil, fmt.Errorf("label selector: %w", err)
	}
	byField, err := fields.ParseSelector(r.FieldSelector)
	if err != nil {
		return false, nil, fmt.Errorf("field selector: %w", err)
	}
	is = byLabel.Matches(labels.Set(of.Metadata.Labels))
	known := fields.Set{"metadata.name": of.Metadata.Name, "metadata.namespace": of.Metadata.Namespace}
	for _, q := range byField.Requirements() {
		if !known.Has(q.Field) {
			unknown = append(unknown, q.Field)
			continue
		}
		one, err := fields.ParseSelector(q.Field + string(q.Operator) + fields.EscapeValue(q.Value))
		if err != nil {
			return false, nil, fmt.Errorf("field selector: %w", err)
		}
		is = is && one.Matches(known)
	}
	return is, unknown, nil
}

package dynwatch

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/informd/informd/pkg/dynwatch/internal/emit"
	"github.com/informd/informd/pkg/dynwatch/internal/frame"
	"github.com/informd/informd/pkg/dynwatch/internal/selection"
	"github.com/informd/informd/pkg/dynwatch/internal/target"
	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/fieldpath"
)

// Mode says how much of each object is watched.
type Mode string

// The modes.
const (
	// Full delivers whole objects.
	Full Mode = "full"
	// Metadata delivers kind and metadata only; the rest never crosses the wire.
	Metadata Mode = "metadata"
)

// modeOf is the mode of a target.
func modeOf(s target.Spec) Mode {
	if s.MetadataOnly {
		return Metadata
	}
	return Full
}

// Resource is one wanted resource.
type Resource struct {
	// Group is the API group, empty for the core group, or a glob (path.Match).
	Group string
	// Version is the API version; empty means the one the server prefers. It is
	// empty if Group is a glob.
	Version string
	// Resource is the plural name, as in "deployments", or a glob. With a glob here
	// or in Group this is a wildcard: every resource that both match, that can be
	// listed and watched, and that has no separate Resource. Of two wildcards the
	// first one has what both match.
	Resource string
	// ExcludeResources are globs of resources that a wildcard excludes: plural names, or
	// "<group or core>/<plural name>".
	ExcludeResources []string
	// Mode is [Full] if empty.
	Mode Mode
	// Namespaces are names and globs (see [path.Match]); empty means all. ExcludeNamespaces
	// are excluded. NamespaceSelector is a label selector over the Namespace objects, which
	// the target follows as they change. With any of them a wildcard excludes cluster-scoped
	// resources.
	Namespaces, ExcludeNamespaces []string
	NamespaceSelector             string
	// Scope is [ScopeAuto] if empty.
	Scope Scope
	// LabelSelector and FieldSelector are evaluated by the API server.
	LabelSelector, FieldSelector string
	// Exact is for programs: the data of events is the object as the API server sent it, with
	// managedFields, the last-applied annotation and the values of Secrets. A log then stores
	// these values in clear. An object of another kind than that of the resource is rejected.
	// Exact cannot be combined with Keep, Omit, Redact or change filters. informd's config has no such key.
	Exact bool
	// Keep, Omit and Redact select the parts of an object that its events contain: see
	// [fieldpath.ParseRules]. In metadata mode their paths select metadata.
	Keep, Omit, Redact []string
	// EmitWhen says which updates become events.
	EmitWhen EmitWhen
	// SinkFilters are change filters of the log's readers: Unchanged of [event.Event] lists those
	// that see no change. In metadata mode, filters of other fields have no effect.
	SinkFilters []string
	// FieldManager adds the field manager that wrote the object last to each event except deletions;
	// OwnerChain adds the chain of its controllers. Both are members of the event's data with the
	// names fieldManager and ownerChain (see [event.Event.Member]), on a best-effort basis. If Redact
	// matches their source, they are absent.
	FieldManager, OwnerChain bool
	// Changes selects what modified events contain beside the object.
	Changes Changes
	// ResnapshotEvery is the period in which [Manager.Due] returns the resource: 0 for never, at
	// least MinResnapshot.
	ResnapshotEvery time.Duration
}

// EmitWhen says which updates of an object become events. An update is compared with the object's
// last event in the log, as the event would have it: after Keep, Omit and Redact.
type EmitWhen struct {
	// Changed are change filters: see [fieldpath.ParseChangeFilter]. At least one of them must see a
	// change; no filter means every update.
	Changed []string
	// SuppressNoop: not those that change nothing but resourceVersion.
	SuppressNoop bool
}

// Changes says what a [event.Modified] has beside the object of how that has changed.
type Changes struct {
	// Changed: the paths to what has changed, as [event.MemberChanged].
	Changed bool
	// Patch: a JSON patch (RFC 6902) that makes of the object in the event before the
	// one in this event, as [event.MemberPatch].
	Patch bool
	// OldObject: the object in the event before, as [event.MemberOld]. It has the shape that
	// objects have now: what is redacted by now is redacted in it.
	OldObject bool
}

// MinResnapshot is the least period of [Resource.ResnapshotEvery]: less would be a poll of the API server.
const MinResnapshot = time.Minute

// ResourceError is a fault of one resource of a wanted set. Errors of [Manager.Apply] and
// [Manager.Check] join one for each fault.
type ResourceError struct {
	// Index is the place in the wanted set, from 0.
	Index int
	// Resource is the group and the resource: core/pods, apps/deployments.
	Resource string
	Err      error
}

func (e *ResourceError) Error() string {
	return fmt.Sprintf("resource %d (%s): %v", e.Index, e.Resource, e.Err)
}

// Unwrap returns Err.
func (e *ResourceError) Unwrap() error { return e.Err }

// specs checks the wanted set as a whole and returns one spec per target. Those of
// wildcards are not among them.
func specs(wanted []Resource) (map[string]target.Spec, error) {
	targets := make(map[string]target.Spec)
	seen := make(map[string]bool)
	earlier := make(map[string][]string) // the groups of the entries so far, by resource
	var errs []error
	for i, r := range wanted {
		id := event.GroupOrCore(r.Group) + "/" + r.Resource
		if err := r.validate(); err != nil {
			errs = append(errs, &ResourceError{Index: i, Resource: id, Err: err})
			continue
		}
		if seen[id] {
			errs = append(errs, &ResourceError{Index: i, Resource: id, Err: errors.New("listed twice; merge the entries' namespaces into one")})
			continue
		}
		seen[id] = true
		if r.pattern().Wild() {
			continue
		}
		for _, s := range r.specs() {
			s.Earlier = strings.Join(earlier[r.Resource], ",")
			targets[s.Name()] = s
		}
		earlier[r.Resource] = append(earlier[r.Resource], event.GroupOrCore(r.Group))
	}
	return targets, errors.Join(errs...)
}

func (r Resource) validate() error {
	if r.Resource == "" {
		return errors.New("the resource name is missing")
	}
	if err := r.pattern().Validate(); err != nil {
		return err
	}
	if r.Mode != "" && r.Mode != Full && r.Mode != Metadata {
		return fmt.Errorf("mode %q: want %q or %q", r.Mode, Full, Metadata)
	}
	if err := r.validateNamespaces(); err != nil {
		return err
	}
	if r.ResnapshotEvery != 0 && r.ResnapshotEvery < MinResnapshot {
		return fmt.Errorf("resnapshotEvery %s: want at least %s, or 0 for none", r.ResnapshotEvery, MinResnapshot)
	}
	if _, err := labels.Parse(r.LabelSelector); err != nil {
		return fmt.Errorf("label selector: %w", err)
	}
	if _, err := fields.ParseSelector(r.FieldSelector); err != nil {
		return fmt.Errorf("field selector: %w", err)
	}
	if r.Exact && (r.EmitWhen.SuppressNoop || len(r.Keep)+len(r.Omit)+len(r.Redact)+len(r.EmitWhen.Changed)+len(r.SinkFilters) > 0) {
		return errors.New("exact: remove keep, omit, redact and change filters, or Exact")
	}
	if _, err := r.rules(); err != nil {
		return err
	}
	_, err := r.filters()
	return err
}

func (r Resource) rules() (*fieldpath.Rules, error) {
	return fieldpath.ParseRules(r.Keep, r.Omit, r.Redact, r.Mode == Metadata)
}

func (r Resource) filters() (*emit.Filters, error) {
	entry, err := fieldpath.ParseChangeFilters(r.EmitWhen.Changed, r.Mode == Metadata)
	if err != nil {
		return nil, err
	}
	sinks, err := fieldpath.ParseChangeFilters(r.SinkFilters, false)
	if err != nil {
		return nil, err
	}
	return emit.NewFilters(entry, sinks, r.EmitWhen.SuppressNoop), nil
}

// specs are those of a resource that is valid.
func (r Resource) specs() []target.Spec {
	one := target.Spec{
		Group: r.Group, Version: r.Version, Resource: r.Resource, MetadataOnly: r.Mode == Metadata, Exact: r.Exact,
		LabelSelector: r.LabelSelector, FieldSelector: r.FieldSelector, ResnapshotEvery: r.ResnapshotEvery,
		Content: emit.Content{ShapeOptions: frame.ShapeOptions{Actor: r.FieldManager, Owner: r.OwnerChain}, Changes: emit.Changes(r.Changes)},
	}
	one.Rules, _ = r.rules()     // was checked
	one.Filters, _ = r.filters() // likewise
	if r.clusterWide() {
		one.Namespaces = selection.NewRule(r.Namespaces, r.ExcludeNamespaces, r.NamespaceSelector)
		return []target.Spec{one}
	}
	all := make([]target.Spec, len(r.Namespaces))
	for i, namespace := range r.Namespaces {
		all[i] = one
		all[i].Namespace = namespace
	}
	return all
}

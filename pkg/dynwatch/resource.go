package dynwatch

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/informd/informd/pkg/dynwatch/internal/frame"
	"github.com/informd/informd/pkg/dynwatch/internal/selection"
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
	// Keep, Omit and Redact select the parts of an object that its events contain: see
	// [fieldpath.ParseRules]. In metadata mode their paths select metadata.
	Keep, Omit, Redact []string
	// OnlyWhenChanged are change filters: see [fieldpath.ParseGate]. A [event.Modified] is
	// appended only if a field of one of them has changed since the object's last event; no
	// filter means every change. With SuppressNoop, a change of resourceVersion and
	// managedFields alone is not appended. The config calls them emitWhen.
	OnlyWhenChanged []string
	SuppressNoop    bool
	// TellUnchanged are change filters of the log's readers: [event.Gates] lists those without
	// a change. In metadata mode, filters of other fields have no effect.
	TellUnchanged []string
	// Actor adds the field manager that wrote the object last to each event except deletions;
	// Owner adds the chain of its controllers. Both are members of the event's data (see
	// [event.Member]), on a best-effort basis. If Redact matches their source, they are
	// absent. The config calls them fieldManager and ownerChain.
	Actor, Owner bool
	// Changes selects what modified events contain beside the object.
	Changes Changes
	// Resync is the period in which every object is announced once more: 0 for never, at least
	// MinResync. The config calls it resnapshotEvery.
	Resync time.Duration
}

// Changes says what a [event.Modified] has beside the object of how that has changed.
type Changes struct {
	// Paths: the paths to what has changed, as [event.MemberChanged].
	Paths bool
	// Patch: a JSON patch (RFC 6902) that makes of the object in the event before the
	// one in this event, as [event.MemberPatch].
	Patch bool
	// Old: the object in the event before, as [event.MemberOld]. It has the shape that
	// objects have now: what is redacted by now is redacted in it.
	Old bool
}

// MinResync is the least period of [Resource.Resync].
const MinResync = time.Minute

// spec is what one target watches.
type spec struct {
	group, version, resource     string
	namespace                    string
	mode                         Mode
	labelSelector, fieldSelector string
	resync                       time.Duration
	// namespaces are what a watch of all namespaces is filtered by.
	namespaces selection.Rule
	// earlier are the groups of entries before it, see [catalog.Wanted].
	earlier string
	// rules are what becomes of the objects, nil for nothing, and gates which of their
	// changes count, nil for all.
	rules *fieldpath.Rules
	gates *frame.Gates
	// changes is what events say of changes, actor and owner what else they have beside
	// the object.
	changes      Changes
	actor, owner bool
}

// watches reports whether a target of s needs no other watch than one of as: all but
// the rules, the gates and what events have beside the object are the same.
func (s spec) watches(as spec) bool {
	s.rules, as.rules = nil, nil
	s.gates, as.gates = nil, nil
	s.changes, as.changes = Changes{}, Changes{}
	s.actor, as.actor, s.owner, as.owner = false, false, false, false
	return s == as
}

// name is the target's name, without the version, so that a version change
// keeps it: "<group or core>/<resource>[@<namespace>]".
func (s spec) name() string {
	n := event.GroupOrCore(s.group) + "/" + s.resource
	if s.namespace != "" {
		n += "@" + s.namespace
	}
	return n
}

// selects reports whether objects can leave and enter the selection while they
// exist.
func (s spec) selects() bool { return s.labelSelector != "" || s.fieldSelector != "" }

// specs checks the wanted set as a whole and returns one spec per target. Those of
// wildcards are not among them.
func specs(wanted []Resource) (map[string]spec, error) {
	targets := make(map[string]spec)
	seen := make(map[string]bool)
	var errs []error
	for i, r := range wanted {
		id := event.GroupOrCore(r.Group) + "/" + r.Resource
		if err := r.validate(); err != nil {
			errs = append(errs, fmt.Errorf("resource %d (%s): %w", i, id, err))
			continue
		}
		if seen[id] {
			errs = append(errs, fmt.Errorf("resource %d (%s): listed twice; merge the entries' namespaces into one", i, id))
			continue
		}
		seen[id] = true
		if r.pattern().Wild() {
			continue
		}
		for _, s := range r.specs() {
			targets[s.name()] = s
		}
	}
	nameEarlier(wanted, targets)
	return targets, errors.Join(errs...)
}

// nameEarlier notes in each spec the groups of the entries before it that name a
// resource the same way, joined by commas.
func nameEarlier(wanted []Resource, targets map[string]spec) {
	groups := make(map[string][]string) // by resource
	for _, r := range wanted {
		if r.pattern().Wild() {
			continue
		}
		for name, s := range targets {
			if s.group == r.Group && s.resource == r.Resource {
				s.earlier = strings.Join(groups[r.Resource], ",")
				targets[name] = s
			}
		}
		groups[r.Resource] = append(groups[r.Resource], event.GroupOrCore(r.Group))
	}
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
	if r.Resync != 0 && r.Resync < MinResync {
		return fmt.Errorf("resnapshotEvery %s: want at least %s, or 0 for none", r.Resync, MinResync)
	}
	if _, err := labels.Parse(r.LabelSelector); err != nil {
		return fmt.Errorf("label selector: %w", err)
	}
	if _, err := fields.ParseSelector(r.FieldSelector); err != nil {
		return fmt.Errorf("field selector: %w", err)
	}
	if _, err := r.rules(); err != nil {
		return err
	}
	_, err := r.gates()
	return err
}

func (r Resource) rules() (*fieldpath.Rules, error) {
	return fieldpath.ParseRules(r.Keep, r.Omit, r.Redact, r.Mode == Metadata)
}

func (r Resource) gates() (*frame.Gates, error) {
	own, err := fieldpath.ParseGates(r.OnlyWhenChanged, r.Mode == Metadata)
	if err != nil {
		return nil, err
	}
	others, err := fieldpath.ParseGates(r.TellUnchanged, false)
	if err != nil {
		return nil, err
	}
	return frame.NewGates(own, others, r.SuppressNoop), nil
}

// specs are those of a resource that is valid.
func (r Resource) specs() []spec {
	one := spec{
		group: r.Group, version: r.Version, resource: r.Resource, mode: r.Mode,
		labelSelector: r.LabelSelector, fieldSelector: r.FieldSelector, resync: r.Resync,
		changes: r.Changes, actor: r.Actor, owner: r.Owner,
	}
	if one.mode == "" {
		one.mode = Full
	}
	one.rules, _ = r.rules() // was checked
	one.gates, _ = r.gates() // likewise
	if r.clusterWide() {
		one.namespaces = selection.NewRule(r.Namespaces, r.ExcludeNamespaces, r.NamespaceSelector)
		return []spec{one}
	}
	all := make([]spec, len(r.Namespaces))
	for i, namespace := range r.Namespaces {
		all[i] = one
		all[i].namespace = namespace
	}
	return all
}

package dynwatch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/internal/display"
	"github.com/informd/informd/pkg/dynwatch/internal/catalog"
	"github.com/informd/informd/pkg/dynwatch/internal/kube"
	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
	"github.com/informd/informd/pkg/dynwatch/internal/selection"
	"github.com/informd/informd/pkg/dynwatch/internal/target"
)

// Ready is the state of a target in a plan that nothing keeps from being watched.
const Ready State = "ready"

// WatchPlan is what watching a wanted set would come to.
type WatchPlan struct {
	// Targets are sorted by name. A wildcard is among them, under its own pattern, if
	// it has no target, or if it cannot be known whether it has all.
	Targets []TargetPlan
	// Optional is what the credentials lack and watching works without, though not as
	// well.
	Optional []MissingAccess
}

// MissingAccess are verbs on a resource that the credentials do not allow.
type MissingAccess struct {
	Group    string `json:"group"`
	Resource string `json:"resource"`
	// Namespace is where they are missing, empty for the whole cluster.
	Namespace string `json:"namespace,omitempty"`
	// Name is the only object that needs the access, empty for all.
	Name  string   `json:"name,omitempty"`
	Verbs []string `json:"verbs"`
	// Without says what is different as long as they are missing.
	Without string `json:"without"`
}

// TargetPlan is what watching one target would come to. In JSON, what is not known is left out.
type TargetPlan struct {
	Name      string `json:"target"`
	Group     string `json:"group"`
	Version   string `json:"version,omitempty"`
	Resource  string `json:"resource"`
	Kind      string `json:"kind,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Mode      Mode   `json:"mode"`
	// Scope is [ScopeNamespaced] if the watch is of Namespace alone, else [ScopeCluster].
	// ClusterScoped: the objects are in no namespace.
	Scope         Scope `json:"scope"`
	ClusterScoped bool  `json:"clusterScoped,omitempty"`
	// Namespaces, ExcludeNamespaces and NamespaceSelector are what a watch of the cluster
	// is filtered by, as in [Resource]. MatchingNamespaces is how many namespaces they
	// match now, nil without a filter, and if the Namespaces may not be listed.
	Namespaces         []string `json:"namespaces,omitempty"`
	ExcludeNamespaces  []string `json:"excludeNamespaces,omitempty"`
	NamespaceSelector  string   `json:"namespaceSelector,omitempty"`
	MatchingNamespaces *int     `json:"matchingNamespaces,omitempty"`
	// State is [Ready], or the state that the target would be in now: [Waiting],
	// [Forbidden] or [Degraded]. It is Forbidden, too, if the labels of Namespaces, which
	// a NamespaceSelector needs, could not be followed.
	State State `json:"state"`
	// Reason says why the state is what it is; of a target that is ready, what could
	// not be found out about it.
	Reason string `json:"reason,omitempty"`
	// MissingVerbs are the verbs, of "list" and "watch", that the credentials do not
	// allow on the resource, MissingNamespaceVerbs those on the Namespaces, whose labels
	// a NamespaceSelector needs. They are also empty if the API server does not say.
	MissingVerbs          []string `json:"missingVerbs,omitempty"`
	MissingNamespaceVerbs []string `json:"missingNamespaceVerbs,omitempty"`
	// ResourceVersion is the revision of the list that Objects is from, 0 if that is not known.
	ResourceVersion uint64 `json:"resourceVersion,omitempty,string"`
	// Objects is the number of objects in the namespaces of the target, as the API server counts
	// them. More: there are more, and only a complete list would count them.
	Objects int  `json:"objects"`
	More    bool `json:"moreObjects,omitempty"`
}

const (
	// plansAtOnce is how many targets are asked about at a time.
	plansAtOnce = 4
	// mostAsked is how many namespaces of a filtered target are asked how many objects they have, and
	// mostRead how many objects are counted in the answer of a server that ignores limits.
	mostAsked = 50
	mostRead  = 5000
	// planTimeout bounds the asking about one target, greetTimeout the wait for the
	// first answer of the API server.
	planTimeout  = 30 * time.Second
	greetTimeout = 10 * time.Second
)

// planner asks what watching would come to.
type planner struct {
	clients *kube.Clients
	// namespaces are those of the cluster, listed once if a target is filtered;
	// unlisted is why they are not known. Nobody changes them while targets are asked
	// about.
	namespaces            *selection.Namespaces
	unlisted              error
	missingNamespaceVerbs []string
}

// Plan finds out the watches, objects and permissions of the wanted set. Of the options it uses
// Kubernetes and MaxWatches. It changes nothing, and costs few requests: it examines four targets at a
// time, each for at most 30 seconds, and reads one object of each, or one in each of up to 50
// namespaces. The plan of a target names its faults. The error is that the wanted set is not valid,
// that the API server is unreachable or rejects the credentials, or that of ctx.
func Plan(ctx context.Context, options Options, wanted []Resource) (WatchPlan, error) {
	set, err := newWantedSet(wanted, options.MaxWatches)
	if err != nil {
		return WatchPlan{}, fmt.Errorf("plan resources: %w", err)
	}
	logger := slog.New(slog.DiscardHandler)
	c, err := kube.NewClients(options.Kubernetes, logger)
	if err != nil {
		return WatchPlan{}, fmt.Errorf("plan resources: %w", err)
	}
	defer c.Close()
	n, err := selection.NewNamespaces(c, logger)
	if err != nil {
		return WatchPlan{}, fmt.Errorf("plan resources: %w", err)
	}
	p := &planner{clients: c, namespaces: n}
	if err := p.greet(ctx); err != nil {
		return WatchPlan{}, err
	}
	targets, wildcards := p.expand(ctx, set)
	p.askNamespaces(ctx, targets)
	names := slices.Sorted(maps.Keys(targets))
	plans := make([]TargetPlan, len(names))
	var all sync.WaitGroup
	turns := make(chan struct{}, plansAtOnce)
	for i, name := range names {
		turns <- struct{}{}
		all.Go(func() {
			defer func() { <-turns }()
			plans[i] = p.target(ctx, targets[name])
		})
	}
	all.Wait()
	plans = append(plans, wildcards...)
	slices.SortFunc(plans, func(a, b TargetPlan) int { return strings.Compare(a.Name, b.Name) })
	return WatchPlan{Targets: plans, Optional: append(p.optional(ctx, targets), p.optionalOwners(ctx, targets)...)}, ctx.Err()
}

// greet finds out whether there is an API server that knows the credentials. Whoever
// it is may not be allowed to know the version, or there may be none.
func (p *planner) greet(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, greetTimeout)
	defer cancel()
	_, err := p.clients.Discovery.Client.Get().MaxRetries(0).AbsPath("/version").DoRaw(ctx)
	if err == nil || apierrors.IsForbidden(err) || apierrors.IsNotFound(err) {
		return nil
	}
	return fmt.Errorf("connect to the API server at %s: %w", display.Address(p.clients.Config.Host), err)
}

// target makes the plan of one target.
func (p *planner) target(ctx context.Context, s target.Spec) TargetPlan {
	ctx, cancel := context.WithTimeout(ctx, planTimeout)
	defer cancel()
	t := newTargetPlan(s)
	// An answer that does not come is no news: what is missing shows below.
	t.MissingVerbs, _ = catalog.MissingVerbs(ctx, p.clients.Discovery.Client, s.Attributes(), catalog.NeededVerbs())
	if s.Namespaces.Selector != "" {
		t.MissingNamespaceVerbs = p.missingNamespaceVerbs
	}
	err := p.look(ctx, s, &t)
	switch {
	case err != nil:
		t.State, t.Reason = target.StateAfter(err, false), display.Reason(err.Error())
	case slices.Contains(t.MissingVerbs, "watch"):
		t.State, t.Reason = Forbidden, "the credentials do not allow to watch it"
	case len(t.MissingNamespaceVerbs) > 0:
		t.State, t.Reason = Forbidden, "namespaceSelector: the labels of namespaces are unreadable"
	}
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		t.Reason = fmt.Sprintf("the API server did not answer every request within %v: %s", planTimeout, t.Reason)
	}
	return t
}

// newTargetPlan is the plan of a target that nothing is known of yet.
func newTargetPlan(s target.Spec) TargetPlan {
	t := TargetPlan{
		Name: s.Name(), Group: s.Group, Version: s.Version, Resource: s.Resource, Namespace: s.Namespace, Mode: modeOf(s), State: Ready,
		Scope: ScopeCluster, NamespaceSelector: s.Namespaces.Selector,
	}
	if s.Namespace != "" {
		t.Scope = ScopeNamespaced
	}
	if s.Namespaces.Names != "" {
		t.Namespaces = strings.Split(s.Namespaces.Names, ",")
	}
	if s.Namespaces.Excluded != "" {
		t.ExcludeNamespaces = strings.Split(s.Namespaces.Excluded, ",")
	}
	return t
}

// look finds the resource and counts its objects. Its error is what would keep the target from being
// watched.
func (p *planner) look(ctx context.Context, s target.Spec, t *TargetPlan) error {
	r, err := catalog.Resolve(ctx, p.clients.Discovery, s.Wanted())
	if err != nil {
		return err
	}
	t.Version, t.Kind, t.ClusterScoped = r.GVR.Version, r.Kind, !r.Namespaced
	src, err := s.Source(r, p.clients, nil, nil) // what is read goes nowhere
	if err != nil {
		return err
	}
	names, err := p.matching(s)
	if err != nil {
		return err
	}
	if names != nil {
		t.MatchingNamespaces = new(len(names))
	}
	rv, err := count(ctx, src, src.Resource.Namespace, t)
	if err != nil {
		return err
	}
	if s.Namespaces == (selection.Rule{}) {
		t.ResourceVersion = rv
		return nil
	}
	if t.Objects, t.More = 0, len(names) > mostAsked; names == nil {
		return nil
	}
	t.ResourceVersion = rv
	for _, namespace := range names[:min(len(names), mostAsked)] {
		if _, err := count(ctx, src, namespace, t); err != nil {
			return err
		}
	}
	return nil
}

// count adds the objects of a namespace to a plan, or of all. The API server says how many follow the first
// one, unless there is a selector.
func count(ctx context.Context, src *listwatch.Source, namespace string, t *TargetPlan) (rv uint64, err error) {
	read := 0
	meta, err := src.ReadFew(ctx, namespace, 1, func([]byte) error {
		if read++; read == mostRead {
			return listwatch.ErrEnough
		}
		return nil
	})
	enough := errors.Is(err, listwatch.ErrEnough)
	if err != nil && !enough {
		return 0, fmt.Errorf("list: %w", err)
	}
	if rv = meta.ResourceVersion; enough && rv == 0 {
		if rv, err = src.Revision(ctx); err != nil {
			return 0, err
		}
	}
	t.Objects += read + int(max(meta.RemainingItems, 0))
	t.More = t.More || enough || meta.Continue != "" && meta.RemainingItems <= 0
	return rv, nil
}

// matching returns the namespaces that a target would cover now, nil if they are not known or all. The
// error is that they cannot be known and that it takes them to watch.
func (p *planner) matching(s target.Spec) ([]string, error) {
	switch {
	case s.Namespaces == (selection.Rule{}):
		return nil, nil
	case p.unlisted == nil:
		names, err := p.namespaces.Matching(s.Namespaces)
		return append([]string{}, names...), err
	case s.Namespaces.Selector != "":
		return nil, fmt.Errorf("namespaceSelector: %w", p.unlisted)
	}
	return nil, nil // the names say it, whichever there are
}

// askNamespaces lists the Namespaces if a target is filtered by them, and asks for the
// verbs that it takes to follow their labels.
func (p *planner) askNamespaces(ctx context.Context, targets map[string]target.Spec) {
	ctx, cancel := context.WithTimeout(ctx, planTimeout)
	defer cancel()
	filters, selects := false, false
	for _, s := range targets {
		filters = filters || s.Namespaces != (selection.Rule{})
		selects = selects || s.Namespaces.Selector != ""
	}
	if filters {
		p.unlisted = p.namespaces.List(ctx)
	}
	if selects {
		p.missingNamespaceVerbs, _ = catalog.MissingVerbs(ctx, p.clients.Discovery.Client, catalog.AttributesOf(selection.NamespaceResource()), catalog.NeededVerbs())
	}
}

// optional asks for what the credentials lack to be told of resources that come and
// go, but for what is watched as a whole anyway.
func (p *planner) optional(ctx context.Context, targets map[string]target.Spec) []MissingAccess {
	ctx, cancel := context.WithTimeout(ctx, greetTimeout)
	defer cancel()
	var all []MissingAccess
	for _, r := range []schema.GroupVersionResource{catalog.CustomResourceDefinitions(), catalog.APIServices()} {
		if s, watched := targets[catalog.NameOf(r.GroupResource())]; !watched || s.Selects() {
			all = append(all, p.missing(ctx, r, "", catalog.NeededVerbs(), "informd notices added and removed resources with a delay")...)
		}
	}
	return all
}

// missing asks which of these verbs the credentials lack on a resource. Without says what is different
// then. It returns nothing if the API server does not say.
func (p *planner) missing(ctx context.Context, r schema.GroupVersionResource, namespace string, verbs []string, without string) []MissingAccess {
	of := catalog.AttributesOf(r)
	of.Namespace = namespace
	lacking, err := catalog.MissingVerbs(ctx, p.clients.Discovery.Client, of, verbs)
	if err != nil || len(lacking) == 0 {
		return nil
	}
	return []MissingAccess{{Group: r.Group, Resource: r.Resource, Namespace: namespace, Verbs: lacking, Without: without}}
}

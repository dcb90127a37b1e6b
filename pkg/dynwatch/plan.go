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
	"k8s.io/client-go/rest"

	"github.com/informd/informd/internal/display"
	"github.com/informd/informd/pkg/dynwatch/internal/access"
	"github.com/informd/informd/pkg/dynwatch/internal/catalog"
	"github.com/informd/informd/pkg/dynwatch/internal/estimate"
	"github.com/informd/informd/pkg/dynwatch/internal/frame"
	"github.com/informd/informd/pkg/dynwatch/internal/kube"
	"github.com/informd/informd/pkg/dynwatch/internal/selection"
	"github.com/informd/informd/pkg/dynwatch/internal/spec"
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

// TargetPlan is what watching one target would come to.
type TargetPlan struct {
	Name                                      string
	Group, Version, Resource, Kind, Namespace string
	Mode                                      Mode
	// Scope is [ScopeNamespaced] if the watch is of Namespace alone, else [ScopeCluster].
	// ClusterScoped: the objects are in no namespace.
	Scope         Scope
	ClusterScoped bool
	// Namespaces, ExcludeNamespaces and NamespaceSelector are what a watch of the cluster
	// is filtered by, as in [Resource]. MatchingNamespaces is how many namespaces they
	// match now, nil without a filter, and if the Namespaces may not be listed.
	Namespaces, ExcludeNamespaces []string
	NamespaceSelector             string
	MatchingNamespaces            *int
	// State is [Ready], or the state that the target would be in now: [Waiting],
	// [Forbidden] or [Degraded]. It is Forbidden, too, if the labels of Namespaces, which
	// a NamespaceSelector needs, could not be followed.
	State State
	// Reason says why the state is what it is; of a target that is ready, what could
	// not be found out about it.
	Reason string
	// MissingVerbs are the verbs, of "list" and "watch", that the credentials do not
	// allow on the resource, MissingNamespaceVerbs those on the Namespaces, whose labels
	// a NamespaceSelector needs. They are also empty if the API server does not say.
	MissingVerbs, MissingNamespaceVerbs []string
	// ResourceVersion is the revision of the list that the other numbers are from, 0
	// if there was none: they are not known then. It counts the changes of everything
	// that the API server stores, not of this resource alone.
	ResourceVersion uint64
	// Objects is the number of objects in the namespaces of the target. More: there are more
	// objects, and only a complete list would count them. Estimated: the number was
	// extrapolated from some of the namespaces.
	Objects         int
	More, Estimated bool
	// Bytes is what a list of all objects has, by the mean size of Weighed of them: an
	// estimate unless these are all.
	Bytes   uint64
	Weighed int
	// WatchFrom is the oldest revision from which a watch can begin, EtcdFrom about
	// the oldest one that etcd still has and never less; 0 is not known, and 1 the
	// beginning. How many revisions one can go back without a gap is the difference to
	// ResourceVersion.
	WatchFrom, EtcdFrom uint64
}

const (
	// plansAtOnce is how many targets are asked about at a time.
	plansAtOnce = 4
	// planTimeout bounds the asking about one target, greetTimeout the wait for the
	// first answer of the API server.
	planTimeout  = 30 * time.Second
	greetTimeout = 10 * time.Second
)

// planner asks what watching would come to.
type planner struct {
	clients *kube.Clients
	bounds  estimate.Bounds
	// namespaces are those of the cluster, listed once if a target is filtered;
	// unlisted is why they are not known. Nobody changes them while targets are asked
	// about.
	namespaces            *selection.Namespaces
	unlisted              error
	missingNamespaceVerbs []string
	history               estimate.History
}

// Plan estimates the watches, objects and permissions of the wanted set, with maxWatches as in
// [Options]. It changes nothing, and costs few requests: it examines four targets at a time.
// For each target it reads a few objects, and finds the retained history with some 25 reads
// at older revisions. If the API server does not count the objects of a target, Plan reads
// the metadata of up to 5,000 objects, or a few objects each in up to 50 namespaces. The
// plan of a target names its faults. The error is that the wanted set is not valid, that the
// API server is unreachable or rejects the credentials, or that of ctx.
func Plan(ctx context.Context, kubernetes *rest.Config, wanted []Resource, maxWatches int) (WatchPlan, error) {
	return plan(ctx, kubernetes, wanted, maxWatches, estimate.Bounds{Listed: 5000, Asked: 50})
}

func plan(ctx context.Context, kubernetes *rest.Config, wanted []Resource, maxWatches int, b estimate.Bounds) (WatchPlan, error) {
	set, err := newWantedSet(wanted, maxWatches)
	if err != nil {
		return WatchPlan{}, fmt.Errorf("plan resources: %w", err)
	}
	logger := slog.New(slog.DiscardHandler)
	c, err := kube.NewClients(kubernetes, logger)
	if err != nil {
		return WatchPlan{}, fmt.Errorf("plan resources: %w", err)
	}
	defer c.Close()
	n, err := selection.NewNamespaces(c, logger)
	if err != nil {
		return WatchPlan{}, fmt.Errorf("plan resources: %w", err)
	}
	p := &planner{clients: c, bounds: b, namespaces: n, history: estimate.History{Turns: make(estimate.Turns, plansAtOnce)}}
	if err := p.greet(ctx); err != nil {
		return WatchPlan{}, err
	}
	targets, wildcards := p.expand(ctx, set)
	p.askNamespaces(ctx, targets)
	names := slices.Sorted(maps.Keys(targets))
	plans := make([]TargetPlan, len(names))
	var all sync.WaitGroup
	for i, name := range names {
		p.history.Turns.Begin()
		all.Go(func() {
			defer p.history.Turns.End()
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
func (p *planner) target(ctx context.Context, s spec.Spec) TargetPlan {
	ctx, cancel := context.WithTimeout(ctx, planTimeout)
	defer cancel()
	t := newTargetPlan(s)
	// An answer that does not come is no news: what is missing shows below.
	t.MissingVerbs, _ = access.MissingVerbs(ctx, p.clients.Discovery.Client, s.Attributes())
	if s.Namespaces.Selector != "" {
		t.MissingNamespaceVerbs = p.missingNamespaceVerbs
	}
	err := p.look(ctx, s, &t)
	switch {
	case err != nil:
		t.State, t.Reason = target.StateAfter(err, false), display.Reason(err.Error())
	case len(t.MissingNamespaceVerbs) > 0:
		t.State, t.Reason = Forbidden, "namespaceSelector: the labels of namespaces are unreadable"
	}
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		t.Reason = fmt.Sprintf("the API server did not answer every request within %v: %s", planTimeout, t.Reason)
	}
	return t
}

// newTargetPlan is the plan of a target that nothing is known of yet.
func newTargetPlan(s spec.Spec) TargetPlan {
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

// look finds the resource, looks at its objects and then at its history. Its error is
// what would keep the target from being watched.
func (p *planner) look(ctx context.Context, s spec.Spec, t *TargetPlan) error {
	r, err := catalog.Resolve(ctx, p.clients.Discovery, s.Wanted())
	if err != nil {
		return err
	}
	t.Version, t.Kind, t.ClusterScoped = r.GVR.Version, r.Kind, !r.Namespaced
	src, err := s.Source(r, p.clients, frame.NewRedactor(make([]byte, minKey)), nil, nil) // what is read goes nowhere
	if err != nil {
		return err
	}
	covered, err := p.coverageOf(s)
	if err != nil {
		return err
	}
	if covered.Listed {
		t.MatchingNamespaces = new(len(covered.Names))
	}
	size, err := estimate.Measure(ctx, src, covered, p.bounds)
	t.ResourceVersion, t.Objects, t.More, t.Estimated = size.ResourceVersion, size.Objects, size.More, size.Estimated
	t.Bytes, t.Weighed = size.Bytes, size.Weighed
	if err != nil {
		return err
	}
	t.WatchFrom, t.EtcdFrom, err = p.history.Reach(ctx, src, t.ResourceVersion)
	if err != nil && !apierrors.IsForbidden(err) {
		t.Reason = display.Reason("retained history unknown: " + err.Error())
		return nil
	}
	return err
}

// coverageOf finds the namespaces that a target would cover now. Its error is that
// they cannot be known and that it takes them to watch.
func (p *planner) coverageOf(s spec.Spec) (estimate.Covered, error) {
	c := estimate.Covered{Filter: selection.NewFilter(s.Namespaces)}
	if c.Filter == nil {
		return c, nil
	}
	if p.unlisted != nil {
		if s.Namespaces.Selector != "" {
			return c, fmt.Errorf("namespaceSelector: %w", p.unlisted)
		}
		return c, nil // the names say it, whichever there are
	}
	var err error
	if c.Names, err = p.namespaces.Matching(s.Namespaces); err != nil {
		return c, err
	}
	if c.Listed = true; s.Namespaces.Selector != "" {
		c.Filter.CoverNow(slices.Values(c.Names))
	}
	return c, nil
}

// askNamespaces lists the Namespaces if a target is filtered by them, and asks for the
// verbs that it takes to follow their labels.
func (p *planner) askNamespaces(ctx context.Context, targets map[string]spec.Spec) {
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
		p.missingNamespaceVerbs, _ = access.MissingVerbs(ctx, p.clients.Discovery.Client, access.Of(selection.NamespaceResource()))
	}
}

// optional asks for what the credentials lack to be told of resources that come and
// go, but for what is watched as a whole anyway.
func (p *planner) optional(ctx context.Context, targets map[string]spec.Spec) []MissingAccess {
	ctx, cancel := context.WithTimeout(ctx, greetTimeout)
	defer cancel()
	var all []MissingAccess
	for _, r := range []schema.GroupVersionResource{catalog.CustomResourceDefinitions(), catalog.APIServices()} {
		if s, watched := targets[catalog.NameOf(r.GroupResource())]; !watched || s.Selects() {
			all = append(all, p.missing(ctx, r, "", "informd notices added and removed resources with a delay")...)
		}
	}
	return all
}

// missing asks for what the credentials lack on a resource. Without says what is different
// then. It returns nothing if the API server does not say.
func (p *planner) missing(ctx context.Context, r schema.GroupVersionResource, namespace, without string) []MissingAccess {
	of := access.Of(r)
	of.Namespace = namespace
	verbs, err := access.MissingVerbs(ctx, p.clients.Discovery.Client, of)
	if err != nil || len(verbs) == 0 {
		return nil
	}
	return []MissingAccess{{Group: r.Group, Resource: r.Resource, Namespace: namespace, Verbs: verbs, Without: without}}
}

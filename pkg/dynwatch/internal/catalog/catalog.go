// Package catalog finds out what an API server serves: all resources of it (for wildcards),
// the version and scope of one resource, aliases of one storage, and whether a missing
// resource was removed. [Watcher] follows the definitions and wakes its subscribers. [Set] expands the
// patterns of wildcards, and [MissingVerbs] asks what the credentials allow. Its
// callers are the manager, the targets and the plan of package dynwatch; they decide what
// follows from its findings.
package catalog

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/pkg/dynwatch/internal/kube"
	"github.com/informd/informd/pkg/event"
)

// Catalog is everything that the API server serves, as discovery says. It does not change.
type Catalog struct {
	// groups are in the order of discovery, the core group first.
	groups []offeredGroup
	// byName are the places of the groups.
	byName map[string]int
	// Storages are the resources that can be watched. Those of one storage are
	// together, the one to be watched first.
	Storages [][]schema.GroupResource
}

type offeredGroup struct {
	name string
	// versions are in the order of preference.
	versions []offeredVersion
}

type offeredVersion struct {
	name string
	// stale: what it has could not be found out, and resources is what it had.
	stale     bool
	resources map[string]Offered // by plural name
}

// Offered is a resource in one version.
type Offered struct {
	Version, Kind         string
	Namespaced, Watchable bool
}

// AnyVersion is the first version that has the resource, as for a [Wanted] without one.
const AnyVersion = ""

// Find returns a resource in a version of its group.
func (c *Catalog) Find(version string, one schema.GroupResource) (Offered, bool) {
	v := c.version(version, one)
	if v == nil {
		return Offered{}, false
	}
	return v.resources[one.Resource], true
}

func (c *Catalog) version(name string, one schema.GroupResource) *offeredVersion {
	i, ok := c.byName[one.Group]
	if !ok {
		return nil
	}
	for j := range c.groups[i].versions {
		v := &c.groups[i].versions[j]
		if _, ok := v.resources[one.Resource]; ok && (name == AnyVersion || name == v.name) {
			return v
		}
	}
	return nil
}

// Resolve returns what the function [Resolve] would, so that a target need not ask again at
// its start. It returns nil if the API server did not say.
func (c *Catalog) Resolve(version string, one schema.GroupResource) *Resolved {
	v := c.version(version, one)
	if v == nil || v.stale {
		return nil
	}
	o := v.resources[one.Resource]
	return &Resolved{GVR: one.WithVersion(v.name), Kind: o.Kind, Namespaced: o.Namespaced}
}

// NameOf is the name of a resource in logs and checkpoints: "<group or core>/<resource>".
func NameOf(one schema.GroupResource) string {
	return event.GroupOrCore(one.Group) + "/" + one.Resource
}

// ParseName is the inverse of [NameOf].
func ParseName(name string) schema.GroupResource {
	group, resource, _ := strings.Cut(name, "/")
	if group == event.GroupOrCore("") {
		group = ""
	}
	return schema.GroupResource{Group: group, Resource: resource}
}

// Stale names the groups of which not everything is known.
func (c *Catalog) Stale() []string {
	var names []string
	for _, g := range c.groups {
		if slices.ContainsFunc(g.versions, func(v offeredVersion) bool { return v.stale }) {
			names = append(names, g.name)
		}
	}
	return names
}

// aggregated asks for all groups in one document, and takes the older kind, which
// only lists them, from API servers that do not have it.
const aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList," +
	"application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json"

// groupsDocument is an APIGroupDiscoveryList (Items), an APIGroupList (Groups) or
// APIVersions (Versions). The types of the first would bring in the whole of
// k8s.io/api.
type groupsDocument struct {
	Kind  string
	Items []struct {
		Metadata struct{ Name string }
		Versions []struct {
			Version, Freshness string
			Resources          []struct {
				Resource, Scope string
				ResponseKind    struct{ Kind string }
				Verbs           []string
			}
		}
	}
	Groups   []metav1.APIGroup
	Versions []string
}

// freshnessStale is what is said of a version whose API server does not answer.
const freshnessStale = "Stale"

// Read asks for everything that is served. Versions that do not answer are as they were
// before, which is nil the first time. An error means that nothing is known.
func Read(ctx context.Context, c *kube.Clients, before *Catalog) (next *Catalog, err error) {
	g := kube.NewGuard(ctx)
	defer g.Close()
	defer func() { err = g.Explain(err) }()
	before = cmp.Or(before, &Catalog{})
	next = &Catalog{byName: make(map[string]int)}
	for _, path := range []string{"/api", "/apis"} {
		groups, err := groupsOf(g.Context, c.Discovery, path)
		if err != nil {
			return nil, err
		}
		next.groups = append(next.groups, groups...)
	}
	for i := range next.groups {
		next.byName[next.groups[i].name] = i
	}
	next.complete(g.Context, c, before)
	next.collect()
	return next, nil
}

// groupsOf reads the groups below a path. The versions of an API server that lists no
// more than their names have nil resources.
func groupsOf(ctx context.Context, d *kube.Discovery, path string) ([]offeredGroup, error) {
	body, err := d.Client.Get().MaxRetries(0).AbsPath(path).SetHeader("Accept", aggregated).Do(ctx).Raw()
	if err != nil {
		return nil, fmt.Errorf("get API groups: %w", err)
	}
	var doc groupsDocument
	if err := json.Unmarshal(body, &doc); err != nil {
		return nil, fmt.Errorf("get API groups: %s: %w", path, err)
	}
	if !slices.Contains([]string{"APIGroupDiscoveryList", "APIGroupList", "APIVersions"}, doc.Kind) {
		return nil, fmt.Errorf("get API groups: %s: the answer has kind %q", path, doc.Kind)
	}
	var groups []offeredGroup
	for _, item := range doc.Items {
		g := offeredGroup{name: item.Metadata.Name}
		for _, v := range item.Versions {
			offers := offeredVersion{name: v.Version, stale: v.Freshness == freshnessStale, resources: make(map[string]Offered)}
			for _, r := range v.Resources {
				offers.resources[r.Resource] = Offered{Version: v.Version, Kind: r.ResponseKind.Kind, Namespaced: r.Scope == "Namespaced", Watchable: watchable(r.Verbs)}
			}
			g.versions = append(g.versions, offers)
		}
		groups = append(groups, g)
	}
	for _, group := range doc.Groups {
		g := offeredGroup{name: group.Name}
		for _, version := range kube.VersionsOf(&group) {
			g.versions = append(g.versions, offeredVersion{name: version})
		}
		groups = append(groups, g)
	}
	if len(doc.Versions) > 0 {
		groups = append(groups, offeredGroup{versions: []offeredVersion{{name: "v1"}}})
	}
	return groups, nil
}

func watchable(verbs []string) bool {
	return !slices.ContainsFunc(NeededVerbs(), func(verb string) bool { return !slices.Contains(verbs, verb) })
}

// complete asks for the versions of which only the name is known, and puts what was
// known before in place of what could not be found out.
func (c *Catalog) complete(ctx context.Context, from *kube.Clients, before *Catalog) {
	var asking sync.WaitGroup
	for _, g := range c.groups {
		for i := range g.versions {
			v := &g.versions[i]
			if v.resources == nil {
				asking.Go(func() { v.ask(ctx, from, g.name) })
			}
		}
	}
	asking.Wait()
	for _, g := range c.groups {
		for i := range g.versions {
			if v := &g.versions[i]; v.stale && len(v.resources) == 0 {
				v.resources = maps.Clone(before.resources(g.name, v.name))
			}
		}
	}
}

// ask reads the version's own document.
func (v *offeredVersion) ask(ctx context.Context, from *kube.Clients, group string) {
	defer from.Pace.Begin(ctx, group)()
	list, err := kube.ResourcesOf(ctx, from.Discovery, schema.GroupVersion{Group: group, Version: v.name})
	v.stale, v.resources = err != nil, make(map[string]Offered)
	for _, r := range list {
		if !strings.Contains(r.Name, "/") { // a subresource
			v.resources[r.Name] = Offered{Version: v.name, Kind: r.Kind, Namespaced: r.Namespaced, Watchable: watchable(r.Verbs)}
		}
	}
}

func (c *Catalog) resources(group, version string) map[string]Offered {
	i, ok := c.byName[group]
	if !ok {
		return nil
	}
	for _, v := range c.groups[i].versions {
		if v.name == version {
			return v.resources
		}
	}
	return nil
}

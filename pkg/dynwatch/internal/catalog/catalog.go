// Package catalog finds out what an API server serves: all resources of it (for wildcards),
// the version and scope of one resource, aliases of one storage, and whether a missing
// resource was removed. [Watcher] follows the definitions and wakes its subscribers. Its
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

	"github.com/informd/informd/pkg/dynwatch/internal/access"
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
	// storage tells where its objects are stored; it is empty if nothing is known
	// of that. asked: the document that tells it was read.
	storage string
	asked   bool
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
// only lists them, from API servers that do not have it. The documents with all
// groups do not tell how a resource is stored.
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
	next.compareStorages(g.Context, c, before)
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
	return !slices.ContainsFunc(access.NeededVerbs(), func(verb string) bool { return !slices.Contains(verbs, verb) })
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
			v.resources[r.Name] = Offered{Version: v.name, Kind: r.Kind, Namespaced: r.Namespaced, Watchable: watchable(r.Verbs), storage: r.StorageVersionHash, asked: true}
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

// member is a resource of the catalog, in the version that is watched.
type member struct {
	name    schema.GroupResource
	version *offeredVersion
}

func (m member) offered() Offered { return m.version.resources[m.name.Resource] }

// compareStorages finds the resources that are served in two groups, as Events are:
// each would be watched twice. Only those that have the same name and kind are asked
// about, since nearly all have not.
func (c *Catalog) compareStorages(ctx context.Context, from *kube.Clients, before *Catalog) {
	for _, namesakes := range c.namesakes() {
		if len(namesakes) > 1 {
			namesakes = askStorages(ctx, from, before, namesakes)
		}
		at := make(map[string]int)
		for _, m := range namesakes {
			storage := m.offered().storage
			if i, twin := at[storage]; twin && storage != "" {
				c.Storages[i] = append(c.Storages[i], m.name)
				continue
			}
			at[storage] = len(c.Storages)
			c.Storages = append(c.Storages, []schema.GroupResource{m.name})
		}
	}
}

// namesakes are the resources that can be watched, those with one name and kind
// together.
func (c *Catalog) namesakes() [][]member {
	var all [][]member
	at := make(map[[2]string]int)
	for _, g := range c.groups {
		seen := make(map[string]bool)
		for i := range g.versions {
			for _, name := range slices.Sorted(maps.Keys(g.versions[i].resources)) {
				o := g.versions[i].resources[name]
				if seen[name] || !o.Watchable {
					seen[name] = true // a version that counts more decides
					continue
				}
				seen[name] = true
				key := [2]string{name, o.Kind}
				if _, ok := at[key]; !ok {
					at[key] = len(all)
					all = append(all, nil)
				}
				all[at[key]] = append(all[at[key]], member{schema.GroupResource{Group: g.name, Resource: name}, &g.versions[i]})
			}
		}
	}
	return all
}

// askStorages finds out how namesakes are stored. One of which that cannot be found
// out is left out: better not watched yet than twice. If that is the first, which is
// to be preferred to the others, all are.
func askStorages(ctx context.Context, from *kube.Clients, before *Catalog, namesakes []member) []member {
	known := true
	for _, m := range namesakes {
		o, ok := before.resources(m.name.Group, m.version.name)[m.name.Resource]
		if !m.offered().asked && ok && o.asked && o.Kind == m.offered().Kind {
			m.version.resources[m.name.Resource] = o
		}
		known = known && m.offered().asked
	}
	if known {
		return namesakes
	}
	var told []member
	for i, m := range namesakes {
		own := offeredVersion{name: m.version.name}
		own.ask(ctx, from, m.name.Group)
		o, ok := own.resources[m.name.Resource]
		switch {
		case ok:
			m.version.resources[m.name.Resource] = o
			told = append(told, m)
		case i == 0:
			m.version.stale = true
			for _, m := range namesakes {
				delete(m.version.resources, m.name.Resource)
			}
			return nil
		case m.offered().asked:
			told = append(told, m)
		default:
			delete(m.version.resources, m.name.Resource)
			m.version.stale = true
		}
	}
	return told
}

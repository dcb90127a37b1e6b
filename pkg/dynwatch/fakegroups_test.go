package dynwatch_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// fakeGroups are everything that a fakeAPI serves, under its lock. Objects has
// things.example.com alone; the others are there, and empty.
type fakeGroups struct {
	groups []fakeGroup
	// plain: there are no documents with all groups.
	plain bool
	// down are groups whose API server does not answer, broken is that discovery
	// does not.
	down   map[string]bool
	broken bool
	// Watches that are open, and all that were, by "<group>/<resource>"; wholes is
	// how often everything was asked for.
	open, opened map[string]int
	wholes       int
}

type fakeGroup struct {
	name     string
	versions []fakeVersion // the preferred one first
}

type fakeVersion struct {
	name      string
	resources []fakeResource
}

type fakeResource struct {
	name, kind string
	cluster    bool
	verbs      string // all that are needed, if it is empty
}

func (r fakeResource) allVerbs() []string {
	if r.verbs == "" {
		return []string{"get", "list", "watch"}
	}
	return strings.Split(r.verbs, " ")
}

// serveAll has the fake serve these groups.
func (f *fakeAPI) serveAll(groups ...fakeGroup) {
	f.do(func() {
		f.groups = &fakeGroups{groups: groups, down: make(map[string]bool), open: make(map[string]int), opened: make(map[string]int)}
		f.review = func(w http.ResponseWriter, _ *http.Request) { writeReview(w, true) }
	})
}

// group is a group with one version.
func group(name string, resources ...fakeResource) fakeGroup {
	return fakeGroup{name, []fakeVersion{{"v1", resources}}}
}

func resource(name, kind string) fakeResource {
	return fakeResource{name: name, kind: kind}
}

// install adds a group, or resources to one.
func (f *fakeAPI) install(name string, resources ...fakeResource) {
	f.do(func() {
		g := f.groups
		if i := slices.IndexFunc(g.groups, func(g fakeGroup) bool { return g.name == name }); i >= 0 {
			g.groups[i].versions[0].resources = append(g.groups[i].versions[0].resources, resources...)
			return
		}
		g.groups = append(g.groups, group(name, resources...))
	})
	for _, r := range resources {
		f.touch(customDefinitions, r.name+"."+name)
	}
}

// uninstall removes a resource, with what there is of it. Who watches things sees
// their ends until the watches are cut.
func (f *fakeAPI) uninstall(name, resource string) {
	if name == "example.com" && resource == "things" {
		for _, c := range f.state() {
			f.del(c.ns, c.name)
		}
	}
	f.do(func() {
		g := f.groups
		for i := range g.groups {
			for j := range g.groups[i].versions {
				v := &g.groups[i].versions[j]
				if g.groups[i].name == name {
					v.resources = slices.DeleteFunc(v.resources, func(r fakeResource) bool { return r.name == resource })
				}
			}
		}
		g.groups = slices.DeleteFunc(g.groups, func(g fakeGroup) bool { return len(g.versions[0].resources) == 0 })
	})
	f.remove(customDefinitions, resource+"."+name)
}

// watches are the resources that are watched, each as often as it is.
func (f *fakeAPI) watches() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []string
	for name, n := range f.groups.open {
		all = append(all, slices.Repeat([]string{name}, n)...)
	}
	slices.Sort(all)
	return all
}

func (g *fakeGroups) find(group, version, resource string) (r fakeResource, ok bool) {
	for _, one := range g.groups {
		for _, v := range one.versions {
			if one.name != group || v.name != version {
				continue
			}
			if i := slices.IndexFunc(v.resources, func(r fakeResource) bool { return r.name == resource }); i >= 0 {
				return v.resources[i], true
			}
		}
	}
	return r, false
}

// serveGroups answers what is about other groups than the fake's own, and all of
// discovery, and reports whether it did.
func (f *fakeAPI) serveGroups(w http.ResponseWriter, r *http.Request) bool {
	f.mu.Lock()
	g := f.groups
	if g == nil || strings.HasSuffix(r.URL.Path, "/selfsubjectaccessreviews") {
		f.mu.Unlock()
		return false
	}
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	if parts[0] == "api" && len(parts) > 1 {
		parts = append([]string{"apis", ""}, parts[1:]...)
	}
	var answer any
	collection := ""
	switch {
	case g.broken && len(parts) < 4:
		g.wholes++
	case len(parts) == 1:
		g.wholes++
		answer = g.whole(parts[0] == "api", !g.plain && strings.Contains(r.Header.Get("Accept"), "apidiscovery"))
	case g.down[parts[1]]:
	case len(parts) == 2:
		answer = g.group(parts[1])
	case len(parts) == 3:
		answer = g.version(parts[1], parts[2])
	default:
		collection = parts[len(parts)-1]
	}
	found, ok := g.find(parts[min(1, len(parts)-1)], parts[min(2, len(parts)-1)], collection)
	down := g.broken && collection == "" || len(parts) > 1 && g.down[parts[1]]
	f.mu.Unlock()
	switch {
	case down:
		writeStatus(w, 503, "ServiceUnavailable", "the server is down")
	case collection == "" && answer != nil:
		_ = json.NewEncoder(w).Encode(answer)
	case collection == "" || !ok:
		writeStatus(w, 404, "NotFound", "no such thing")
	default:
		return f.serveCollection(w, r, parts[1], parts[2], found)
	}
	return true
}

// serveCollection answers for a resource that is empty, and counts the watches of
// all.
func (f *fakeAPI) serveCollection(w http.ResponseWriter, r *http.Request, group, version string, of fakeResource) bool {
	watch, name := r.URL.Query().Get("watch") != "", group+"/"+of.name
	if watch {
		f.counted(func(g *fakeGroups) { g.open[name]++; g.opened[name]++ })
		defer f.counted(func(g *fakeGroups) { g.open[name]-- })
	}
	if name == "example.com/things" {
		if watch {
			f.serveWatch(w, r, "")
		}
		return watch
	}
	api := strings.TrimPrefix(group+"/"+version, "/")
	if !watch {
		fmt.Fprintf(w, `{"apiVersion":%q,"items":[],"kind":%q,"metadata":{"resourceVersion":"%d"}}`,
			api, of.kind+"List", f.revisionNow())
		return true
	}
	f.mu.Lock()
	generation := f.generation
	f.mu.Unlock()
	f.stream(w, r, func() (frames []string, over bool) {
		_, served := f.groups.find(group, version, of.name)
		return []string{bookmark(of.kind, api, f.rev)}, !served || f.generation != generation
	})
	return true
}

// counted notes a watch that begins or ends, which is nothing for the others to wake for.
func (f *fakeAPI) counted(change func(*fakeGroups)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(f.groups)
}

type object = map[string]any

// whole is /api or /apis.
func (g *fakeGroups) whole(core, aggregated bool) any {
	var items, groups []any
	for _, one := range g.groups {
		if core != (one.name == "") {
			continue
		}
		groups = append(groups, g.group(one.name))
		var versions []any
		for _, v := range one.versions {
			freshness, resources := "Current", []any{}
			for _, r := range v.resources {
				scope := "Namespaced"
				if r.cluster {
					scope = "Cluster"
				}
				resources = append(resources, object{
					"resource": r.name, "scope": scope, "verbs": r.allVerbs(), "responseKind": object{"group": "", "version": v.name, "kind": r.kind},
					"subresources": []any{object{"subresource": "status", "verbs": r.allVerbs()}},
				})
			}
			if g.down[one.name] {
				freshness, resources = "Stale", []any{}
			}
			versions = append(versions, object{"version": v.name, "freshness": freshness, "resources": resources})
		}
		items = append(items, object{"metadata": object{"name": one.name}, "versions": versions})
	}
	switch {
	case aggregated:
		return object{"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": object{}, "items": items}
	case core:
		return object{"kind": "APIVersions", "versions": []string{"v1"}}
	default:
		return object{"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
	}
}

// group is /apis/<group>.
func (g *fakeGroups) group(name string) any {
	for _, one := range g.groups {
		if one.name != name {
			continue
		}
		var versions []any
		for _, v := range one.versions {
			versions = append(versions, object{"groupVersion": name + "/" + v.name, "version": v.name})
		}
		return object{"kind": "APIGroup", "apiVersion": "v1", "name": name, "versions": versions, "preferredVersion": versions[0]}
	}
	return nil
}

// version is /apis/<group>/<version>.
func (g *fakeGroups) version(group, version string) any {
	for _, one := range g.groups {
		for _, v := range one.versions {
			if one.name != group || v.name != version {
				continue
			}
			resources := []any{}
			for _, r := range v.resources {
				resources = append(resources, object{"name": r.name, "namespaced": !r.cluster, "kind": r.kind, "verbs": r.allVerbs()},
					object{"name": r.name + "/status", "namespaced": !r.cluster, "kind": r.kind, "verbs": r.allVerbs()})
			}
			return object{"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": strings.TrimPrefix(group+"/"+version, "/"), "resources": resources}
		}
	}
	return nil
}

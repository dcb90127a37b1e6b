package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// access is one thing that one may do.
type access struct{ verb, group, resource, namespace, name string }

func (a access) String() string {
	return fmt.Sprintf("%s %s/%s@%s %s", a.verb, a.group, a.resource, a.namespace, a.name)
}

// allowedBy reports whether RBAC allows it by these roles, ClusterRoles having no
// namespace.
func (a access) allowedBy(roles []rbacv1.Role) bool {
	has := func(all []string, one string) bool { return slices.Contains(all, one) || slices.Contains(all, "*") }
	return slices.ContainsFunc(roles, func(role rbacv1.Role) bool {
		return (role.Namespace == "" || role.Namespace == a.namespace) && slices.ContainsFunc(role.Rules, func(r rbacv1.PolicyRule) bool {
			return has(r.APIGroups, a.group) && has(r.Resources, a.resource) && has(r.Verbs, a.verb) && (len(r.ResourceNames) == 0 || slices.Contains(r.ResourceNames, a.name))
		})
	})
}

// guarded is an API server that serves a few resources, all of them empty, as far as
// roles allow.
type guarded struct{ roles []rbacv1.Role }

// guardedResources are what it serves, by group.
func guardedResources() map[string][]metav1.APIResource {
	resources := func(namespaced bool, names ...string) (all []metav1.APIResource) {
		for _, name := range names {
			all = append(all, metav1.APIResource{Name: name, Kind: name, Namespaced: namespaced, Verbs: []string{"get", "list", "watch"}})
		}
		return all
	}
	return map[string][]metav1.APIResource{
		"":                       append(resources(true, "configmaps", "pods", "secrets"), resources(false, "namespaces")...),
		"apps":                   resources(true, "daemonsets", "deployments", "replicasets"),
		"batch":                  resources(true, "jobs"),
		"apiextensions.k8s.io":   resources(false, "customresourcedefinitions"),
		"apiregistration.k8s.io": resources(false, "apiservices"),
	}
}

func (g *guarded) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	if parts[0] == "api" && len(parts) > 1 {
		parts = append([]string{"apis", ""}, parts[1:]...)
	}
	served := guardedResources()
	switch {
	case r.Method == http.MethodPost:
		var review struct {
			Spec struct {
				ResourceAttributes struct{ Namespace, Verb, Group, Resource string }
			}
		}
		_ = json.NewDecoder(r.Body).Decode(&review)
		a := review.Spec.ResourceAttributes
		fmt.Fprintf(w, `{"status":{"allowed":%t}}`, access{a.Verb, a.Group, a.Resource, a.Namespace, ""}.allowedBy(g.roles))
	case parts[0] == "version":
		fmt.Fprint(w, "{}")
	case parts[0] == "api":
		fmt.Fprint(w, `{"kind":"APIVersions","versions":["v1"]}`)
	case len(parts) == 1:
		list := metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList"}}
		for _, group := range slices.Sorted(maps.Keys(served)) {
			if group != "" {
				list.Groups = append(list.Groups, groupOf(group))
			}
		}
		_ = json.NewEncoder(w).Encode(list)
	case len(parts) == 2 && served[parts[1]] != nil:
		_ = json.NewEncoder(w).Encode(groupOf(parts[1]))
	case len(parts) == 3:
		_ = json.NewEncoder(w).Encode(metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList"}, APIResources: served[parts[1]]})
	case len(parts) > 3:
		g.serveObjects(w, r, parts)
	default:
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, `{"kind":"Status","code":404,"reason":"NotFound"}`)
	}
}

func groupOf(name string) metav1.APIGroup {
	v := metav1.GroupVersionForDiscovery{GroupVersion: name + "/v1", Version: "v1"}
	return metav1.APIGroup{TypeMeta: metav1.TypeMeta{Kind: "APIGroup"}, Name: name, Versions: []metav1.GroupVersionForDiscovery{v}, PreferredVersion: v}
}

// serveObjects answers a get, list or watch.
func (g *guarded) serveObjects(w http.ResponseWriter, r *http.Request, parts []string) {
	a := access{verb: "list", group: parts[1]}
	rest := parts[3:]
	if rest[0] == "namespaces" && len(rest) > 2 {
		a.namespace, rest = rest[1], rest[2:]
	}
	a.resource = rest[0]
	if len(rest) > 1 {
		a.verb, a.name = "get", rest[1]
	}
	if r.URL.Query().Get("watch") != "" {
		a.verb = "watch"
	}
	switch {
	case !a.allowedBy(g.roles):
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprintf(w, `{"kind":"Status","code":403,"reason":"Forbidden","message":%q}`, a)
	case a.verb == "get": // of the Namespace kube-system
		fmt.Fprintf(w, `{"kind":"Namespace","apiVersion":"v1","metadata":{"name":%q,"uid":"u"}}`, a.name)
	case a.verb == "watch":
		fmt.Fprintln(w, `{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","message":"too old resource version: 1 (9)"}}`)
	default:
		fmt.Fprintf(w, `{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","items":[],"metadata":{"resourceVersion":"%s"}}`, max(r.URL.Query().Get("resourceVersion"), "9"))
	}
}

// planAs runs informd plan against the server. It returns what is missing, what of it
// is optional, and the exit code.
func planAs(t *testing.T, config string) (missing, optional []string, code int) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code = run(t.Context(), []string{"plan", "-c", config, "-o", "json"}, &stdout, &stderr)
	var p planReport
	if err := json.Unmarshal(stdout.Bytes(), &p); err != nil {
		t.Fatalf("%v: %s%s", err, &stdout, &stderr)
	}
	for _, target := range p.Targets {
		for _, verb := range target.MissingVerbs {
			missing = append(missing, access{verb, target.Group, target.Resource, target.Namespace, ""}.String())
		}
		for _, verb := range target.MissingNamespaceVerbs {
			missing = append(missing, access{verb, "", "namespaces", "", ""}.String())
		}
	}
	for _, o := range p.Optional {
		for _, verb := range o.Verbs {
			optional = append(optional, access{verb, o.Group, o.Resource, o.Namespace, o.Name}.String())
		}
	}
	slices.Sort(missing)
	return slices.Compact(missing), optional, code
}

// rolesOf are what informd rbac prints for a config.
func rolesOf(t *testing.T, config string) (roles []rbacv1.Role) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	if code := run(t.Context(), []string{"rbac", "-c", config}, &stdout, &stderr); code != exitOK {
		t.Fatalf("exit code %d: %s", code, &stderr)
	}
	for document := range strings.SplitSeq(stdout.String(), "\n---\n") {
		var r rbacv1.Role // a ClusterRole has the same fields
		if err := yaml.Unmarshal([]byte(document), &r); err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(r.Kind, "Role") {
			roles = append(roles, r)
		}
	}
	return roles
}

// With what informd rbac prints for a config, informd plan misses nothing; without any
// verb of it, the plan misses exactly that.
func TestPlanAndRBACAgree(t *testing.T) {
	cases := map[string]struct {
		journal, resources string
		// wild are what a rule of a wildcard, "*" in RBAC, allows of what there is.
		wild []string
	}{
		"the whole cluster":        {"memory", "[{resource: pods}, {group: apps, resource: deployments}]", nil},
		"a journal on disk":        {"log, dir: /tmp/nowhere", "[{resource: pods}]", nil},
		"namespaces by name":       {"memory", "[{resource: pods, namespaces: [shop, bank]}, {resource: secrets, namespaces: [shop]}]", nil},
		"namespaces by glob":       {"memory", "[{resource: pods, namespaces: [team-*]}, {resource: secrets, excludeNamespaces: [shop]}]", nil},
		"one watch":                {"memory", "[{resource: pods, namespaces: [shop], scope: cluster}]", nil},
		"namespaces by label":      {"memory", "[{resource: pods, namespaceSelector: tier=prod}]", nil},
		"the namespaces as well":   {"memory", "[{resource: pods, namespaceSelector: tier=prod}, {resource: namespaces}]", nil},
		"the definitions as well":  {"memory", "[{group: apiextensions.k8s.io, resource: customresourcedefinitions}]", nil},
		"owners":                   {"memory", "[{resource: pods, ownerChain: true}, {group: apps, resource: replicasets}]", nil},
		"owners in namespaces":     {"memory", "[{resource: pods, ownerChain: true, namespaces: [shop, bank]}, {group: batch, resource: jobs, namespaces: [shop]}]", nil},
		"owners in both":           {"memory", "[{resource: pods, ownerChain: true, namespaces: [shop]}, {group: apps, resource: deployments, ownerChain: true}]", nil},
		"a wildcard":               {"log, dir: /tmp/nowhere", `[{group: apps, resource: "*"}, {resource: pods}]`, []string{"apps/daemonsets@", "apps/deployments@", "apps/replicasets@"}},
		"a wildcard of namespaces": {"memory", `[{group: apps, resource: "d*", namespaces: [shop]}]`, []string{"apps/daemonsets@shop", "apps/deployments@shop"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			g := &guarded{}
			server := httptest.NewServer(g)
			defer server.Close()
			dir := t.TempDir()
			kubeconfig, config := filepath.Join(dir, "kubeconfig"), filepath.Join(dir, "config.yaml")
			for path, text := range map[string]string{
				kubeconfig: fmt.Sprintf(`{current-context: c, contexts: [{name: c, context: {cluster: c}}], clusters: [{name: c, cluster: {server: %q}}]}`, server.URL),
				config:     fmt.Sprintf("resources: %s\njournal: {type: %s}\nsinks: [{name: out, type: stdout}]\nkubernetes: {kubeconfig: %q}\n", c.resources, c.journal, kubeconfig),
			} {
				if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			g.roles = rolesOf(t, config)
			if missing, optional, code := planAs(t, config); len(missing)+len(optional) > 0 || code != exitOK {
				t.Errorf("with all that is printed: missing %q, optional %q, exit code %d", missing, optional, code)
			}
			for i := range g.roles {
				for j := range g.roles[i].Rules {
					rule := &g.roles[i].Rules[j]
					verbs := rule.Verbs
					for k, verb := range verbs {
						rule.Verbs = slices.Delete(slices.Clone(verbs), k, k+1)
						checkWithout(t, config, without(verb, g.roles[i].Namespace, rule, c.wild))
					}
					rule.Verbs = verbs
				}
			}
		})
	}
}

// without is what lacks if a rule does not have a verb.
func without(verb, namespace string, rule *rbacv1.PolicyRule, wild []string) (all []string) {
	if slices.Contains(rule.Resources, "*") {
		for _, one := range wild {
			all = append(all, verb+" "+one+" ")
		}
		return all
	}
	for _, resource := range rule.Resources {
		all = append(all, access{verb, rule.APIGroups[0], resource, namespace, strings.Join(rule.ResourceNames, ",")}.String())
	}
	return all
}

// checkWithout holds a plan to what lacks, and to the exit code of that.
func checkWithout(t *testing.T, config string, lacks []string) {
	t.Helper()
	missing, optional, code := planAs(t, config)
	if diff := cmp.Diff(lacks, append(slices.Clone(missing), optional...)); diff != "" {
		t.Errorf("without %q: %s", lacks, diff)
	}
	want := exitOK
	if len(missing) > 0 {
		want = exitFailure
	}
	if code != want {
		t.Errorf("without %q: exit code %d, want %d", lacks, code, want)
	}
}

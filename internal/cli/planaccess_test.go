package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"github.com/informd/informd/pkg/informer/informertest"
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

// guarded is an API server that allows what roles allow.
type guarded struct {
	*informertest.Cluster

	roles []rbacv1.Role
}

func newGuarded() *guarded {
	served := []informertest.Resource{{Version: "v1", Resource: "namespaces", Kind: "Namespace", ClusterWide: true}}
	const names = "configmaps pods secrets daemonsets.apps deployments.apps replicasets.apps jobs.batch"
	for name := range strings.FieldsSeq(names) {
		resource, group, _ := strings.Cut(name, ".")
		served = append(served, informertest.Resource{Group: group, Version: "v1", Resource: resource, Kind: resource})
	}
	g := &guarded{Cluster: informertest.New(served...)}
	g.Put(`{"kind":"Namespace","metadata":{"name":"kube-system"}}`)
	return g
}

func (g *guarded) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	w.Header().Set("Content-Type", "application/json")
	if r.Method == http.MethodPost {
		var review struct {
			Spec struct {
				ResourceAttributes struct{ Namespace, Verb, Group, Resource string }
			}
		}
		err := json.NewDecoder(r.Body).Decode(&review)
		a := review.Spec.ResourceAttributes
		fmt.Fprintf(w, `{"status":{"allowed":%t}}`, access{a.Verb, a.Group, a.Resource, a.Namespace, ""}.allowedBy(g.roles))
		return w.Result(), err
	}
	if a, objects := accessOf(r); objects && !a.allowedBy(g.roles) {
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprintf(w, `{"kind":"Status","code":403,"reason":"Forbidden","message":%q}`, a)
		return w.Result(), nil
	}
	return g.Cluster.RoundTrip(r)
}

// accessOf is what a get, list or watch needs. Discovery needs nothing.
func accessOf(r *http.Request) (a access, objects bool) {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	if parts[0] == "api" {
		parts = slices.Insert(parts, 1, "")
	}
	if len(parts) <= 3 {
		return a, false
	}
	a.verb, a.group, parts = "list", parts[1], parts[3:]
	if parts[0] == "namespaces" && len(parts) > 2 {
		a.namespace, parts = parts[1], parts[2:]
	}
	a.resource = parts[0]
	switch {
	case len(parts) > 1:
		a.verb, a.name = "get", parts[1]
	case r.URL.Query().Get("watch") != "":
		a.verb = "watch"
	}
	return a, true
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
	stdout, _ := ends(t, exitOK, "rbac", "-c", config)
	for document := range strings.SplitSeq(stdout, "\n---\n") {
		var r rbacv1.Role // a ClusterRole has the same fields
		must(t, yaml.Unmarshal([]byte(document), &r))
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
			g := newGuarded()
			server, closeServer, err := serveCluster(t.Context(), g)
			must(t, err)
			defer closeServer()
			dir := t.TempDir()
			kubeconfig, config := filepath.Join(dir, "kubeconfig"), filepath.Join(dir, "config.yaml")
			write(t, kubeconfig, fmt.Sprintf(demoKubeconfig, server))
			const form = "resources: %s\njournal: {type: %s}\nsinks: [{name: out, type: stdout}]\nkubernetes: {kubeconfig: %q}\n"
			write(t, config, fmt.Sprintf(form, c.resources, c.journal, kubeconfig))
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

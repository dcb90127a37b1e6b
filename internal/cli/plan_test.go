package cli

import (
	"bytes"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/informd/informd/pkg/dynwatch"
)

// mixedPlan has a bit of everything.
func mixedPlan() dynwatch.WatchPlan {
	targets := []dynwatch.TargetPlan{
		{Name: "apps/deployments", Group: "apps", Version: "v1", Resource: "deployments", Kind: "Deployment", Mode: dynwatch.Full, State: dynwatch.Ready, ResourceVersion: 2_000_000, Objects: 412},
		{Name: "core/configmaps@shop", Version: "v1", Resource: "configmaps", Namespace: "shop", Scope: dynwatch.ScopeNamespaced, Kind: "ConfigMap", Mode: dynwatch.Metadata, State: dynwatch.Ready, ResourceVersion: 2_000_000},
		{Name: "core/events", Version: "v1", Resource: "events", Kind: "Event", Mode: dynwatch.Full, State: dynwatch.Ready, ResourceVersion: 2_000_000, Objects: 5000, More: true},
		{Name: "core/pods", Version: "v1", Resource: "pods", Kind: "Pod", Mode: dynwatch.Full, State: dynwatch.Forbidden, ResourceVersion: 2_000_000, Objects: 7, MissingVerbs: []string{"watch"}, Reason: `watch: pods is forbidden: User "x" cannot watch resource "pods" in API group "" at the cluster scope`},
		{Name: "core/secrets", Resource: "secrets", Mode: dynwatch.Full, State: dynwatch.Forbidden, MissingVerbs: []string{"list", "watch"}, Reason: "list: secrets is forbidden", NamespaceSelector: "tier=prod", MissingNamespaceVerbs: []string{"list", "watch"}},
		{Name: "core/services", Version: "v1", Resource: "services", Kind: "Service", Mode: dynwatch.Full, State: dynwatch.Ready, ResourceVersion: 2_000_000, Objects: 940, Namespaces: []string{"a", "b", "c", "d-*", "team-*"}, ExcludeNamespaces: []string{"*-sandbox"}, NamespaceSelector: "tier in (prod,test)", MatchingNamespaces: new(120)},
		{Name: "core/things", Version: "v1", Resource: "things", Kind: "Thing", Mode: dynwatch.Full, State: dynwatch.Forbidden, ResourceVersion: 2_000_000, ExcludeNamespaces: []string{"kube-*"}, NamespaceSelector: "!x", MatchingNamespaces: new(0), MissingNamespaceVerbs: []string{"watch"}, Reason: "namespaceSelector: the labels of namespaces are unreadable"},
		{Name: "*.example.com/*", Group: "*.example.com", Resource: "*", Mode: dynwatch.Full, State: dynwatch.Waiting, Reason: "no resource of the API server matches"},
		{Name: "apps/deploymnets", Group: "apps", Resource: "deploymnets", Mode: dynwatch.Full, State: dynwatch.Waiting, Reason: `not served: the API server has no resource "deploymnets" in apps (did you mean "deployments"?)`},
		{Name: "example.com/sensors", Group: "example.com", Resource: "sensors", Mode: dynwatch.Full, State: dynwatch.Waiting, Reason: `not served: the API server has no group "example.com"`},
		{Name: "metrics.k8s.io/nodes", Group: "metrics.k8s.io", Version: "v1beta1", Resource: "nodes", Kind: "NodeMetrics", Mode: dynwatch.Full, State: dynwatch.Ready, ResourceVersion: 2_000_000, Objects: 3, ClusterScoped: true},
	}
	for i := range targets {
		if targets[i].Scope == "" {
			targets[i].Scope = dynwatch.ScopeCluster
		}
	}
	return dynwatch.WatchPlan{Targets: targets, Optional: []dynwatch.MissingAccess{
		{Group: "apiregistration.k8s.io", Resource: "apiservices", Verbs: []string{"list", "watch"}, Without: "it takes longer"},
		{Resource: "namespaces", Name: "kube-system", Verbs: []string{"get"}, Without: "it cannot be checked"},
	}}
}

func showPlan(out io.Writer, output string, p *planReport) error {
	return (&format{value: output}).show(out, p, func(out io.Writer) error { return printPlan(out, p) })
}

func TestPlanOutputs(t *testing.T) {
	for _, output := range []string{formatTable, formatJSON, formatYAML} {
		t.Run(output, func(t *testing.T) {
			var out bytes.Buffer
			must(t, showPlan(&out, output, newPlanReport("prod-eu1", "https://10.0.0.1:6443", mixedPlan())))
			golden(t, filepath.Join("testdata", "plan-"+output+".golden"), out.String())
		})
	}
}

// Whatever the API server says does not act on the terminal, nor add lines to the table.
func TestPlanIsHarmless(t *testing.T) {
	const x = "a\x1b[2J\r\nb\u009b\u202e\tc\xff\u2028"
	hostile := func(x string) dynwatch.WatchPlan {
		return dynwatch.WatchPlan{Targets: []dynwatch.TargetPlan{{Name: x, Version: x, Kind: x, State: dynwatch.Forbidden, Reason: x, ResourceVersion: 1}}}
	}
	lines := make(map[string]int)
	for _, output := range []string{formatTable, formatJSON, formatYAML} {
		for _, text := range []string{"plain", x} {
			var out bytes.Buffer
			must(t, showPlan(&out, output, newPlanReport(text, text, hostile(text))))
			checkHarmless(t, out.String())
			if n := strings.Count(out.String(), "\n"); lines[output] == 0 {
				lines[output] = n
			} else if n != lines[output] {
				t.Errorf("%s: %d lines, want %d:\n%s", output, n, lines[output], out.String())
			}
		}
	}
}

// A config that would not work as it is has a verdict; one that waits for a resource,
// or works less well, has not.
func TestPlanVerdict(t *testing.T) {
	target := func(state dynwatch.State, missing, namespaces []string) dynwatch.TargetPlan {
		return dynwatch.TargetPlan{Name: "core/pods", State: state, MissingVerbs: missing, MissingNamespaceVerbs: namespaces}
	}
	list := []string{"list"}
	cases := map[string]struct {
		targets []dynwatch.TargetPlan
		want    string
	}{
		"ready":                {[]dynwatch.TargetPlan{target(dynwatch.Ready, nil, nil)}, ""},
		"waiting":              {[]dynwatch.TargetPlan{target(dynwatch.Ready, nil, nil), {Group: "example.com", Resource: "pods", State: dynwatch.Waiting}}, ""},
		"wildcards":            {[]dynwatch.TargetPlan{{Group: "*", Resource: "pods", State: dynwatch.Waiting}, {Resource: "x*", State: dynwatch.Waiting}}, ""},
		"cannot come":          {[]dynwatch.TargetPlan{target(dynwatch.Ready, nil, nil), target(dynwatch.Waiting, nil, nil)}, "1 resource does not exist in a built-in API group, where no CustomResourceDefinition can add any: check the name"},
		"waiting without verb": {[]dynwatch.TargetPlan{target(dynwatch.Waiting, list, nil)}, "1 target lacks permissions (see MISSING; informd rbac prints them)"},
		"namespaces":           {[]dynwatch.TargetPlan{target(dynwatch.Forbidden, nil, list), target(dynwatch.Ready, nil, nil)}, "1 target lacks permissions (see MISSING; informd rbac prints them)"},
		"forbidden, untold":    {[]dynwatch.TargetPlan{target(dynwatch.Forbidden, nil, nil)}, "1 target cannot be watched for another reason (see REASON)"},
		"both": {
			[]dynwatch.TargetPlan{target(dynwatch.Forbidden, list, list), target(dynwatch.Degraded, nil, nil), target(dynwatch.Degraded, nil, nil)},
			"1 target lacks permissions (see MISSING; informd rbac prints them); 2 targets cannot be watched for another reason (see REASON)",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			planned := dynwatch.WatchPlan{Targets: c.targets, Optional: []dynwatch.MissingAccess{{Resource: "namespaces", Verbs: list}}}
			got := ""
			if err := newPlanReport("c", "s", planned).Failure(); err != nil {
				got = strings.TrimPrefix(err.Error(), "informd cannot watch everything: ")
			}
			if got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

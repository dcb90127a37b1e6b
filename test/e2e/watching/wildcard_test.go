package watching_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/informd/informd/test/cluster"
	"github.com/informd/informd/test/e2e"
)

// everything is an entry for all that can be watched, but for what changes by itself.
const everything = `- {group: "*", resource: "*", excludeResources: [leases, "metrics.k8s.io/*"]}`

// served are the targets that everything has: what can be listed and watched, Events
// under one name.
func served(t *testing.T, config *rest.Config) []string {
	t.Helper()
	lists, err := discovery.NewDiscoveryClientForConfigOrDie(e2e.Fast(config)).ServerPreferredResources()
	e2e.Must(t, err)
	var all []string
	for _, list := range lists {
		group, _, versioned := strings.Cut(list.GroupVersion, "/")
		if !versioned {
			group = ""
		}
		for _, r := range list.APIResources {
			name := e2e.GroupOrCore(group) + "/" + r.Name
			if slices.Contains(r.Verbs, "list") && slices.Contains(r.Verbs, "watch") && r.Name != "leases" && name != "events.k8s.io/events" {
				all = append(all, name)
			}
		}
	}
	slices.Sort(all)
	return all
}

// watchesAll reports whether informd's targets are these, all of them live.
func watchesAll(d *e2e.Informd, want []string) bool {
	s, err := d.Status()
	if err != nil {
		return false
	}
	var got []string
	for _, target := range s.Targets {
		if target.State == "live" {
			got = append(got, target.Target)
		}
	}
	slices.Sort(got)
	return len(s.Targets) == len(got) && slices.Equal(got, want)
}

// TestWildcardOfEverything: every resource of a real API server is live, and follows
// it over a restart.
func TestWildcardOfEverything(t *testing.T) {
	c := cluster.Start(t, cluster.Options{})
	client := dynamic.NewForConfigOrDie(e2e.Fast(c.RESTConfig()))
	l := e2e.NewLedger()
	kinds := []e2e.Kind{e2e.PodKind()}
	e2e.WriteAll(t, client, kinds, l, 20, 1)
	l.Begin()
	d := e2e.NewInformd(t, e2e.Setup{Kubeconfig: c.Kubeconfig(), Journal: e2e.LogJournal, Resources: everything})
	d.Start()
	want := served(t, c.RESTConfig())
	e2e.Eventually(t, "everything is live", func() bool { return watchesAll(d, want) })
	t.Logf("%d targets", len(want))
	if len(want) < 40 || !slices.Contains(want, "core/events") {
		t.Errorf("targets %q", want)
	}
	e2e.WriteAll(t, client, kinds, l, 20, 2)
	later := e2e.CustomKind("gadgets", false)
	took := e2e.Installed(t, d, c.RESTConfig(), later)
	t.Logf("a custom resource is live %v after it was served", took.Round(time.Millisecond))
	if took > e2e.LiveLimit {
		t.Errorf("a custom resource is live %v after it was served", took)
	}
	kinds = append(kinds, later)
	e2e.WriteAll(t, client, kinds, l, 20, 3)
	e2e.Eventually(t, "stream complete", func() bool { return e2e.Complete(kinds, d.Records(), l) })
	d.Stop()
	before := len(d.Records())
	d.Start()
	want = append(want, later.Target())
	slices.Sort(want)
	e2e.Eventually(t, "everything is live again", func() bool { return watchesAll(d, want) })
	e2e.WriteAll(t, client, kinds, l, 20, 4)
	e2e.Eventually(t, "stream complete", func() bool { return e2e.Complete(kinds, d.Records(), l) })
	ids := make(map[string]bool)
	for i, r := range d.Records() {
		if i >= before && (r.Op == "snapshot" || r.Op == "gap") {
			t.Errorf("after a restart that changed nothing: %s %s", r.Op, r.ID)
		}
		if r.Resource == later.GVR.Resource && r.Op == "snapshot" {
			t.Errorf("%s came later, and is a snapshot", r.ID)
		}
		if r.UID != "" && r.Resource == "events" && r.Group != "" {
			t.Errorf("%s: Events are watched under their second name", r.ID)
		}
		if ids[r.ID] {
			t.Errorf("id %s repeated", r.ID)
		}
		ids[r.ID] = true
	}
	for _, k := range kinds {
		e2e.Check(t, k, d.Records(), l, client, e2e.Claim{})
	}
	if n := strings.Count(d.Stderr.String(), "wildcard matches Secrets"); n != 2 {
		t.Errorf("%d lines say so of Secrets, want one for each start", n)
	}
}

// TestWildcardAndAnAPIServerThatIsDown: a group that cannot say what it has holds up
// none of the others.
func TestWildcardAndAnAPIServerThatIsDown(t *testing.T) {
	c := cluster.Start(t, cluster.Options{})
	client := dynamic.NewForConfigOrDie(e2e.Fast(c.RESTConfig()))
	d := e2e.StartInformd(t, c.Kubeconfig(), everything, "")
	want := served(t, c.RESTConfig())
	e2e.Eventually(t, "everything is live", func() bool { return watchesAll(d, want) })
	services := client.Resource(schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"})
	down := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": map[string]any{"name": "v1.down.example.com"},
		"spec": map[string]any{
			"group": "down.example.com", "version": "v1", "groupPriorityMinimum": int64(100), "versionPriority": int64(10),
			"insecureSkipTLSVerify": true, "service": map[string]any{"namespace": "default", "name": "nobody"},
		},
	}}
	e2e.Create(t, services, down)
	e2e.Eventually(t, "it is logged", func() bool {
		return strings.Contains(d.Stderr.String(), "discovery of API groups failed") && strings.Contains(d.Stderr.String(), "groups=down.example.com")
	})
	k := e2e.CustomKind("gadgets", false)
	took := e2e.Installed(t, d, c.RESTConfig(), k)
	t.Logf("a custom resource is live %v after it was served", took.Round(time.Millisecond))
	want = append(want, k.Target())
	slices.Sort(want)
	e2e.Eventually(t, "everything else is live", func() bool { return watchesAll(d, want) })
	e2e.Must(t, services.Delete(t.Context(), "v1.down.example.com", metav1.DeleteOptions{}))
	e2e.Eventually(t, "it is logged", func() bool { return strings.Contains(d.Stderr.String(), "discovery of every API group works again") })
	if !watchesAll(d, want) {
		t.Error("not everything is live")
	}
}

package watching_test

import (
	"fmt"
	"math/rand/v2"
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

const (
	// wildKinds is how many kinds come and go, comingsAndGoings how often one does.
	wildKinds        = 5
	comingsAndGoings = 20
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

// TestWildcardWhileResourcesComeAndGo: custom resources are installed and removed at
// random; an entry of its own beside the wildcard does not notice.
func TestWildcardWhileResourcesComeAndGo(t *testing.T) {
	c := cluster.Start(t, cluster.Options{})
	client := dynamic.NewForConfigOrDie(e2e.Fast(c.RESTConfig()))
	l := e2e.NewLedger()
	own := e2e.ConfigMapKind()
	d := e2e.NewInformd(t, e2e.Setup{Kubeconfig: c.Kubeconfig(), Journal: e2e.LogJournal, Resources: "- {resource: configmaps, namespaces: [default]}\n" + everything})
	d.Start()
	base := served(t, c.RESTConfig())
	base[slices.Index(base, own.Target())] += "@default"
	e2e.Eventually(t, "everything is live", func() bool { return watchesAll(d, base) })
	e2e.WriteAll(t, client, []e2e.Kind{own}, l, 5, 9)
	end := e2e.LoadAll(t, client, []e2e.Kind{own}, l, 10)
	random := rand.New(rand.NewPCG(3, 4))
	var kinds []e2e.Kind
	for i := range wildKinds {
		kinds = append(kinds, e2e.CustomKind(fmt.Sprintf("wild%cs", 'a'+i), i%2 == 0))
	}
	there := make(map[int]bool)
	for step := range comingsAndGoings {
		i := random.IntN(len(kinds))
		k := kinds[i]
		if !there[i] {
			k.Install(t, client)
			there[i] = true
			e2e.WriteAll(t, client, []e2e.Kind{k}, l, 10, uint64(step)*100)
			continue
		}
		if random.IntN(2) == 0 { // else it may not even be watched yet
			e2e.Eventually(t, k.Target()+" live", func() bool { return d.StateOf(k) == "live" })
		}
		list, err := client.Resource(k.GVR).List(t.Context(), metav1.ListOptions{})
		e2e.Must(t, err)
		for _, o := range list.Items {
			l.Removed(k, o.GetUID())
		}
		removeDefinition(t, client, k)
		there[i] = false
	}
	end()
	want := slices.Clone(base)
	for i, k := range kinds {
		if there[i] {
			want = append(want, k.Target())
			e2e.WriteAll(t, client, []e2e.Kind{k}, l, 10, uint64(1000+i))
		}
	}
	slices.Sort(want)
	e2e.Eventually(t, "what is there is watched, and nothing else", func() bool { return watchesAll(d, want) })
	var present []e2e.Kind
	for i, k := range kinds {
		if there[i] {
			present = append(present, k)
		}
	}
	e2e.Eventually(t, "stream complete", func() bool { return e2e.Complete([]e2e.Kind{own}, d.Records(), l) })
	e2e.Eventually(t, "final states", func() bool {
		return !slices.ContainsFunc(kinds, func(k e2e.Kind) bool { return finalStates(t, k, present, d.Records(), client) != "" })
	})
	for _, k := range kinds {
		if diff := finalStates(t, k, present, d.Records(), client); diff != "" {
			t.Error(diff)
		}
	}
	e2e.Check(t, own, d.Records(), l, client, e2e.Claim{})
	twice := make(map[string]bool)
	for _, r := range d.Records() {
		if twice[r.ID] {
			t.Errorf("id %s repeated", r.ID)
		}
		twice[r.ID] = true
	}
	t.Logf("%d events, %d gaps, %d targets at the end", len(d.Records()), e2e.Count(d.Records(), "gap"), len(want))
}

// finalStates says how what the records end with differs from the cluster: every
// object there in its last revision, and no other one that has not ended once.
func finalStates(t *testing.T, k e2e.Kind, present []e2e.Kind, records []e2e.Record, client dynamic.Interface) string {
	t.Helper()
	now := make(map[string]string) // revision by uid
	if slices.ContainsFunc(present, func(p e2e.Kind) bool { return p.Target() == k.Target() }) {
		list, err := client.Resource(k.GVR).List(t.Context(), metav1.ListOptions{})
		e2e.Must(t, err)
		for _, o := range list.Items {
			now[string(o.GetUID())] = o.GetResourceVersion()
		}
	}
	announced, ended := make(map[string]string), make(map[string]int)
	for _, r := range records {
		if r.Resource != k.GVR.Resource || r.UID == "" {
			continue
		}
		announced[r.UID] = fmt.Sprint(r.ResourceVersion)
		if r.Op == "deleted" {
			ended[r.UID]++
		}
		if r.Op == "snapshot" {
			return fmt.Sprintf("%s: %s is a snapshot of what came later", k.Target(), r.ID)
		}
	}
	for uid, rv := range now {
		if announced[uid] != rv || ended[uid] != 0 {
			return fmt.Sprintf("%s: %s is at %s, announced %q, ended %d times", k.Target(), uid, rv, announced[uid], ended[uid])
		}
	}
	for uid := range announced {
		if now[uid] == "" && ended[uid] != 1 {
			return fmt.Sprintf("%s: %s is not there, ended %d times", k.Target(), uid, ended[uid])
		}
	}
	return ""
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
	if _, err := services.Create(t.Context(), down, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
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

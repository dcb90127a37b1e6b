package e2e_test

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
	lists, err := discovery.NewDiscoveryClientForConfigOrDie(fast(config)).ServerPreferredResources()
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, list := range lists {
		group, _, versioned := strings.Cut(list.GroupVersion, "/")
		if !versioned {
			group = ""
		}
		for _, r := range list.APIResources {
			name := groupOrCore(group) + "/" + r.Name
			if slices.Contains(r.Verbs, "list") && slices.Contains(r.Verbs, "watch") && r.Name != "leases" && name != "events.k8s.io/events" {
				all = append(all, name)
			}
		}
	}
	slices.Sort(all)
	return all
}

// watchesAll reports whether informd's targets are these, all of them live.
func (d *informd) watchesAll(want []string) bool {
	s, err := d.status()
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
	client := dynamic.NewForConfigOrDie(fast(c.RESTConfig()))
	l := newLedger()
	kinds := []kind{podKind()}
	writeAll(t, client, kinds, l, 20, 1)
	l.begin()
	d := newInformd(t, setup{kubeconfig: c.Kubeconfig(), journal: logJournal, resources: everything})
	d.start()
	want := served(t, c.RESTConfig())
	eventually(t, "everything is live", func() bool { return d.watchesAll(want) })
	t.Logf("%d targets", len(want))
	if len(want) < 40 || !slices.Contains(want, "core/events") {
		t.Errorf("targets %q", want)
	}
	writeAll(t, client, kinds, l, 20, 2)
	later := customKind("gadgets", false)
	took := installed(t, d, c.RESTConfig(), later)
	t.Logf("a custom resource is live %v after it was served", took.Round(time.Millisecond))
	if took > liveLimit {
		t.Errorf("a custom resource is live %v after it was served", took)
	}
	kinds = append(kinds, later)
	writeAll(t, client, kinds, l, 20, 3)
	eventually(t, "stream complete", func() bool { return complete(kinds, d.records(), l) })
	d.stop()
	before := len(d.records())
	d.start()
	want = append(want, later.target())
	slices.Sort(want)
	eventually(t, "everything is live again", func() bool { return d.watchesAll(want) })
	writeAll(t, client, kinds, l, 20, 4)
	eventually(t, "stream complete", func() bool { return complete(kinds, d.records(), l) })
	ids := make(map[string]bool)
	for i, r := range d.records() {
		if i >= before && (r.Op == "snapshot" || r.Op == "gap") {
			t.Errorf("after a restart that changed nothing: %s %s", r.Op, r.ID)
		}
		if r.Resource == later.gvr.Resource && r.Op == "snapshot" {
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
		check(t, k, d.records(), l, client, claim{})
	}
	if n := strings.Count(d.stderr.String(), "wildcard matches Secrets"); n != 2 {
		t.Errorf("%d lines say so of Secrets, want one for each start", n)
	}
}

// TestWildcardWhileResourcesComeAndGo: custom resources are installed and removed at
// random; an entry of its own beside the wildcard does not notice.
func TestWildcardWhileResourcesComeAndGo(t *testing.T) {
	c := cluster.Start(t, cluster.Options{})
	client := dynamic.NewForConfigOrDie(fast(c.RESTConfig()))
	l := newLedger()
	own := configMapKind()
	d := newInformd(t, setup{kubeconfig: c.Kubeconfig(), journal: logJournal, resources: "- {resource: configmaps, namespaces: [default]}\n" + everything})
	d.start()
	base := served(t, c.RESTConfig())
	base[slices.Index(base, own.target())] += "@default"
	eventually(t, "everything is live", func() bool { return d.watchesAll(base) })
	writeAll(t, client, []kind{own}, l, 5, 9)
	end := loadAll(t, client, []kind{own}, l, 10)
	random := rand.New(rand.NewPCG(3, 4))
	var kinds []kind
	for i := range wildKinds {
		kinds = append(kinds, customKind(fmt.Sprintf("wild%cs", 'a'+i), i%2 == 0))
	}
	there := make(map[int]bool)
	for step := range comingsAndGoings {
		i := random.IntN(len(kinds))
		k := kinds[i]
		if !there[i] {
			k.install(t, client)
			there[i] = true
			writeAll(t, client, []kind{k}, l, 10, uint64(step)*100)
			continue
		}
		if random.IntN(2) == 0 { // else it may not even be watched yet
			eventually(t, k.target()+" live", func() bool { return d.stateOf(k) == "live" })
		}
		list, err := client.Resource(k.gvr).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range list.Items {
			l.removed(k, o.GetUID())
		}
		removeDefinition(t, client, k)
		there[i] = false
	}
	end()
	want := slices.Clone(base)
	for i, k := range kinds {
		if there[i] {
			want = append(want, k.target())
			writeAll(t, client, []kind{k}, l, 10, uint64(1000+i))
		}
	}
	slices.Sort(want)
	eventually(t, "what is there is watched, and nothing else", func() bool { return d.watchesAll(want) })
	var present []kind
	for i, k := range kinds {
		if there[i] {
			present = append(present, k)
		}
	}
	eventually(t, "stream complete", func() bool { return complete([]kind{own}, d.records(), l) })
	eventually(t, "final states", func() bool {
		return !slices.ContainsFunc(kinds, func(k kind) bool { return finalStates(t, k, present, d.records(), client) != "" })
	})
	for _, k := range kinds {
		if diff := finalStates(t, k, present, d.records(), client); diff != "" {
			t.Error(diff)
		}
	}
	check(t, own, d.records(), l, client, claim{})
	twice := make(map[string]bool)
	for _, r := range d.records() {
		if twice[r.ID] {
			t.Errorf("id %s repeated", r.ID)
		}
		twice[r.ID] = true
	}
	t.Logf("%d events, %d gaps, %d targets at the end", len(d.records()), count(d.records(), "gap"), len(want))
}

// finalStates says how what the records end with differs from the cluster: every
// object there in its last revision, and no other one that has not ended once.
func finalStates(t *testing.T, k kind, present []kind, records []record, client dynamic.Interface) string {
	t.Helper()
	now := make(map[string]string) // revision by uid
	if slices.ContainsFunc(present, func(p kind) bool { return p.target() == k.target() }) {
		list, err := client.Resource(k.gvr).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range list.Items {
			now[string(o.GetUID())] = o.GetResourceVersion()
		}
	}
	told, ended := make(map[string]string), make(map[string]int)
	for _, r := range records {
		if r.Resource != k.gvr.Resource || r.UID == "" {
			continue
		}
		told[r.UID] = fmt.Sprint(r.ResourceVersion)
		if r.Op == "deleted" {
			ended[r.UID]++
		}
		if r.Op == "snapshot" {
			return fmt.Sprintf("%s: %s is a snapshot of what came later", k.target(), r.ID)
		}
	}
	for uid, rv := range now {
		if told[uid] != rv || ended[uid] != 0 {
			return fmt.Sprintf("%s: %s is at %s, told %q, ended %d times", k.target(), uid, rv, told[uid], ended[uid])
		}
	}
	for uid := range told {
		if now[uid] == "" && ended[uid] != 1 {
			return fmt.Sprintf("%s: %s is not there, ended %d times", k.target(), uid, ended[uid])
		}
	}
	return ""
}

// TestWildcardAndAnAPIServerThatIsDown: a group that cannot say what it has holds up
// none of the others.
func TestWildcardAndAnAPIServerThatIsDown(t *testing.T) {
	c := cluster.Start(t, cluster.Options{})
	client := dynamic.NewForConfigOrDie(fast(c.RESTConfig()))
	d := startInformd(t, c.Kubeconfig(), everything, "")
	want := served(t, c.RESTConfig())
	eventually(t, "everything is live", func() bool { return d.watchesAll(want) })
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
	eventually(t, "it is logged", func() bool {
		return strings.Contains(d.stderr.String(), "discovery of API groups failed") && strings.Contains(d.stderr.String(), "groups=down.example.com")
	})
	k := customKind("gadgets", false)
	took := installed(t, d, c.RESTConfig(), k)
	t.Logf("a custom resource is live %v after it was served", took.Round(time.Millisecond))
	want = append(want, k.target())
	slices.Sort(want)
	eventually(t, "everything else is live", func() bool { return d.watchesAll(want) })
	if err := services.Delete(t.Context(), "v1.down.example.com", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is logged", func() bool { return strings.Contains(d.stderr.String(), "discovery of every API group works again") })
	if !d.watchesAll(want) {
		t.Error("not everything is live")
	}
}

package watching_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/informd/informd/test/cluster"
	"github.com/informd/informd/test/e2e"
)

// namespaced are a cluster's Namespaces and the ConfigMaps in them.
type namespaced struct {
	t      *testing.T
	client dynamic.Interface

	mu sync.Mutex
	// written are the revisions of each object in team-a, which matches all the time.
	written map[string][]uint64
}

func (n *namespaced) namespaces() dynamic.NamespaceableResourceInterface {
	return n.client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"})
}

func (n *namespaced) configMaps(namespace string) dynamic.ResourceInterface {
	return n.client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace(namespace)
}

// label creates a namespace or gives it another label. It returns the revision.
func (n *namespaced) label(ctx context.Context, name, tier string) uint64 {
	patch := fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":%q,"labels":{"tier":%q}}}`, name, tier)
	force := true
	o, err := n.namespaces().Patch(ctx, name, types.ApplyPatchType, patch, metav1.PatchOptions{FieldManager: "test", Force: &force})
	if err != nil {
		n.t.Error(err)
		return 0
	}
	return number64(n.t, o.GetResourceVersion())
}

// change creates, updates or deletes one of a few ConfigMaps.
func (n *namespaced) change(ctx context.Context, namespace string, random *rand.Rand) {
	maps, name := n.configMaps(namespace), fmt.Sprint("n", random.IntN(8))
	o := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name}, "data": map[string]any{"n": fmt.Sprint(random.Int())},
	}}
	_, err := maps.Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		o, err = maps.Create(ctx, o, metav1.CreateOptions{})
	case err == nil && random.IntN(4) == 0:
		o, err = nil, maps.Delete(ctx, name, metav1.DeleteOptions{})
	case err == nil:
		o, err = maps.Update(ctx, o, metav1.UpdateOptions{})
	}
	if err != nil {
		n.t.Error(err)
		return
	}
	if o != nil && namespace == "team-a" {
		n.mu.Lock()
		n.written[string(o.GetUID())] = append(n.written[string(o.GetUID())], number64(n.t, o.GetResourceVersion()))
		n.mu.Unlock()
	}
}

func number64(t *testing.T, text string) (n uint64) {
	if _, err := fmt.Sscan(text, &n); err != nil {
		t.Error(err)
	}
	return n
}

// TestNamespacesTurnUnderLoad: labels of namespaces flip while the ConfigMaps in them
// change and informd is killed. Every object's events are a legal sequence, nothing
// is said of a namespace that does not match by name, one that matches throughout
// tells every revision, and in the end the stream is what matches.
func TestNamespacesTurnUnderLoad(t *testing.T) {
	c := cluster.Start(t, cluster.Options{})
	n := &namespaced{t: t, client: dynamic.NewForConfigOrDie(e2e.Fast(c.RESTConfig())), written: make(map[string][]uint64)}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	names := []string{"team-a", "team-b", "team-c", "team-x", "shop"}
	for _, name := range names {
		n.label(t.Context(), name, "prod")
	}
	d := e2e.NewInformd(t, e2e.Setup{
		Kubeconfig: c.Kubeconfig(), Journal: e2e.LogJournal + e2e.LongHistory,
		Resources: `- {resource: configmaps, namespaces: ["team-*"], excludeNamespaces: [team-x], namespaceSelector: tier=prod}`,
	})
	d.Start()
	d.WaitForSync(1)
	ctx := context.WithoutCancel(t.Context())
	ended := make(chan struct{})
	var all sync.WaitGroup
	every := func(pause time.Duration, seed uint64, do func(*rand.Rand)) {
		random := rand.New(rand.NewPCG(seed, 0))
		all.Go(func() {
			pace := time.NewTicker(pause)
			defer pace.Stop()
			for {
				select {
				case <-ended:
					return
				case <-pace.C:
					do(random)
				}
			}
		})
	}
	for i, name := range names {
		every(20*time.Millisecond, seed+uint64(i), func(random *rand.Rand) { n.change(ctx, name, random) })
	}
	every(150*time.Millisecond, seed+100, func(random *rand.Rand) {
		n.label(ctx, []string{"team-b", "team-c", "team-x"}[random.IntN(3)], []string{"prod", "test"}[random.IntN(2)])
	})
	for range e2e.Number(t, "E2E_KILLS", 4) {
		<-time.After(3 * time.Second) // of load
		d.Kill()
		d.Start()
	}
	<-time.After(3 * time.Second)
	close(ended)
	all.Wait()
	n.label(ctx, "team-b", "prod")
	n.label(ctx, "team-c", "test")
	n.label(ctx, "team-b", "prod")
	n.check(d)
	n.deleteNamespace(ctx, d, "team-b")
}

// check waits until the stream ends in what matches, and holds it to the rest.
func (n *namespaced) check(d *e2e.Informd) {
	n.t.Helper()
	want := make(map[string]uint64)
	for _, namespace := range []string{"team-a", "team-b"} {
		list, err := n.configMaps(namespace).List(n.t.Context(), metav1.ListOptions{})
		e2e.Must(n.t, err)
		for _, o := range list.Items {
			want[string(o.GetUID())] = number64(n.t, o.GetResourceVersion())
		}
	}
	var records []e2e.Record
	e2e.Eventually(n.t, "the stream is what matches", func() bool {
		records, _ = e2e.Once(n.t, d.Records())
		is := make(map[string]uint64)
		for _, r := range records {
			if is[r.UID] = r.ResourceVersion; r.Control() || r.Op == "deleted" || r.Op == "left" {
				delete(is, r.UID)
			}
		}
		if len(is) != len(want) {
			return false
		}
		for uid, rv := range want {
			if is[uid] != rv {
				return false
			}
		}
		return true
	})
	announced, left := make(map[string][]uint64), 0
	last := make(map[string]e2e.Record)
	for _, r := range records {
		// A kill while a namespace turns can leave the log ahead of the cursor: what is
		// announced of that namespace then begins with its present state, and a gap.
		if r.Op == "gap" && (r.Reason != "selection" || r.Recovered != "state") {
			n.t.Errorf("a gap: %s", r.Raw)
		}
		if r.Control() {
			continue
		}
		if r.Namespace == "team-x" || r.Namespace == "shop" {
			n.t.Errorf("announced of %s: %s", r.Namespace, r.ID)
		}
		if r.Namespace == "team-a" && r.Op != "deleted" {
			announced[r.UID] = append(announced[r.UID], r.ResourceVersion)
		}
		if r.Op == "left" {
			left++
		}
		n.checkNext(last[r.UID], r)
		last[r.UID] = r
	}
	for uid, revisions := range n.written {
		if fmt.Sprint(revisions) != fmt.Sprint(announced[uid]) {
			n.t.Errorf("%s in team-a: announced %v, written %v", uid, announced[uid], revisions)
		}
	}
	n.t.Logf("%d events, %d of them left", len(records), left)
	if left == 0 {
		n.t.Error("nothing left, so that nothing is proven")
	}
}

// checkNext holds an event to the one before it of the same object.
func (n *namespaced) checkNext(before, r e2e.Record) {
	in := before.Op != "" && before.Op != "deleted" && before.Op != "left"
	legal := map[string]bool{
		"snapshot": before.Op == "", "added": before.Op == "", "entered": !in && before.Op != "deleted",
		"modified": in, "left": in, "deleted": in,
	}
	if !legal[r.Op] {
		n.t.Errorf("%s %s after %q", r.Op, r.ID, before.Op)
	}
	if r.Ordinal != before.Ordinal+1 || r.PrevResourceVersion != before.ResourceVersion || r.ResourceVersion < before.ResourceVersion {
		n.t.Errorf("%s: ordinal %d after %d, revision %d (prev %d) after %d", r.ID, r.Ordinal, before.Ordinal, r.ResourceVersion, r.PrevResourceVersion, before.ResourceVersion)
	}
}

// deleteNamespace deletes a namespace as the cluster's controller does: first what is
// in it, all of which ends in deletions.
func (n *namespaced) deleteNamespace(ctx context.Context, d *e2e.Informd, name string) {
	n.t.Helper()
	before := len(d.Records())
	list, err := n.configMaps(name).List(ctx, metav1.ListOptions{})
	e2e.Must(n.t, err)
	e2e.Must(n.t, n.namespaces().Delete(ctx, name, metav1.DeleteOptions{}))
	e2e.Must(n.t, n.configMaps(name).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}))
	o, err := n.namespaces().Get(ctx, name, metav1.GetOptions{})
	if err == nil {
		unstructured.RemoveNestedField(o.Object, "spec", "finalizers")
		_, err = n.namespaces().Update(ctx, o, metav1.UpdateOptions{}, "finalize")
	}
	e2e.Must(n.t, err)
	e2e.Eventually(n.t, "all deletions", func() bool { return len(d.Records())-before >= len(list.Items) })
	for _, r := range d.Records()[before:] {
		if r.Op != "deleted" || r.Namespace != name {
			n.t.Errorf("%s %s", r.Op, r.Subject)
		}
	}
}

// TestThousandNamespaces: one watch of the ConfigMaps and one of the Namespaces are
// all it takes where 1,000 namespaces are selected by label, and with 10 labels a second
// that flip, every object enters and leaves exactly when it should, and nothing else
// is announced.
func TestThousandNamespaces(t *testing.T) {
	const (
		namespaces, perSecond = 1000, 10
		flipping              = 100 // of them, in turn
		objects               = 2   // in each
	)
	flips := perSecond * e2e.Number(t, "E2E_FLIP_SECONDS", 20)
	c := cluster.Start(t, cluster.Options{})
	n := &namespaced{t: t, client: dynamic.NewForConfigOrDie(e2e.Fast(c.RESTConfig()))}
	began := time.Now()
	stored := make([][objects]string, namespaces) // <uid>:<revision> of each object
	name := func(i int) string { return fmt.Sprintf("team-%d", i) }
	tier := func(matches bool) string { return map[bool]string{true: "prod", false: "test"}[matches] }
	matches := func(i int) bool { return i%2 == 0 }
	e2e.InParallel(t, namespaces, func(ctx context.Context, i int) error {
		n.label(ctx, name(i), tier(matches(i)))
		for j := range objects {
			o, err := n.configMaps(name(i)).Create(ctx, &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": fmt.Sprint("n", j)},
			}}, metav1.CreateOptions{})
			if err != nil {
				return err
			}
			stored[i][j] = fmt.Sprintf("%s:%s", o.GetUID(), o.GetResourceVersion())
		}
		return nil
	})
	t.Logf("%d namespaces made in %.1f s", namespaces, time.Since(began).Seconds())

	p := e2e.StartProxy(t, c.RESTConfig())
	d := e2e.NewInformd(t, e2e.Setup{
		Kubeconfig: p.Kubeconfig, Journal: e2e.LogJournal,
		Resources: `- {resource: configmaps, namespaces: ["team-*"], namespaceSelector: tier=prod}`,
	})
	d.Start()
	d.WaitForDelivery(namespaces/2*objects + 2)
	before := len(d.Records())

	var want []string // ids
	pace := time.NewTicker(time.Second / perSecond)
	defer pace.Stop()
	began = time.Now()
	for flip := range flips {
		<-pace.C
		i := flip % flipping
		in := matches(i) == (flip/flipping%2 == 1)
		revision := n.label(t.Context(), name(i), tier(in))
		for _, object := range stored[i] {
			want = append(want, fmt.Sprintf("%s:%s:%d", object, map[bool]string{true: "entered", false: "left"}[in], revision))
		}
	}
	took := time.Since(began)
	var records []e2e.Record
	e2e.Eventually(t, "all that entered and left", func() bool {
		records = d.Records()[before:]
		return len(records) >= len(want)
	})
	t.Logf("%d flips in %.1f s, all announced %.2f s after the last", flips, took.Seconds(), time.Since(began.Add(took)).Seconds())
	d.WaitForLive(1)
	records = d.Records()[before:]
	last := make(map[string]e2e.Record)
	for _, r := range d.Records() {
		if !r.Control() {
			n.checkNext(last[r.UID], r)
			last[r.UID] = r
		}
	}
	announced := make(map[string]bool)
	for _, r := range records {
		announced[r.ID] = true
	}
	for _, id := range want {
		if !announced[id] {
			t.Errorf("not announced: %s", id)
		}
	}
	if len(records) != len(want) {
		t.Errorf("%d events, want %d", len(records), len(want))
	}
	p.Set(func() {
		for _, resource := range []string{"configmaps", "namespaces"} {
			if p.Watches[resource] != 1 {
				t.Errorf("%d watches of %s", p.Watches[resource], resource)
			}
		}
	})
}

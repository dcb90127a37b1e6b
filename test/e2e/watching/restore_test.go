package watching_test

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"

	"github.com/informd/informd/test/cluster"
	"github.com/informd/informd/test/e2e"
	"github.com/informd/informd/test/natsserver"
)

// restored is what the restores of one cluster are watched by: an informd with a file sink and
// a JetStream that deduplicates by id.
type restored struct {
	t       *testing.T
	cluster *cluster.Cluster
	nats    *natsserver.Server
	client  dynamic.Interface
	kinds   []e2e.Kind
	informd *e2e.Informd
	seed    uint64
}

func newRestored(t *testing.T) *restored {
	t.Helper()
	c := cluster.Start(t, cluster.Options{})
	r := &restored{
		t: t, cluster: c, nats: natsserver.Start(t, natsserver.Options{}), client: dynamic.NewForConfigOrDie(e2e.Fast(c.RESTConfig())),
		kinds: []e2e.Kind{e2e.ConfigMapKind(), e2e.CustomKind("gadgets", false)},
	}
	r.kinds[1].Install(t, r.client)
	r.write(20)
	r.informd = e2e.NewInformd(t, e2e.Setup{
		Kubeconfig: c.Kubeconfig(), Journal: e2e.LogJournal, Sinks: e2e.BusSink(r.nats.URL()),
		Resources: `
		- {resource: configmaps, namespaces: [default]}
		- {group: e2e.example.com, resource: gadgets}`,
	})
	r.informd.Start()
	r.informd.WaitForSync(len(r.kinds))
	return r
}

// write makes n random changes to each kind.
func (r *restored) write(n int) {
	r.t.Helper()
	r.seed++
	e2e.WriteAll(r.t, r.client, r.kinds, e2e.NewLedger(), n, r.seed)
}

// state is what the cluster holds, by target and name.
func (r *restored) state() map[string]string {
	r.t.Helper()
	state := make(map[string]string)
	for _, k := range r.kinds {
		list, err := r.client.Resource(k.GVR).Namespace("default").List(r.t.Context(), metav1.ListOptions{})
		e2e.Must(r.t, err)
		for _, o := range list.Items {
			state[k.Target()+"/"+o.GetName()] = fmt.Sprintf("%s %s", o.GetUID(), o.GetResourceVersion())
		}
	}
	return state
}

// stateOf is the state of a consumer that applies records in order, leaving out ids that it
// has seen if it deduplicates.
func stateOf(records []e2e.Record, deduplicates bool) map[string]string {
	state, seen := make(map[string]string), make(map[string]bool)
	for _, r := range records {
		if r.Control() || deduplicates && seen[r.ID] {
			continue
		}
		seen[r.ID] = true
		name := e2e.GroupOrCore(r.Group) + "/" + r.Resource + "/" + r.Name
		switch {
		case r.Op != "deleted" && r.Op != "left":
			state[name] = fmt.Sprintf("%s %d", r.UID, r.ResourceVersion)
		case strings.HasPrefix(state[name], r.UID+" "):
			delete(state, name)
		}
	}
	return state
}

// consistent waits until every sink has the state of the cluster.
func (r *restored) consistent() {
	r.t.Helper()
	want := r.state()
	for _, deduplicates := range []bool{false, true} {
		e2e.Eventually(r.t, fmt.Sprintf("the file, deduplicated: %t", deduplicates), func() bool {
			return maps.Equal(want, stateOf(r.informd.Records(), deduplicates))
		})
	}
	e2e.Eventually(r.t, "the JetStream", func() bool {
		return maps.Equal(want, stateOf(e2e.ReadStream(r.t, r.nats.URL(), e2e.BusStream), true))
	})
}

// rollback waits until every target has declared as many rollbacks.
func (r *restored) rollback(n int) {
	r.t.Helper()
	e2e.Eventually(r.t, fmt.Sprintf("gap %d of a rollback", n), func() bool {
		gaps := make(map[string]int)
		for _, x := range r.informd.Records() {
			if x.Op == "gap" && x.Reason == "rollback" {
				gaps[x.Resource]++
			}
		}
		return len(gaps) == len(r.kinds) && slices.Min(slices.Collect(maps.Values(gaps))) >= n
	})
}

// Etcd is restored as its documentation says for Kubernetes, with a raised revision: below
// API servers that are stopped, and below one that runs on.
func TestEtcdRestoredWithARaisedRevision(t *testing.T) {
	r := newRestored(t)
	for i, running := range []bool{false, true} {
		t.Logf("the API server runs on: %t", running)
		backup := filepath.Join(t.TempDir(), "backup.db")
		e2e.Must(t, r.cluster.SnapshotEtcd(t.Context(), backup))
		r.write(60) // changes, deletions, new objects and old names
		r.consistent()
		if !running {
			e2e.Must(t, r.cluster.APIServer(0).Kill())
		}
		options := cluster.RestoreOptions{BumpRevision: 1_000_000, MarkCompacted: true}
		e2e.Must(t, r.cluster.RestoreEtcd(t.Context(), backup, options))
		if !running {
			e2e.Must(t, r.cluster.APIServer(0).Start(t.Context()))
		}
		r.ready()
		r.rollback(i + 1)
		r.consistent()
		r.write(20)
		r.consistent()
	}
}

// ready waits until the API server answers from the restored etcd.
func (r *restored) ready() {
	r.t.Helper()
	e2e.Eventually(r.t, "the API server is ready", func() bool {
		ctx, cancel := context.WithTimeout(r.t.Context(), e2e.Patience)
		defer cancel()
		_, err := r.client.Resource(r.kinds[1].GVR).List(ctx, metav1.ListOptions{Limit: 1})
		return err == nil
	})
}

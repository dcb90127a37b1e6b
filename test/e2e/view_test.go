package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"testing"

	"github.com/nats-io/nats.go"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/informd/informd/examples/materialised-view/view"
)

// startView follows the stream of the sink bus until the test ends.
func (r *rig) startView() *view.View {
	r.t.Helper()
	conn, err := nats.Connect(r.nats.URL(), nats.MaxReconnects(-1))
	if err != nil {
		r.t.Fatal(err)
	}
	v, err := view.New(conn, view.Options{Stream: busStream})
	if err != nil {
		r.t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- v.Run(r.t.Context()) }() // which ends before the cleanup
	r.t.Cleanup(func() {
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			r.t.Errorf("the view ended: %v", err)
		}
		conn.Close()
	})
	return v
}

// inCluster has what exists of the rig's kinds: "<target> <namespace>/<name>" and its uid
// and revision.
func (r *rig) inCluster() map[string]string {
	r.t.Helper()
	all := make(map[string]string)
	for _, k := range r.kinds {
		list, err := r.client.Resource(k.gvr).Namespace(k.namespace).List(r.t.Context(), metav1.ListOptions{})
		if err != nil {
			r.t.Fatal(err)
		}
		for _, o := range list.Items {
			all[fmt.Sprintf("%s %s/%s", k.target(), o.GetNamespace(), o.GetName())] = fmt.Sprintf("%s %s", o.GetUID(), o.GetResourceVersion())
		}
	}
	return all
}

// equals waits until a view has what the cluster has.
func (r *rig) equals(what string, v *view.View) {
	r.t.Helper()
	want := r.inCluster()
	var got map[string]string
	defer func() {
		if r.t.Failed() {
			for key := range maps.Keys(want) {
				if got[key] != want[key] {
					r.t.Logf("%s: %s is %q in the view, %q in the cluster", what, key, got[key], want[key])
				}
			}
			for key := range got {
				if want[key] == "" {
					r.t.Logf("%s: %s is in the view only", what, key)
				}
			}
		}
	}()
	eventually(r.t, what+": the view equals the cluster", func() bool {
		got = make(map[string]string)
		for key, o := range v.Objects() {
			got[fmt.Sprintf("%s/%s %s/%s", groupOrCore(key.Group), key.Resource, key.Namespace, key.Name)] = fmt.Sprintf("%s %d", o.UID, o.At.ResourceVersion)
		}
		return maps.Equal(got, want)
	})
}

// TestMaterialisedView: a view that is built by the rules of docs/materialised-view.md
// equals the cluster whatever happens.
func TestMaterialisedView(t *testing.T) {
	r := newRig(t)
	d := newInformd(t, r.setup(logJournal))
	d.start()
	v := r.startView()
	d.waitForSync(len(r.kinds))
	end := r.load()
	eventually(t, "a hundred events", func() bool { return len(d.records()) > 100 })
	end()
	r.equals("from scratch", v)
	if targets := v.Targets("e2e"); len(targets) != len(r.kinds) {
		t.Errorf("snapshots of %q are complete, want %d", targets, len(r.kinds))
	}

	end = r.load()
	d.must("rewind", "--sink", "bus", "--since", "10m")
	end()
	r.equals("after a rewind", v)

	end = r.load()
	for _, k := range r.kinds {
		d.must("resnapshot", k.target())
	}
	end()
	r.equals("after a re-snapshot", v)

	d.waitForLive(len(r.kinds))
	deleteStream(t, r.nats.URL(), busStream)
	r.write(40) // deletions as well, which no stream may have
	for _, k := range r.kinds {
		d.must("resnapshot", k.target(), "--sink", "bus")
	}
	r.equals("after the stream was deleted", v)
	r.equals("from scratch, after the stream was deleted", r.startView())

	d.stop()
	r.write(60) // deletions as well, of which the next journal knows nothing
	if err := os.RemoveAll(d.journalDir()); err != nil {
		t.Fatal(err)
	}
	d.start()
	d.waitForLive(len(r.kinds))
	r.equals("after the journal was lost", v)
	r.equals("from scratch, after the journal was lost", r.startView())

	d.stop()
	r.write(60)
	before := len(d.records())
	r.forgetHistory()
	d.start()
	d.waitForLive(len(r.kinds))
	r.equals("after a gap", v)
	if gaps := count(d.records()[before:], "gap"); gaps == 0 {
		t.Error("there was no gap")
	}
	if n := count(d.records()[before:], "begin"); n > 0 {
		t.Errorf("%d snapshots follow the gap", n)
	}
}

// forgetHistory has neither the API server nor etcd keep what was before now.
func (r *rig) forgetHistory() {
	r.t.Helper()
	server := r.cluster.APIServer(0)
	if err := server.Kill(); err != nil {
		r.t.Fatal(err)
	}
	if _, err := r.cluster.Compact(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
	if err := server.Start(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
}

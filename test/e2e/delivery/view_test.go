package delivery_test

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
	"github.com/informd/informd/test/e2e"
)

// startView follows the stream of the sink bus until the test ends.
func startView(r *e2e.Rig) *view.View {
	r.T.Helper()
	conn, err := nats.Connect(r.Nats.URL(), nats.MaxReconnects(-1))
	e2e.Must(r.T, err)
	v, err := view.New(conn, view.Options{Stream: e2e.BusStream})
	e2e.Must(r.T, err)
	ended := make(chan error, 1)
	go func() { ended <- v.Run(r.T.Context()) }() // which ends before the cleanup
	r.T.Cleanup(func() {
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			r.T.Errorf("the view ended: %v", err)
		}
		conn.Close()
	})
	return v
}

// inCluster has what exists of the rig's kinds: "<target> <namespace>/<name>" and its uid
// and revision.
func inCluster(r *e2e.Rig) map[string]string {
	r.T.Helper()
	all := make(map[string]string)
	for _, k := range r.Kinds {
		list, err := r.Client.Resource(k.GVR).Namespace(k.Namespace).List(r.T.Context(), metav1.ListOptions{})
		e2e.Must(r.T, err)
		for _, o := range list.Items {
			all[fmt.Sprintf("%s %s/%s", k.Target(), o.GetNamespace(), o.GetName())] = fmt.Sprintf("%s %s", o.GetUID(), o.GetResourceVersion())
		}
	}
	return all
}

// equals waits until a view has what the cluster has.
func equals(r *e2e.Rig, what string, v *view.View) {
	r.T.Helper()
	want := inCluster(r)
	var got map[string]string
	defer func() {
		if r.T.Failed() {
			for key := range maps.Keys(want) {
				if got[key] != want[key] {
					r.T.Logf("%s: %s is %q in the view, %q in the cluster", what, key, got[key], want[key])
				}
			}
			for key := range got {
				if want[key] == "" {
					r.T.Logf("%s: %s is in the view only", what, key)
				}
			}
		}
	}()
	e2e.Eventually(r.T, what+": the view equals the cluster", func() bool {
		got = make(map[string]string)
		for key, o := range v.Objects() {
			got[fmt.Sprintf("%s/%s %s/%s", e2e.GroupOrCore(key.Group), key.Resource, key.Namespace, key.Name)] = fmt.Sprintf("%s %d", o.UID, o.At.ResourceVersion)
		}
		return maps.Equal(got, want)
	})
}

// TestMaterialisedView: a view that is built by the rules of docs/materialised-view.md
// equals the cluster whatever happens.
func TestMaterialisedView(t *testing.T) {
	r := e2e.NewRig(t)
	d := e2e.NewInformd(t, r.Setup(e2e.LogJournal))
	d.Start()
	v := startView(r)
	d.WaitForSync(len(r.Kinds))
	end := r.Load()
	e2e.Eventually(t, "a hundred events", func() bool { return len(d.Records()) > 100 })
	end()
	equals(r, "from scratch", v)
	if targets := v.Targets("e2e"); len(targets) != len(r.Kinds) {
		t.Errorf("snapshots of %q are complete, want %d", targets, len(r.Kinds))
	}

	end = r.Load()
	d.Must("rewind", "--sink", "bus", "--since", "10m")
	end()
	equals(r, "after a rewind", v)

	end = r.Load()
	for _, k := range r.Kinds {
		d.Must("resnapshot", k.Target())
	}
	end()
	equals(r, "after a re-snapshot", v)

	d.WaitForLive(len(r.Kinds))
	e2e.DeleteStream(t, r.Nats.URL(), e2e.BusStream)
	r.Write(40) // deletions as well, which no stream may have
	for _, k := range r.Kinds {
		d.Must("resnapshot", k.Target(), "--sink", "bus")
	}
	equals(r, "after the stream was deleted", v)
	equals(r, "from scratch, after the stream was deleted", startView(r))

	d.Stop()
	r.Write(60) // deletions as well, of which the next journal knows nothing
	e2e.Must(t, os.RemoveAll(d.JournalDir()))
	d.Start()
	d.WaitForLive(len(r.Kinds))
	equals(r, "after the journal was lost", v)
	equals(r, "from scratch, after the journal was lost", startView(r))

	d.Stop()
	r.Write(60)
	before := len(d.Records())
	forgetHistory(r)
	d.Start()
	d.WaitForLive(len(r.Kinds))
	equals(r, "after a gap", v)
	if gaps := e2e.Count(d.Records()[before:], "gap"); gaps == 0 {
		t.Error("there was no gap")
	}
	if n := e2e.Count(d.Records()[before:], "begin"); n > 0 {
		t.Errorf("%d snapshots follow the gap", n)
	}
}

// forgetHistory has neither the API server nor etcd keep what was before now.
func forgetHistory(r *e2e.Rig) {
	r.T.Helper()
	server := r.Cluster.APIServer(0)
	e2e.Must(r.T, server.Kill())
	if _, err := r.Cluster.Compact(r.T.Context()); err != nil {
		r.T.Fatal(err)
	}
	e2e.Must(r.T, server.Start(r.T.Context()))
}

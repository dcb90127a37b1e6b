package watching_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"

	"github.com/informd/informd/test/cluster"
	"github.com/informd/informd/test/e2e"
)

// schemaEdits is how often a schema is edited under load.
const schemaEdits = 10

// TestCustomResourceComesLater: as long as a resource is not served, nobody asks for
// it, and yet it is live as soon as it is.
func TestCustomResourceComesLater(t *testing.T) {
	c := cluster.Start(t, cluster.Options{})
	client := dynamic.NewForConfigOrDie(e2e.Fast(c.RESTConfig()))
	p := e2e.StartProxy(t, c.RESTConfig())
	kinds := []e2e.Kind{e2e.CustomKind("gadgets", false), e2e.CustomKind("planets", true), e2e.CustomKind("comets", false), e2e.CustomKind("moons", true)}
	d := e2e.StartInformd(t, p.Kubeconfig, e2e.Entries(kinds...), "")
	for _, k := range kinds {
		e2e.Eventually(t, k.Target()+" waits", func() bool { return d.StateOf(k) == "waiting" })
	}
	asked, since := -1, time.Now()
	e2e.Eventually(t, "discovery is left alone", func() bool {
		var now int
		p.Set(func() {
			now = len(slices.DeleteFunc(slices.Clone(p.Lists), func(l e2e.ListRequest) bool { return l.Resource != kinds[0].GVR.Group }))
		})
		if now != asked {
			asked, since = now, time.Now()
		}
		return time.Since(since) > e2e.QuietFor
	})
	l := e2e.NewLedger()
	for _, k := range kinds {
		took := e2e.Installed(t, d, c.RESTConfig(), k)
		t.Logf("%s: live %v after it was served", k.Target(), took.Round(time.Millisecond))
		if took > e2e.LiveLimit {
			t.Errorf("%s: live %v after it was served", k.Target(), took)
		}
	}
	e2e.WriteAll(t, client, kinds, l, 20, 1)
	e2e.Eventually(t, "stream complete", func() bool { return e2e.Complete(kinds, d.Records(), l) })
	// One goes, with its objects, and comes back.
	gone := kinds[0]
	list, err := client.Resource(gone.GVR).List(t.Context(), metav1.ListOptions{})
	e2e.Must(t, err)
	for _, o := range list.Items {
		l.Removed(gone, o.GetUID())
	}
	o := e2e.BeginOutage(gone, d.Records())
	if err := e2e.CustomResourceDefinitions(client).Delete(t.Context(), gone.Definition().GetName(), metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	e2e.Eventually(t, "it waits again", func() bool { return d.StateOf(gone) == "waiting" })
	took := e2e.Installed(t, d, c.RESTConfig(), gone)
	t.Logf("%s: live again %v after it was served", gone.Target(), took.Round(time.Millisecond))
	if took > e2e.LiveLimit {
		t.Errorf("%s: live %v after it was served", gone.Target(), took)
	}
	e2e.WriteAll(t, client, kinds, l, 20, 2)
	e2e.Eventually(t, "stream complete", func() bool { return e2e.Complete(kinds, d.Records(), l) })
	revision, err := c.Revision(t.Context())
	e2e.Must(t, err)
	o.After = uint64(revision)
	e2e.Check(t, gone, d.Records(), l, client, e2e.Claim{Outages: []e2e.Outage{o}}) // its old watch cache may be gone too soon
	for _, k := range kinds[1:] {
		e2e.Check(t, k, d.Records(), l, client, e2e.Claim{})
	}
	if n := strings.Count(d.Stderr.String(), "state=waiting"); n != len(kinds)+1 {
		t.Errorf("%d lines say that a target waits, want %d", n, len(kinds)+1)
	}
}

// TestSchemaEditsUnderLoad: the API server ends the watches of a custom resource
// whose definition was edited, and its memory of the history.
func TestSchemaEditsUnderLoad(t *testing.T) {
	r := e2e.StartCRDRig(t, "")
	o := r.Outage()
	end := r.Load()
	pace := time.NewTicker(500 * time.Millisecond)
	defer pace.Stop()
	for i := range schemaEdits {
		<-pace.C
		r.Edit(func(spec map[string]any) {
			version := e2e.CustomVersion("v1", true, true)
			version["schema"].(map[string]any)["openAPIV3Schema"].(map[string]any)["description"] = fmt.Sprintf("edit %d", i) //nolint:forcetypeassert // made here
			spec["versions"] = []any{version}
		})
	}
	end()
	r.Write(30)
	r.Finish(o, e2e.Claim{})
}

// TestCustomResourceCreatedAgain: a custom resource is deleted and at once created
// again, with objects under the same names.
func TestCustomResourceCreatedAgain(t *testing.T) {
	for name, down := range map[string]bool{"while watched": false, "while informd is down": true} {
		t.Run(name, func(t *testing.T) {
			r := e2e.StartCRDRig(t, e2e.LogJournal)
			r.CaughtUp()
			r.Informd.WaitForLive(1)
			o := r.Outage()
			if down {
				r.Informd.Kill()
			}
			old := createAgain(r)
			r.Write(30)
			if down {
				r.Informd.Start()
			}
			r.Write(10)
			r.Finish(o, e2e.Claim{})
			ended := make(map[string]int)
			for _, x := range r.Records() {
				if x.Op == "deleted" {
					ended[x.UID]++
				}
			}
			for _, uid := range old {
				if ended[uid] != 1 {
					t.Errorf("%d deletions of %s", ended[uid], uid)
				}
			}
		})
	}
}

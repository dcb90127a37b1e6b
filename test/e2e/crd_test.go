package e2e_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/informd/informd/test/cluster"
)

const (
	// liveLimit is the time from when discovery serves a resource to when it is
	// watched. It should take less than 2 s; the rest is for busy machines.
	liveLimit = 10 * time.Second
	// pollingLimit is that of an informd that is not told.
	pollingLimit = 20 * time.Second
	// quietFor is longer than any pause of an informd that polls.
	quietFor = 8 * time.Second
	// schemaEdits is how often a schema is edited under load.
	schemaEdits = 10
)

// waitAtOnce is eventually, with little time between two looks. It returns when it
// was so.
func waitAtOnce(t *testing.T, what string, ok func() bool) time.Time {
	t.Helper()
	end := time.Now().Add(patience)
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	for !ok() {
		if time.Now().After(end) {
			t.Fatalf("%s: not within %v", what, patience)
		}
		<-poll.C
	}
	return time.Now()
}

// installed creates the custom resource definition and returns how long it took
// informd to be live from the moment at which discovery served it.
func installed(t *testing.T, d *informd, config *rest.Config, k kind) time.Duration {
	t.Helper()
	documents := discovery.NewDiscoveryClientForConfigOrDie(fast(config))
	client := dynamic.NewForConfigOrDie(fast(config))
	if _, err := customResourceDefinitions(client).Create(t.Context(), k.definition(), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	served := waitAtOnce(t, k.target()+" served", func() bool {
		list, err := documents.ServerResourcesForGroupVersion(k.gvr.GroupVersion().String())
		return err == nil && slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == k.gvr.Resource })
	})
	return waitAtOnce(t, k.target()+" live", func() bool { return d.stateOf(k) == "live" }).Sub(served)
}

// stateOf is the state of a kind's only target.
func (d *informd) stateOf(k kind) string {
	s, err := d.status()
	if err != nil {
		return err.Error()
	}
	for _, target := range s.Targets {
		if target.Target == k.target() {
			return target.State
		}
	}
	return ""
}

// TestCustomResourceComesLater: as long as a resource is not served, nobody asks for
// it, and yet it is live as soon as it is.
func TestCustomResourceComesLater(t *testing.T) {
	c := cluster.Start(t, cluster.Options{})
	client := dynamic.NewForConfigOrDie(fast(c.RESTConfig()))
	p := startProxy(t, c.RESTConfig())
	kinds := []kind{customKind("gadgets", false), customKind("planets", true), customKind("comets", false), customKind("moons", true)}
	d := startInformd(t, p.kubeconfig, entries(kinds...), "")
	for _, k := range kinds {
		eventually(t, k.target()+" waits", func() bool { return d.stateOf(k) == "waiting" })
	}
	asked, since := -1, time.Now()
	eventually(t, "discovery is left alone", func() bool {
		var now int
		p.set(func() {
			now = len(slices.DeleteFunc(slices.Clone(p.lists), func(l listRequest) bool { return l.resource != kinds[0].gvr.Group }))
		})
		if now != asked {
			asked, since = now, time.Now()
		}
		return time.Since(since) > quietFor
	})
	l := newLedger()
	for _, k := range kinds {
		took := installed(t, d, c.RESTConfig(), k)
		t.Logf("%s: live %v after it was served", k.target(), took.Round(time.Millisecond))
		if took > liveLimit {
			t.Errorf("%s: live %v after it was served", k.target(), took)
		}
	}
	writeAll(t, client, kinds, l, 20, 1)
	eventually(t, "stream complete", func() bool { return complete(kinds, d.records(), l) })
	// One goes, with its objects, and comes back.
	gone := kinds[0]
	list, err := client.Resource(gone.gvr).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range list.Items {
		l.removed(gone, o.GetUID())
	}
	o := beginOutage(gone, d.records())
	if err := customResourceDefinitions(client).Delete(t.Context(), gone.definition().GetName(), metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it waits again", func() bool { return d.stateOf(gone) == "waiting" })
	took := installed(t, d, c.RESTConfig(), gone)
	t.Logf("%s: live again %v after it was served", gone.target(), took.Round(time.Millisecond))
	if took > liveLimit {
		t.Errorf("%s: live %v after it was served", gone.target(), took)
	}
	writeAll(t, client, kinds, l, 20, 2)
	eventually(t, "stream complete", func() bool { return complete(kinds, d.records(), l) })
	revision, err := c.Revision(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	o.after = uint64(revision)
	check(t, gone, d.records(), l, client, claim{outages: []outage{o}}) // its old watch cache may be gone too soon
	for _, k := range kinds[1:] {
		check(t, k, d.records(), l, client, claim{})
	}
	if n := strings.Count(d.stderr.String(), "state=waiting"); n != len(kinds)+1 {
		t.Errorf("%d lines say that a target waits, want %d", n, len(kinds)+1)
	}
}

// TestWithoutPermissionToWatchDefinitions: informd asks discovery every few seconds.
func TestWithoutPermissionToWatchDefinitions(t *testing.T) {
	c := cluster.Start(t, cluster.Options{})
	client := dynamic.NewForConfigOrDie(fast(c.RESTConfig()))
	user, err := c.AddUser("limited")
	if err != nil {
		t.Fatal(err)
	}
	k := customKind("gadgets", false)
	allow(t, client, "limited", k.gvr.Group, k.gvr.Resource)
	d := startInformd(t, user.Kubeconfig(), entries(k), "")
	eventually(t, "the reason says what is missing", func() bool {
		s, err := d.status()
		return err == nil && len(s.Targets) == 1 && s.Targets[0].State == "waiting" &&
			strings.Contains(s.Targets[0].Reason, `cannot list resource "customresourcedefinitions"`)
	})
	took := installed(t, d, c.RESTConfig(), k)
	t.Logf("live %v after it was served", took.Round(time.Millisecond))
	if took > pollingLimit {
		t.Errorf("live %v after it was served", took)
	}
	if n := strings.Count(d.stderr.String(), "resource definitions not watchable"); n != 2 {
		t.Errorf("%d lines say that definitions cannot be watched, want one for each kind", n)
	}
}

// TestCustomResourceVersionMoves: a new version is added and is the preferred one;
// then the old one is not served any more. All the while the objects change.
func TestCustomResourceVersionMoves(t *testing.T) {
	r := startCRDRig(t, "")
	r.write(30)
	r.caughtUp()
	o := r.outage()
	versionIs := func(version string) {
		t.Helper()
		began := time.Now()
		at := waitAtOnce(t, "watched in "+version, func() bool {
			s, err := r.informd.status()
			return err == nil && s.Targets[0].Version == version && s.Targets[0].State == "live"
		})
		t.Logf("watched in %s after %v", version, at.Sub(began).Round(time.Millisecond))
	}
	end := r.load()
	r.edit(func(spec map[string]any) {
		spec["versions"] = []any{customVersion("v1", true, true), customVersion("v2", true, false)}
	})
	versionIs("v2")
	end()

	r.kind.gvr.Version = "v2"
	end = r.load()
	r.edit(func(spec map[string]any) {
		spec["versions"] = []any{customVersion("v1", false, true), customVersion("v2", true, false)}
	})
	eventually(t, "v1 is not served", func() bool {
		old := r.kind.gvr
		old.Version = "v1"
		_, err := r.client.Resource(old).List(t.Context(), metav1.ListOptions{Limit: 1})
		return apierrors.IsNotFound(err)
	})
	versionIs("v2")
	end()
	r.write(30)
	r.finish(o, claim{versions: []string{"v1", "v2"}})

	// The old version goes and another one comes at once.
	r.kind.gvr.Version = "v3"
	r.edit(func(spec map[string]any) {
		spec["versions"] = []any{customVersion("v1", false, true), customVersion("v3", true, false)}
	})
	versionIs("v3")
	r.write(30)
	r.finish(o, claim{versions: []string{"v1", "v2", "v3"}})
	all := r.records()
	if last := all[len(all)-1]; last.Version != "v3" {
		t.Errorf("the last event, %s, is of version %s", last.ID, last.Version)
	}
}

// TestSchemaEditsUnderLoad: the API server ends the watches of a custom resource
// whose definition was edited, and its memory of the history.
func TestSchemaEditsUnderLoad(t *testing.T) {
	r := startCRDRig(t, "")
	o := r.outage()
	end := r.load()
	pace := time.NewTicker(500 * time.Millisecond)
	defer pace.Stop()
	for i := range schemaEdits {
		<-pace.C
		r.edit(func(spec map[string]any) {
			version := customVersion("v1", true, true)
			version["schema"].(map[string]any)["openAPIV3Schema"].(map[string]any)["description"] = fmt.Sprintf("edit %d", i) //nolint:forcetypeassert // made here
			spec["versions"] = []any{version}
		})
	}
	end()
	r.write(30)
	r.finish(o, claim{})
}

// TestCustomResourceCreatedAgain: a custom resource is deleted and at once created
// again, with objects under the same names.
func TestCustomResourceCreatedAgain(t *testing.T) {
	for name, down := range map[string]bool{"while watched": false, "while informd is down": true} {
		t.Run(name, func(t *testing.T) {
			r := startCRDRig(t, logJournal)
			r.caughtUp()
			r.informd.waitForLive(1)
			o := r.outage()
			if down {
				r.informd.kill()
			}
			old := r.createAgain()
			r.write(30)
			if down {
				r.informd.start()
			}
			r.write(10)
			r.finish(o, claim{})
			ended := make(map[string]int)
			for _, x := range r.records() {
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

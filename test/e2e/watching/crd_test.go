package watching_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"

	"github.com/informd/informd/test/cluster"
	"github.com/informd/informd/test/e2e"
)

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
	for _, k := range kinds {
		e2e.Check(t, k, d.Records(), l, client, e2e.Claim{})
	}
	if n := strings.Count(d.Stderr.String(), "state=waiting"); n != len(kinds) {
		t.Errorf("%d lines say that a target waits, want %d", n, len(kinds))
	}
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

// removeDefinition deletes the custom resource definition of a custom kind and waits
// until it is gone, its objects with it.
func removeDefinition(t *testing.T, client dynamic.Interface, k e2e.Kind) {
	t.Helper()
	crds, name := e2e.CustomResourceDefinitions(client), k.Definition().GetName()
	e2e.Must(t, crds.Delete(t.Context(), name, metav1.DeleteOptions{}))
	e2e.WaitAtOnce(t, name+" gone", func() bool {
		_, err := crds.Get(context.WithoutCancel(t.Context()), name, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
}

// createAgain deletes the custom resource definition, creates it again, and returns
// the uids of the objects that went with it.
func createAgain(r *e2e.CRDRig) (old []string) {
	r.T.Helper()
	list, err := r.Client.Resource(r.Kind.GVR).List(r.T.Context(), metav1.ListOptions{})
	e2e.Must(r.T, err)
	for _, o := range list.Items {
		old = append(old, string(o.GetUID()))
		r.Ledger.Removed(r.Kind, o.GetUID())
	}
	if len(old) == 0 {
		r.T.Fatal("there are no objects")
	}
	began := time.Now()
	removeDefinition(r.T, r.Client, r.Kind)
	r.Kind.Install(r.T, r.Client)
	r.T.Logf("%d objects; deleted and served again within %v", len(old), time.Since(began).Round(time.Millisecond))
	return old
}

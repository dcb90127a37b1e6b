package core_test

import (
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"

	"github.com/informd/informd/test/cluster"
	"github.com/informd/informd/test/e2e"
)

// TestWithoutPermissionToWatchDefinitions: informd asks discovery every few seconds.
func TestWithoutPermissionToWatchDefinitions(t *testing.T) {
	c := cluster.Start(t, cluster.Options{})
	client := dynamic.NewForConfigOrDie(e2e.Fast(c.RESTConfig()))
	user, err := c.AddUser("limited")
	e2e.Must(t, err)
	k := e2e.CustomKind("gadgets", false)
	e2e.Allow(t, client, "limited", k.GVR.Group, k.GVR.Resource)
	d := e2e.StartInformd(t, user.Kubeconfig(), e2e.Entries(k), "")
	e2e.Eventually(t, "the reason says what is missing", func() bool {
		s, err := d.Status()
		return err == nil && len(s.Targets) == 1 && s.Targets[0].State == "waiting" &&
			strings.Contains(s.Targets[0].Reason, `cannot list resource "customresourcedefinitions"`)
	})
	took := e2e.Installed(t, d, c.RESTConfig(), k)
	t.Logf("live %v after it was served", took.Round(time.Millisecond))
	if took > e2e.PollingLimit {
		t.Errorf("live %v after it was served", took)
	}
	if n := strings.Count(d.Stderr.String(), "resource definitions not watchable"); n != 2 {
		t.Errorf("%d lines say that definitions cannot be watched, want one for each kind", n)
	}
}

// TestCustomResourceVersionMoves: a new version is added and is the preferred one;
// then the old one is not served any more. All the while the objects change.
func TestCustomResourceVersionMoves(t *testing.T) {
	r := e2e.StartCRDRig(t, "")
	r.Write(30)
	r.CaughtUp()
	o := r.Outage()
	versionIs := func(version string) {
		t.Helper()
		began := time.Now()
		at := e2e.WaitAtOnce(t, "watched in "+version, func() bool {
			s, err := r.Informd.Status()
			return err == nil && s.Targets[0].Version == version && s.Targets[0].State == "live"
		})
		t.Logf("watched in %s after %v", version, at.Sub(began).Round(time.Millisecond))
	}
	end := r.Load()
	r.Edit(func(spec map[string]any) {
		spec["versions"] = []any{e2e.CustomVersion("v1", true, true), e2e.CustomVersion("v2", true, false)}
	})
	versionIs("v2")
	end()

	r.Kind.GVR.Version = "v2"
	end = r.Load()
	r.Edit(func(spec map[string]any) {
		spec["versions"] = []any{e2e.CustomVersion("v1", false, true), e2e.CustomVersion("v2", true, false)}
	})
	e2e.Eventually(t, "v1 is not served", func() bool {
		old := r.Kind.GVR
		old.Version = "v1"
		_, err := r.Client.Resource(old).List(t.Context(), metav1.ListOptions{Limit: 1})
		return apierrors.IsNotFound(err)
	})
	versionIs("v2")
	end()
	r.Write(30)
	r.Finish(o, e2e.Claim{Versions: []string{"v1", "v2"}})

	// The old version goes and another one comes at once.
	r.Kind.GVR.Version = "v3"
	r.Edit(func(spec map[string]any) {
		spec["versions"] = []any{e2e.CustomVersion("v1", false, true), e2e.CustomVersion("v3", true, false)}
	})
	versionIs("v3")
	r.Write(30)
	r.Finish(o, e2e.Claim{Versions: []string{"v1", "v2", "v3"}})
	all := r.Records()
	if last := all[len(all)-1]; last.Version != "v3" {
		t.Errorf("the last event, %s, is of version %s", last.ID, last.Version)
	}
}

package e2e_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/dynamic"

	"github.com/informd/informd/test/cluster"
)

// notFoundFor is how long the proxies answer 404. A custom resource without its definition
// ends after 10 seconds.
const notFoundFor = 60 * time.Second

// TestProxyAnswers404: the proxy before two API servers answers 404 for 60 seconds: for
// everything, for one group, for one of the API servers. Nothing is announced as deleted,
// and no snapshot follows. Changes that are made meanwhile arrive, each revision once.
func TestProxyAnswers404(t *testing.T) {
	c := cluster.Start(t, cluster.Options{APIServers: 2})
	client := dynamic.NewForConfigOrDie(fast(c.RESTConfig()))
	kinds := []kind{configMapKind(), customKind("gadgets", false), customKind("planets", true)}
	for _, k := range kinds[1:] {
		k.install(t, client)
	}
	l := newLedger()
	writeAll(t, client, kinds, l, 20, 1)
	l.begin()
	everything := func(*http.Request, int) bool { return true }
	group := func(r *http.Request, _ int) bool { return strings.HasPrefix(r.URL.Path, "/apis/e2e.example.com") }
	oneServer := func(_ *http.Request, server int) bool { return server == 1 }
	runs := map[string]*notFoundRun{
		"everything":            {missing: everything},
		"one group":             {missing: group},
		"one API server of two": {missing: oneServer},
	}
	for _, run := range runs {
		run.proxy = startBalancer(t, c.RESTConfigFor(0), c.RESTConfigFor(1))
		run.informd = newInformd(t, setup{kubeconfig: run.proxy.kubeconfig, journal: logJournal, resources: `
			- {resource: configmaps, namespaces: [default]}
			- {group: "e2e.example.com", resource: "*"}`})
		run.informd.start()
	}
	for _, run := range runs {
		run.informd.waitForSync(len(kinds))
		run.informd.waitForLive(len(kinds))
		run.before = run.informd.records()
		run.proxy.set(func() { run.proxy.missing = run.missing })
		run.proxy.cutNow()
	}
	over := time.After(notFoundFor)
	writeAll(t, client, kinds, l, 40, 2)
	<-over
	for name, run := range runs {
		run.during = run.informd.records()
		run.proxy.set(func() { run.proxy.missing = nil })
		if run.proxy.missed == 0 {
			t.Errorf("%s: the proxy answered no 404", name)
		}
	}
	for name, run := range runs {
		t.Run(name, func(t *testing.T) {
			run.check(t, kinds, l, client)
		})
	}
}

// notFoundRun is one informd behind one proxy.
type notFoundRun struct {
	missing func(r *http.Request, server int) bool
	proxy   *proxy
	informd *informd
	// before and during are what it had announced before the outage, and at its end.
	before, during []record
}

func (n *notFoundRun) check(t *testing.T, kinds []kind, l *ledger, client dynamic.Interface) {
	t.Helper()
	eventually(t, "stream complete", func() bool { return complete(kinds, n.informd.records(), l) })
	n.informd.waitForLive(len(kinds))
	records := n.informd.records()
	for _, op := range []string{"synced", "snapshot", "gap"} {
		if before, after := count(n.before, op), count(records, op); after != before {
			t.Errorf("%d %s events instead of %d", after, op, before)
		}
	}
	t.Logf("%d events before the outage, %d in it, %d after it", len(n.before), len(n.during)-len(n.before), len(records)-len(n.during))
	for _, k := range kinds { // which counts deletions, too
		check(t, k, records, l, client, claim{})
	}
}

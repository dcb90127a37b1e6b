package watching_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/dynamic"

	"github.com/informd/informd/test/cluster"
	"github.com/informd/informd/test/e2e"
)

// notFoundFor is how long the proxies answer 404. A custom resource without its definition
// ends after 10 seconds.
const notFoundFor = 30 * time.Second

// TestProxyAnswers404: the proxy before two API servers answers 404 for 30 seconds: for
// everything, for one group, for one of the API servers. Nothing is announced as deleted,
// and no snapshot follows. Changes that are made meanwhile arrive, each revision once.
func TestProxyAnswers404(t *testing.T) {
	c := cluster.Start(t, cluster.Options{APIServers: 2})
	client := dynamic.NewForConfigOrDie(e2e.Fast(c.RESTConfig()))
	kinds := []e2e.Kind{e2e.ConfigMapKind(), e2e.CustomKind("gadgets", false), e2e.CustomKind("planets", true)}
	for _, k := range kinds[1:] {
		k.Install(t, client)
	}
	l := e2e.NewLedger()
	e2e.WriteAll(t, client, kinds, l, 20, 1)
	l.Begin()
	everything := func(*http.Request, int) bool { return true }
	group := func(r *http.Request, _ int) bool { return strings.HasPrefix(r.URL.Path, "/apis/e2e.example.com") }
	oneServer := func(_ *http.Request, server int) bool { return server == 1 }
	runs := map[string]*notFoundRun{
		"everything":            {missing: everything},
		"one group":             {missing: group},
		"one API server of two": {missing: oneServer},
	}
	for _, run := range runs {
		run.proxy = e2e.StartBalancer(t, c.RESTConfigFor(0), c.RESTConfigFor(1))
		run.informd = e2e.NewInformd(t, e2e.Setup{Kubeconfig: run.proxy.Kubeconfig, Journal: e2e.LogJournal, Resources: `
			- {resource: configmaps, namespaces: [default]}
			- {group: "e2e.example.com", resource: "*"}`})
		run.informd.Start()
	}
	for _, run := range runs {
		run.informd.WaitForSync(len(kinds))
		run.informd.WaitForLive(len(kinds))
		run.before = run.informd.Records()
		run.proxy.Set(func() { run.proxy.Missing = run.missing })
		run.proxy.CutNow()
	}
	over := time.After(notFoundFor)
	e2e.WriteAll(t, client, kinds, l, 40, 2)
	<-over
	for name, run := range runs {
		run.during = run.informd.Records()
		run.proxy.Set(func() { run.proxy.Missing = nil })
		if run.proxy.Missed == 0 {
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
	proxy   *e2e.Proxy
	informd *e2e.Informd
	// before and during are what it had announced before the outage, and at its end.
	before, during []e2e.Record
}

func (n *notFoundRun) check(t *testing.T, kinds []e2e.Kind, l *e2e.Ledger, client dynamic.Interface) {
	t.Helper()
	e2e.Eventually(t, "stream complete", func() bool { return e2e.Complete(kinds, n.informd.Records(), l) })
	n.informd.WaitForLive(len(kinds))
	records := n.informd.Records()
	for _, op := range []string{"synced", "snapshot", "gap"} {
		if before, after := e2e.Count(n.before, op), e2e.Count(records, op); after != before {
			t.Errorf("%d %s events instead of %d", after, op, before)
		}
	}
	t.Logf("%d events before the outage, %d in it, %d after it", len(n.before), len(n.during)-len(n.before), len(records)-len(n.during))
	for _, k := range kinds { // which counts deletions, too
		e2e.Check(t, k, records, l, client, e2e.Claim{})
	}
}

// endedWithin is how long the changes behind watches that end at once may take: a comparison each two
// minutes, pauses, and a busy machine.
const endedWithin = 5 * time.Minute

// TestWatchesThatEndAtOnce: a proxy answers each watch of ConfigMaps with 200 and an empty body
// that ends at once, while lists pass. The changes arrive all the same, with a gap, in an informd that runs
// and in one that starts meanwhile. The other resource has neither a gap nor a delay.
func TestWatchesThatEndAtOnce(t *testing.T) {
	t.Parallel() // it waits for minutes
	r := e2e.StartFaultRig(t, e2e.LogJournal)
	configMaps, gadgets := r.Kinds[0], r.Kinds[1]
	down := e2e.NewInformd(t, e2e.Setup{Kubeconfig: r.Proxy.Kubeconfig, Journal: e2e.LogJournal, Resources: `
		- {resource: configmaps, namespaces: [default]}
		- {group: e2e.example.com, resource: gadgets}`})
	down.Start()
	down.WaitForSync(len(r.Kinds))
	r.Write(40)
	o := r.Cut()
	e2e.Eventually(t, "the same in the other informd", func() bool { return e2e.Complete(r.Kinds, down.Records(), r.Ledger) })
	down.Stop()
	r.Proxy.Set(func() { r.Proxy.Ending = configMaps.GVR.Resource })
	r.Proxy.CutNow()
	r.Write(300) // more revisions than informd lists one by one
	began := time.Now()
	down.Start()
	for name, d := range map[string]*e2e.Informd{"running": r.Informd, "started": down} {
		behind := func() (n int) {
			for _, x := range d.Records() {
				switch {
				case x.Op != "gap":
				case x.Resource != configMaps.GVR.Resource:
					t.Fatalf("%s: a gap of another resource: %+v", name, x)
				case x.Reason == "behind":
					n++
				}
			}
			return n
		}
		for behind() == 0 {
			if time.Since(began) > endedWithin {
				t.Fatalf("%s: no gap within %v", name, endedWithin)
			}
			<-time.After(time.Second)
		}
		t.Logf("%s: a gap after %v", name, time.Since(began).Round(time.Second))
		e2e.Eventually(t, "the changes", func() bool { return e2e.Complete(r.Kinds, d.Records(), r.Ledger) })
		if s, err := d.Status(); err != nil || s.Targets[0].State == "live" {
			t.Errorf("%s: a target that gets no watch: %+v, %v", name, s.Targets, err)
		}
	}
	r.Restore(&o)
	o.Whole, o.Reason = true, "behind"
	r.Proxy.Set(func() { r.Proxy.Ending = "" })
	r.Write(40)
	for name, d := range map[string]*e2e.Informd{"running": r.Informd, "started": down} {
		e2e.Eventually(t, "the changes after it", func() bool { return e2e.Complete(r.Kinds, d.Records(), r.Ledger) })
		d.WaitForLive(len(r.Kinds))
		t.Run(name, func(t *testing.T) {
			records, _ := e2e.Once(t, d.Records())
			e2e.Check(t, configMaps, records, r.Ledger, r.Client, e2e.Claim{Outages: []e2e.Outage{o}})
			e2e.Check(t, gadgets, records, r.Ledger, r.Client, e2e.Claim{})
		})
	}
}

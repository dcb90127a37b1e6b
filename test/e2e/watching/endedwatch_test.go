package watching_test

import (
	"testing"
	"time"

	"github.com/informd/informd/test/e2e"
)

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

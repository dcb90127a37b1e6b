package e2e_test

import (
	"testing"
	"time"
)

// endedWithin is how long the changes behind watches that end at once may take: a comparison each two
// minutes, pauses, and a busy machine.
const endedWithin = 5 * time.Minute

// TestWatchesThatEndAtOnce: a proxy answers each watch of ConfigMaps with 200 and an empty body
// that ends at once, while lists pass. The changes arrive all the same, with a gap, in an informd that runs
// and in one that starts meanwhile. The other resource has neither a gap nor a delay.
func TestWatchesThatEndAtOnce(t *testing.T) {
	t.Parallel() // it waits for minutes
	r := startFaultRig(t, logJournal)
	configMaps, gadgets := r.kinds[0], r.kinds[1]
	down := newInformd(t, setup{kubeconfig: r.proxy.kubeconfig, journal: logJournal, resources: `
		- {resource: configmaps, namespaces: [default]}
		- {group: e2e.example.com, resource: gadgets}`})
	down.start()
	down.waitForSync(len(r.kinds))
	r.write(40)
	o := r.cut()
	eventually(t, "the same in the other informd", func() bool { return complete(r.kinds, down.records(), r.ledger) })
	down.stop()
	r.proxy.set(func() { r.proxy.ending = configMaps.gvr.Resource })
	r.proxy.cutNow()
	r.write(300) // more revisions than informd lists one by one
	began := time.Now()
	down.start()
	for name, d := range map[string]*informd{"running": r.informd, "started": down} {
		behind := func() (n int) {
			for _, x := range d.records() {
				switch {
				case x.Op != "gap":
				case x.Resource != configMaps.gvr.Resource:
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
		eventually(t, "the changes", func() bool { return complete(r.kinds, d.records(), r.ledger) })
		if s, err := d.status(); err != nil || s.Targets[0].State == "live" {
			t.Errorf("%s: a target that gets no watch: %+v, %v", name, s.Targets, err)
		}
	}
	r.restore(&o)
	o.whole, o.reason = true, "behind"
	r.proxy.set(func() { r.proxy.ending = "" })
	r.write(40)
	for name, d := range map[string]*informd{"running": r.informd, "started": down} {
		eventually(t, "the changes after it", func() bool { return complete(r.kinds, d.records(), r.ledger) })
		d.waitForLive(len(r.kinds))
		t.Run(name, func(t *testing.T) {
			records, _ := once(t, d.records())
			check(t, configMaps, records, r.ledger, r.client, claim{outages: []outage{o}})
			check(t, gadgets, records, r.ledger, r.client, claim{})
		})
	}
}

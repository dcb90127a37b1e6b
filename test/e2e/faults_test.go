package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/dynamic"

	"github.com/informd/informd/test/cluster"
)

// faultRig is one API server behind a proxy, an informd on it, and a workload
// on two kinds that goes straight to the API server.
type faultRig struct {
	t       *testing.T
	cluster *cluster.Cluster
	proxy   *proxy
	client  dynamic.Interface
	informd *informd
	kinds   []kind
	ledger  *ledger
	seed    uint64
}

func startFaultRig(t *testing.T, journal string) *faultRig {
	t.Helper()
	return startFaultRigOn(t, journal, cluster.Options{})
}

func startFaultRigOn(t *testing.T, journal string, options cluster.Options) *faultRig {
	t.Helper()
	c := cluster.Start(t, options)
	r := &faultRig{
		t: t, cluster: c, proxy: startProxy(t, c.RESTConfig()), client: dynamic.NewForConfigOrDie(fast(c.RESTConfig())),
		kinds: []kind{configMapKind(), customKind("gadgets", false)}, ledger: newLedger(),
	}
	r.kinds[1].install(t, r.client)
	r.informd = newInformd(t, setup{kubeconfig: r.proxy.kubeconfig, journal: journal, resources: `
		- {resource: configmaps, namespaces: [default]}
		- {group: e2e.example.com, resource: gadgets}`})
	r.informd.start()
	r.informd.waitForSync(len(r.kinds))
	return r
}

func (r *faultRig) write(n int) {
	r.t.Helper()
	r.seed++
	writeAll(r.t, r.client, r.kinds, r.ledger, n, r.seed)
}

// caughtUp waits until informd has delivered all that was written.
func (r *faultRig) caughtUp() {
	r.t.Helper()
	eventually(r.t, "caught up", func() bool { return complete(r.kinds, r.records(), r.ledger) })
}

// records are those of the file sink, without what came again after a crash.
func (r *faultRig) records() []record {
	r.t.Helper()
	records, _ := once(r.t, r.informd.records())
	return records
}

// cut begins an outage: it notes what informd has delivered, which must be all
// that was written, so that no gap can excuse any of it.
func (r *faultRig) cut() outage {
	r.t.Helper()
	r.caughtUp()
	o := outage{before: make(map[string]uint64)}
	for _, x := range r.records() {
		target := groupOrCore(x.Group) + "/" + x.Resource
		switch {
		case x.control():
		case x.Op == "deleted":
			// More can have been deleted at the same revision, so a gap may begin
			// right before it.
			o.before[target] = max(o.before[target], x.ResourceVersion-1)
		default:
			o.before[target] = max(o.before[target], x.ResourceVersion)
		}
	}
	return o
}

// restore ends an outage; informd is back.
func (r *faultRig) restore(o *outage) {
	r.t.Helper()
	revision, err := r.cluster.Revision(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	o.after = uint64(revision)
}

// listsSince returns the lists of a kind that informd has requested since the
// first n.
func (r *faultRig) listsSince(n int, k kind) []listRequest {
	var lists []listRequest
	r.proxy.set(func() { lists = slices.Clone(r.proxy.lists[n:]) })
	return slices.DeleteFunc(lists, func(l listRequest) bool { return l.resource != k.gvr.Resource })
}

func (r *faultRig) lists() (n int) {
	r.proxy.set(func() { n = len(r.proxy.lists) })
	return n
}

// gaps returns those of a kind.
func (r *faultRig) gaps(k kind) []record {
	return slices.DeleteFunc(r.records(), func(x record) bool {
		return x.Op != "gap" || groupOrCore(x.Group)+"/"+x.Resource != k.target()
	})
}

// finish waits until the stream has caught up, and holds it to the claim.
func (r *faultRig) finish(t *testing.T, c claim) {
	t.Helper()
	r.caughtUp()
	for _, k := range r.kinds {
		check(t, k, r.records(), r.ledger, r.client, c)
	}
}

// waitForCursors waits until informd has done with everything up to the last
// revisions that were written: with its gap, if it had to make up for history.
func (r *faultRig) waitForCursors() {
	r.t.Helper()
	eventually(r.t, "cursors behind what was written", func() bool {
		s, err := r.informd.status()
		if err != nil {
			return false
		}
		behind := slices.ContainsFunc(r.kinds, func(k kind) bool {
			cursor := uint64(0)
			for _, x := range s.Targets {
				if name, _, _ := strings.Cut(x.Target, "@"); name == k.target() {
					cursor = x.ResourceVersion
				}
			}
			return cursor < r.ledger.last(k)
		})
		return !behind
	})
}

// TestAPIServerKilledAndRestarted: an API server that begins anew has a watch
// cache that begins anew, so that it may deny (410) what it had before, although
// etcd still has all of it. Then informd compares metadata and reads from etcd what
// came between, without reading all bodies again; a gap says no more than that
// objects may have come and gone in it. Without a denial it does neither.
func TestAPIServerKilledAndRestarted(t *testing.T) {
	r := startFaultRig(t, "")
	var c claim
	for range 3 {
		r.write(30)
		o := r.cut()
		o.whole = true
		lists, gaps, expired := r.lists(), make(map[string]int), make(map[string]int)
		for _, k := range r.kinds {
			gaps[k.target()] = len(r.gaps(k))
			r.proxy.set(func() { expired[k.target()] = r.proxy.expired[k.gvr.Resource] })
		}
		r.restartAPIServer(func() {})
		r.write(1)
		r.caughtUp()
		r.waitForCursors()
		for _, k := range r.kinds {
			var denied int
			r.proxy.set(func() { denied = r.proxy.expired[k.gvr.Resource] - expired[k.target()] })
			r.checkRestart(k, denied, r.listsSince(lists, k), r.gaps(k)[gaps[k.target()]:])
		}
		r.restore(&o)
		c.outages = append(c.outages, o)
	}
	r.write(30)
	r.finish(t, c)
}

// checkRestart holds what informd did about one kind after a restart against how
// often the API server denied its history.
func (r *faultRig) checkRestart(k kind, denied int, lists []listRequest, gaps []record) {
	r.t.Helper()
	var pages, bodies int
	for _, l := range lists {
		switch {
		case l.metadata:
			pages++
		case !l.byName:
			bodies++
		}
	}
	r.t.Logf("%s: history denied %d times, %d pages of metadata, %d gaps", k.target(), denied, pages, len(gaps))
	if bodies > 0 {
		r.t.Errorf("%s: %d pages of whole objects were listed again", k.target(), bodies)
	}
	if len(gaps) > min(denied, 1) || (pages > 0) != (denied > 0) {
		r.t.Errorf("%s: denied %d times: %d pages of metadata and %d gaps", k.target(), denied, pages, len(gaps))
	}
}

// resumed checks that nothing was listed since the first n lists.
func (r *faultRig) resumed(n int) {
	r.t.Helper()
	for _, k := range r.kinds {
		if lists := r.listsSince(n, k); len(lists) > 0 {
			r.t.Errorf("%s: informd listed instead of resuming: %+v", k.target(), lists)
		}
	}
}

func TestWatchCutInMidFrame(t *testing.T) {
	const rounds = 10
	r := startFaultRig(t, "")
	r.write(1)
	r.caughtUp() // so that the first cut finds a watch of each kind
	lists := r.lists()
	for range rounds {
		r.proxy.set(func() { r.proxy.cutting++ })
		r.write(20)
		r.caughtUp() // and so does the next
	}
	r.finish(t, claim{})
	r.resumed(lists)
	r.proxy.set(func() {
		for _, k := range r.kinds {
			if n := r.proxy.cuts[k.gvr.Resource]; n != rounds {
				t.Errorf("%d frames of %s were cut, want %d", n, k.target(), rounds)
			}
		}
	})
}

func TestServerRefusesWatches(t *testing.T) {
	r := startFaultRig(t, "")
	r.write(10)
	lists := r.lists()
	r.proxy.set(func() { r.proxy.refuseWatches = true })
	r.proxy.cutNow()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	w := newWriter(r.client, r.kinds[0], r.ledger, 99)
	w.adopt(t)
	if err := w.create(t.Context(), "hot"); err != nil {
		t.Fatal(err)
	}
	for range 100 {
		if err := w.update(t.Context(), "hot"); err != nil {
			t.Fatal(err)
		}
	}
	<-ctx.Done() // the refusal is to last 10 s
	r.proxy.set(func() {
		r.proxy.refuseWatches = false
		if r.proxy.refused == 0 {
			t.Error("no watch was refused")
		}
	})
	r.finish(t, claim{})
	r.resumed(lists)
}

func TestCompactedWhileCut(t *testing.T) {
	for name, later := range map[string]int{"quiet afterwards": 0, "busy afterwards": 30} {
		t.Run(name, func(t *testing.T) {
			r := startFaultRig(t, "")
			r.write(60)
			o := r.cut()
			r.proxy.set(func() { r.proxy.refuseWatches = true })
			r.proxy.cutNow()
			r.write(100)
			// The API server's own memory of the history goes with its process,
			// etcd's with the compaction.
			r.restartAPIServer(r.compact)
			r.write(later)
			r.proxy.set(func() { r.proxy.refuseWatches = false })
			eventually(t, "a gap for each kind", func() bool { return count(r.informd.records(), "gap") >= len(r.kinds) })
			r.restore(&o)
			r.finish(t, claim{outages: []outage{o}})
			for _, k := range r.kinds {
				if gaps := r.gaps(k); len(gaps) != 1 {
					t.Errorf("%s: gaps %+v, want one", k.target(), gaps)
				}
			}
		})
	}
}

// TestMalformedObject: what cannot be passed on shows, and the others flow.
func TestMalformedObject(t *testing.T) {
	r := startFaultRig(t, "")
	r.proxy.set(func() {
		r.proxy.mangle = func(line []byte) []byte {
			return []byte(strings.Replace(string(line), `"poison":"x"`, `"poison":x`, 1))
		}
	})
	w := newWriter(r.client, configMapKind(), newLedger(), 7)
	w.kind.fields = func(int) map[string]any { return map[string]any{"data": map[string]any{"poison": "x"}} }
	if err := w.create(t.Context(), "poisoned"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "rejected object shows", func() bool {
		body, _, err := r.informd.get("/metrics")
		return err == nil && strings.Contains(string(body), `informd_target_rejected_total{target="core/configmaps@default"} 1`)
	})
	r.write(20)
	r.caughtUp()
	if s, err := r.informd.status(); err != nil || s.Targets[0].State != "live" {
		t.Errorf("status %+v, %v", s, errors.Join(err))
	}
	if letters := readLetters(t, r.informd, "source"); !strings.Contains(letters, "poisoned") {
		t.Error(fmt.Errorf("no dead letter names the object: %s", letters))
	}
}

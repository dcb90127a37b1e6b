package e2e

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/dynamic"

	"github.com/informd/informd/test/cluster"
)

// FaultRig is one API server behind a proxy, an informd on it, and a workload
// on two kinds that goes straight to the API server.
type FaultRig struct {
	T       *testing.T
	Cluster *cluster.Cluster
	Proxy   *Proxy
	Client  dynamic.Interface
	Informd *Informd
	Kinds   []Kind
	Ledger  *Ledger
	seed    uint64
}

// StartFaultRig starts one, with that journal, and waits until informd has its first lists.
func StartFaultRig(t *testing.T, journal string) *FaultRig {
	t.Helper()
	return StartFaultRigOn(t, journal, cluster.Options{})
}

// StartFaultRigOn is StartFaultRig with such a cluster.
func StartFaultRigOn(t *testing.T, journal string, options cluster.Options) *FaultRig {
	t.Helper()
	c := cluster.Start(t, options)
	r := &FaultRig{
		T: t, Cluster: c, Proxy: StartProxy(t, c.RESTConfig()), Client: dynamic.NewForConfigOrDie(Fast(c.RESTConfig())),
		Kinds: []Kind{ConfigMapKind(), CustomKind("gadgets", false)}, Ledger: NewLedger(),
	}
	r.Kinds[1].Install(t, r.Client)
	r.Informd = NewInformd(t, Setup{Kubeconfig: r.Proxy.Kubeconfig, Journal: journal, Resources: `
		- {resource: configmaps, namespaces: [default]}
		- {group: e2e.example.com, resource: gadgets}`})
	r.Informd.Start()
	r.Informd.WaitForSync(len(r.Kinds))
	return r
}

// Write makes n random changes to each kind.
func (r *FaultRig) Write(n int) {
	r.T.Helper()
	r.seed++
	WriteAll(r.T, r.Client, r.Kinds, r.Ledger, n, r.seed)
}

// CaughtUp waits until informd has delivered all that was written.
func (r *FaultRig) CaughtUp() {
	r.T.Helper()
	Eventually(r.T, "caught up", func() bool { return Complete(r.Kinds, r.records(), r.Ledger) })
}

// records are those of the file sink, without what came again after a crash.
func (r *FaultRig) records() []Record {
	r.T.Helper()
	records, _ := Once(r.T, r.Informd.Records())
	return records
}

// Cut begins an outage: it notes what informd has delivered, which must be all
// that was written, so that no gap can excuse any of it.
func (r *FaultRig) Cut() Outage {
	r.T.Helper()
	r.CaughtUp()
	o := Outage{Before: make(map[string]uint64)}
	for _, x := range r.records() {
		target := GroupOrCore(x.Group) + "/" + x.Resource
		switch {
		case x.Control():
		case x.Op == "deleted":
			// More can have been deleted at the same revision, so a gap may begin
			// right before it.
			o.Before[target] = max(o.Before[target], x.ResourceVersion-1)
		default:
			o.Before[target] = max(o.Before[target], x.ResourceVersion)
		}
	}
	return o
}

// Restore ends an outage; informd is back.
func (r *FaultRig) Restore(o *Outage) {
	r.T.Helper()
	revision, err := r.Cluster.Revision(r.T.Context())
	Must(r.T, err)
	o.After = uint64(revision)
}

// ListsSince returns the lists of a kind that informd has requested since the
// first n.
func (r *FaultRig) ListsSince(n int, k Kind) []ListRequest {
	var lists []ListRequest
	r.Proxy.Set(func() { lists = slices.Clone(r.Proxy.Lists[n:]) })
	return slices.DeleteFunc(lists, func(l ListRequest) bool { return l.Resource != k.GVR.Resource })
}

// Lists is how many lists the proxy has seen.
func (r *FaultRig) Lists() (n int) {
	r.Proxy.Set(func() { n = len(r.Proxy.Lists) })
	return n
}

// Gaps returns those of a kind.
func (r *FaultRig) Gaps(k Kind) []Record {
	return slices.DeleteFunc(r.records(), func(x Record) bool {
		return x.Op != "gap" || GroupOrCore(x.Group)+"/"+x.Resource != k.Target()
	})
}

// Finish waits until the stream has caught up, and holds it to the claim.
func (r *FaultRig) Finish(t *testing.T, c Claim) {
	t.Helper()
	r.CaughtUp()
	for _, k := range r.Kinds {
		Check(t, k, r.records(), r.Ledger, r.Client, c)
	}
}

// WaitForCursors waits until informd has done with everything up to the last
// revisions that were written: with its gap, if it had to make up for history.
func (r *FaultRig) WaitForCursors() {
	r.T.Helper()
	Eventually(r.T, "cursors behind what was written", func() bool {
		s, err := r.Informd.Status()
		if err != nil {
			return false
		}
		behind := slices.ContainsFunc(r.Kinds, func(k Kind) bool {
			cursor := uint64(0)
			for _, x := range s.Targets {
				if name, _, _ := strings.Cut(x.Target, "@"); name == k.Target() {
					cursor = x.ResourceVersion
				}
			}
			return cursor < r.Ledger.last(k)
		})
		return !behind
	})
}

// Resumed checks that nothing was listed since the first n lists.
func (r *FaultRig) Resumed(n int) {
	r.T.Helper()
	for _, k := range r.Kinds {
		if lists := r.ListsSince(n, k); len(lists) > 0 {
			r.T.Errorf("%s: informd listed instead of resuming: %+v", k.Target(), lists)
		}
	}
}

// RestartAPIServer kills it, and with it its memory of the history, does what it
// was given, and starts it.
func (r *FaultRig) RestartAPIServer(do func()) {
	r.T.Helper()
	Must(r.T, r.Cluster.APIServer(0).Kill())
	do()
	Must(r.T, r.Cluster.APIServer(0).Start(r.T.Context()))
}

// Compact takes etcd's own history away.
func (r *FaultRig) Compact() {
	r.T.Helper()
	if _, err := r.Cluster.Compact(r.T.Context()); err != nil {
		r.T.Fatal(err)
	}
}

package core_test

import (
	"testing"

	"github.com/informd/informd/test/e2e"
)

// TestAPIServerKilledAndRestarted: an API server that begins anew has a watch
// cache that begins anew, so that it may deny (410) what it had before, although
// etcd still has all of it. Then informd compares metadata and reads from etcd what
// came between, without reading all bodies again; a gap says no more than that
// objects may have come and gone in it. Without a denial it does neither.
func TestAPIServerKilledAndRestarted(t *testing.T) {
	r := e2e.StartFaultRig(t, "")
	var c e2e.Claim
	for range 3 {
		r.Write(30)
		o := r.Cut()
		o.Whole = true
		lists, gaps, expired := r.Lists(), make(map[string]int), make(map[string]int)
		for _, k := range r.Kinds {
			gaps[k.Target()] = len(r.Gaps(k))
			r.Proxy.Set(func() { expired[k.Target()] = r.Proxy.Expired[k.GVR.Resource] })
		}
		r.RestartAPIServer(func() {})
		r.Write(1)
		r.CaughtUp()
		r.WaitForCursors()
		for _, k := range r.Kinds {
			var denied int
			r.Proxy.Set(func() { denied = r.Proxy.Expired[k.GVR.Resource] - expired[k.Target()] })
			checkRestart(r, k, denied, r.ListsSince(lists, k), r.Gaps(k)[gaps[k.Target()]:])
		}
		r.Restore(&o)
		c.Outages = append(c.Outages, o)
	}
	r.Write(30)
	r.Finish(t, c)
}

// checkRestart holds what informd did about one kind after a restart against how
// often the API server denied its history.
func checkRestart(r *e2e.FaultRig, k e2e.Kind, denied int, lists []e2e.ListRequest, gaps []e2e.Record) {
	r.T.Helper()
	var pages, bodies int
	for _, l := range lists {
		switch {
		case l.Metadata:
			pages++
		case !l.ByName:
			bodies++
		}
	}
	r.T.Logf("%s: history denied %d times, %d pages of metadata, %d gaps", k.Target(), denied, pages, len(gaps))
	if bodies > 0 {
		r.T.Errorf("%s: %d pages of whole objects were listed again", k.Target(), bodies)
	}
	if len(gaps) > min(denied, 1) || (pages > 0) != (denied > 0) {
		r.T.Errorf("%s: denied %d times: %d pages of metadata and %d gaps", k.Target(), denied, pages, len(gaps))
	}
}

func TestWatchCutInMidFrame(t *testing.T) {
	const rounds = 10
	r := e2e.StartFaultRig(t, "")
	r.Write(1)
	r.CaughtUp() // so that the first cut finds a watch of each kind
	lists := r.Lists()
	for range rounds {
		r.Proxy.Set(func() { r.Proxy.Cutting++ })
		r.Write(20)
		r.CaughtUp() // and so does the next
	}
	r.Finish(t, e2e.Claim{})
	r.Resumed(lists)
	r.Proxy.Set(func() {
		for _, k := range r.Kinds {
			if n := r.Proxy.Cuts[k.GVR.Resource]; n != rounds {
				t.Errorf("%d frames of %s were cut, want %d", n, k.Target(), rounds)
			}
		}
	})
}

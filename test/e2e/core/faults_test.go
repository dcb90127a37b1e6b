package core_test

import (
	"slices"
	"testing"
	"time"

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

// TestFollowerTakesOver: the leader is killed, or ended with SIGTERM, and the follower goes on where it was. The former
// leader becomes the follower. E2E_TAKEOVERS is how often, E2E_OBJECTS how many objects more there are, in 100 targets.
func TestFollowerTakesOver(t *testing.T) {
	p := e2e.NewPairWith(t, e2e.Number(t, "E2E_OBJECTS", 0))
	took := map[bool][]time.Duration{}
	end := p.Load()
	for n := range e2e.Number(t, "E2E_TAKEOVERS", 3) {
		p.WaitForEvents(100)
		kill := n%2 == 0
		if kill {
			p.Leader.Kill()
		} else {
			p.Leader.Stop()
		}
		took[kill] = append(took[kill], p.WaitForEvents(1))
		p.Leader, p.Follower = p.Follower, p.Leader
		p.Follower.Start()
		p.Follower.WaitForFollowing(p.Leader)
	}
	end()
	for kill, all := range took {
		slices.Sort(all)
		t.Logf("killed: %v, %d times: an event after %v (least), %v (median), %v (most)", kill, len(all), all[0], all[len(all)/2], all[len(all)-1])
	}
	p.Finish()
}

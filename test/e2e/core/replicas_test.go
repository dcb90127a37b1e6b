package core_test

import (
	"slices"
	"testing"
	"time"

	"github.com/informd/informd/test/e2e"
)

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

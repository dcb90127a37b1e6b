package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// PairDuration is the lease duration of the tests' replicas, in place of 8 s.
const PairDuration = 4 * time.Second

// Pair is two replicas of informd on a rig.
type Pair struct {
	*Rig

	Leader, Follower *Informd
}

// NewPairWith is a pair with a number of objects more, in 100 targets.
func NewPairWith(t *testing.T, objects int, sinks ...string) *Pair {
	r, targets := NewRig(t), 0
	s := r.Setup(LogJournal + LongHistory)
	if objects > 0 {
		targets = 100
		s.Resources += "\n" + StoreAccounts(t, r.Cluster, objects, targets)
	}
	s.Replicas = fmt.Sprintf("duration: %s", PairDuration)
	s.Sinks = strings.Join(append(sinks, s.Sinks), "\n")
	s.Admin = fmt.Sprintf(", tokenFile: %q", WriteFile(t, "token", "the token of both replicas\n"))
	p := &Pair{Rig: r, Leader: NewInformd(t, s), Follower: NewInformd(t, s)}
	p.Leader.Start()
	p.Leader.WaitForLive(len(r.Kinds) + targets)
	p.Follower.Start()
	p.Follower.WaitForFollowing(p.Leader)
	return p
}

// WaitForEvents waits until the sink bus has more events.
func (p *Pair) WaitForEvents(n uint64) time.Duration {
	p.T.Helper()
	began := time.Now()
	end, hangUp := streamEnds(p.T, p.Nats.URL(), BusStream)
	defer hangUp()
	wanted := end() + n
	return WaitAtOnce(p.T, "more events", func() bool { return end() >= wanted }).Sub(began)
}

// Finish waits until everything that was written is in the stream, and holds that to the claim that history could get
// lost in the outages.
func (p *Pair) Finish(outages ...Outage) {
	p.T.Helper()
	records := func() []Record { return ReadStream(p.T, p.Nats.URL(), BusStream) }
	Eventually(p.T, "JetStream complete", func() bool { return Complete(p.Kinds, records(), p.Ledger) })
	all := records()
	for _, k := range p.Kinds {
		p.T.Run(k.GVR.Resource, func(t *testing.T) { Check(t, k, all, p.Ledger, p.Client, Claim{Outages: outages}) })
	}
}

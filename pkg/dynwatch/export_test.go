package dynwatch

import (
	"context"
	"fmt"
	"time"

	"k8s.io/client-go/rest"

	"github.com/informd/informd/pkg/dynwatch/internal/index"
	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
)

// SetTiming replaces the periods of targets that start from now on.
func (m *Manager) SetTiming(silence, tick, backoff time.Duration) {
	m.timing = timing{
		Timing: listwatch.Timing{
			Silence: silence, Reach: silence, Tick: tick, Backoff: backoff, BackoffCap: 4 * backoff,
			WaitingCap: 4 * backoff, DeniedCap: 8 * backoff,
		},
		unserved: 10 * backoff, withdrawn: 20 * backoff, staleTold: 10 * backoff,
		waitingTold: time.Hour, look: backoff, lookCap: 4 * backoff, looking: 40 * backoff, clock: m.timing.clock,
	}
}

// SetWithdrawn replaces the time for which a resource must be missing that is not a custom
// one, of targets that start from now on.
func (m *Manager) SetWithdrawn(d time.Duration) { m.timing.withdrawn = d }

// SetAudit replaces the time between audits of targets that start from now on.
func (m *Manager) SetAudit(interval time.Duration) { m.timing.audit = interval }

// Limits are those of a walk, and how many revisions are listed one by one.
type Limits struct {
	Requests, Bodies int
	Time, Patience   time.Duration
	Revisions        uint64
}

// Limits returns those of targets that start from now on.
func (m *Manager) Limits() Limits {
	l := m.limits
	return Limits{l.requests, l.bodies, l.time, l.patience, l.revisions}
}

// SetLimits replaces them.
func (m *Manager) SetLimits(l Limits) {
	m.limits.requests, m.limits.bodies, m.limits.time, m.limits.revisions = l.Requests, l.Bodies, l.Time, l.Revisions
	m.limits.patience = l.Patience
}

// Rate is the rate of a target's events, by a clock of the test's.
type Rate struct{ rate *rate }

// NewRate begins one.
func NewRate(now time.Time) Rate { return Rate{newRate(now)} }

// Add counts n events.
func (r Rate) Add(n int, now time.Time) { r.rate.add(n, now) }

// PerSecond returns it.
func (r Rate) PerSecond(now time.Time) float64 { return r.rate.perSecond(now) }

// PlanCounting is [Plan] that looks at no more than so many objects one by one, and
// asks no more than so many namespaces.
func PlanCounting(ctx context.Context, kubernetes *rest.Config, wanted []Resource, listed, asked int) (WatchPlan, error) {
	return plan(ctx, kubernetes, wanted, 0, bounds{listed: listed, asked: asked})
}

// SetClock replaces the clock by which objects fall due to be announced anew, of
// targets that start from now on.
func (m *Manager) SetClock(clock func() time.Time) { m.timing.clock = clock }

// Schedule is what falls due of a target's objects to be announced anew.
type Schedule struct {
	resync resync
	index  *index.Index
}

// NewSchedule begins one now.
func NewSchedule(target string, period time.Duration, clock func() time.Time) *Schedule {
	return &Schedule{newResync(spec{group: target, resource: "things", resync: period}, clock), index.New()}
}

// Add makes an object known that was last announced anew in a run.
func (s *Schedule) Add(name string, run uint64) {
	s.index.Put(index.ID{Namespace: "a", Name: name, UID: name}).Run = run
}

// Ready returns what has fallen due since the last call, as name and run, and that it
// is done.
func (s *Schedule) Ready() (all []string) {
	for {
		ready, _ := s.resync.look(s.index)
		if len(ready) == 0 {
			return all
		}
		for _, d := range ready {
			all = append(all, fmt.Sprintf("%s:r%d", s.index.Name(s.index.ByHandle(d.entry)), s.resync.run(d.at)))
			s.resync.done()
		}
	}
}

// Position is what a later process goes on from.
func (s *Schedule) Position() int64 { return s.resync.position() }

// GoOn goes on from there.
func (s *Schedule) GoOn(position int64) { s.resync.goOn(position) }

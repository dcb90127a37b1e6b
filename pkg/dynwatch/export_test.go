package dynwatch

import (
	"context"
	"time"

	"k8s.io/client-go/rest"
)

// SetTiming replaces the periods of targets that start from now on.
func (m *Manager) SetTiming(silence, tick, backoff time.Duration) {
	m.timing = timing{
		silence: silence, tick: tick, unserved: 10 * backoff, backoff: backoff, backoffCap: 4 * backoff,
		waitingCap: 4 * backoff, waitingTold: time.Hour, look: backoff, lookCap: 4 * backoff, looking: 40 * backoff, deniedCap: 8 * backoff,
	}
}

// SetAudit replaces the time between audits of targets that start from now on.
func (m *Manager) SetAudit(interval time.Duration) { m.timing.audit = interval }

// Limits are those of a walk, and how many revisions are listed one by one.
type Limits struct {
	Requests, Bodies int
	Time             time.Duration
	Revisions        uint64
}

// Limits returns those of targets that start from now on.
func (m *Manager) Limits() Limits {
	l := m.limits
	return Limits{l.requests, l.bodies, l.time, l.revisions}
}

// SetLimits replaces them.
func (m *Manager) SetLimits(l Limits) {
	m.limits.requests, m.limits.bodies, m.limits.time, m.limits.revisions = l.Requests, l.Bodies, l.Time, l.Revisions
}

// Rate is the rate of a target's events, by a clock of the test's.
type Rate struct{ rate *rate }

// NewRate begins one.
func NewRate(now time.Time) Rate { return Rate{newRate(now)} }

// Add counts n events.
func (r Rate) Add(n int, now time.Time) { r.rate.add(n, now) }

// PerSecond returns it.
func (r Rate) PerSecond(now time.Time) float64 { return r.rate.perSecond(now) }

// PlanCounting is [Plan] that counts no more than so many objects one by one.
func PlanCounting(ctx context.Context, kubernetes *rest.Config, wanted []Resource, counted int) ([]TargetPlan, error) {
	return plan(ctx, kubernetes, wanted, counted)
}

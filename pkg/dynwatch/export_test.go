package dynwatch

import "time"

// SetTiming replaces the periods of targets that start from now on.
func (m *Manager) SetTiming(silence, tick, backoff time.Duration) {
	m.timing = timing{silence: silence, tick: tick, unserved: 10 * backoff, backoff: backoff, backoffCap: 4 * backoff, waitingCap: 4 * backoff}
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

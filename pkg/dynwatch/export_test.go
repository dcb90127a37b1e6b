package dynwatch

import (
	"time"

	"github.com/informd/informd/pkg/dynwatch/internal/catalog"
	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
	"github.com/informd/informd/pkg/dynwatch/internal/target"
)

// SetTiming replaces the periods of targets that start from now on.
func (m *Manager) SetTiming(silence, tick, backoff time.Duration) {
	m.timing = target.Timing{
		Timing: listwatch.Timing{
			Silence: silence, Reach: silence, Lag: tick, Tick: tick,
			Backoff: backoff, BackoffCap: 4 * backoff,
			WaitingCap: 4 * backoff, DeniedCap: 8 * backoff,
		},
		StaleTold: 10 * backoff,
		Periods:   catalog.Periods{Noticed: time.Hour, First: backoff, Most: 4 * backoff, Lasting: 40 * backoff, Unserved: 10 * backoff, Withdrawn: 20 * backoff},
	}
}

// SetWithdrawn replaces the time for which a resource must be missing that is not a custom
// one, of targets that start from now on.
func (m *Manager) SetWithdrawn(d time.Duration) { m.timing.Withdrawn = d }

// SetOwnerWait replaces the time that an event waits for its owners.
func (m *Manager) SetOwnerWait(d time.Duration) { m.owners.Wait = d }

// SetTurn replaces the time after which a target loses its turn to open a watch.
func (m *Manager) SetTurn(d time.Duration) { m.openings.Longest = d }

// Gone reports whether a wildcard would end the target, without the deletions of its objects.
func (m *Manager) Gone(target string) bool { return m.gone(target) }

// SetAudit replaces the time between audits of targets that start from now on.
func (m *Manager) SetAudit(interval time.Duration) { m.timing.AuditEvery = interval }

// Limits are those of a walk.
type Limits struct {
	Requests, Bodies int
	Time             time.Duration
}

// Limits returns those of targets that start from now on.
func (m *Manager) Limits() Limits {
	l := m.limits
	return Limits{l.Requests, l.Bodies, l.Time}
}

// SetLimits replaces them.
func (m *Manager) SetLimits(l Limits) {
	m.limits.Requests, m.limits.Bodies, m.limits.Time = l.Requests, l.Bodies, l.Time
}

package dynwatch

import "time"

// SetTiming replaces the periods of targets that start from now on.
func (m *Manager) SetTiming(silence, tick, backoff time.Duration) {
	m.timing = timing{silence: silence, tick: tick, unserved: 10 * backoff, backoff: backoff, backoffCap: 4 * backoff, waitingCap: 4 * backoff}
}

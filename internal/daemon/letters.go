package daemon

import (
	"context"
	"sync"
	"time"

	"github.com/informd/informd/internal/daemon/internal/store"
)

const (
	// countTimeout bounds the request for the number of dead letters, so that a scrape does
	// not wait for a server that does not answer.
	countTimeout = time.Second
	// countEvery is the time between two of these requests.
	countEvery = 5 * time.Second
)

// letterCounts are the numbers of dead letters as last read. The operator, and another
// process, may change them at any time. All methods may be called concurrently.
type letterCounts struct {
	mu     sync.Mutex
	asked  time.Time
	counts map[string]uint64
}

// of returns the number of dead letters of each queue that is not empty. While the journal
// does not answer these are the last known numbers. The map must not be changed.
func (l *letterCounts) of(s *store.Store) map[string]uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if time.Since(l.asked) < countEvery {
		return l.counts
	}
	l.asked = time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), countTimeout)
	defer cancel()
	if counts, err := s.Letters(ctx); err == nil {
		l.counts = counts
	} else {
		s.Logger.Debug("dead letters not counted", "err", err)
	}
	return l.counts
}

// forget has the next call of of read the numbers.
func (l *letterCounts) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked = time.Time{}
}

// deadLetters returns the length of each dead-letter queue that is not empty.
func (d *Daemon) deadLetters() map[string]uint64 {
	if p := d.pipeline.Load(); p != nil {
		return d.letters.of(p.store)
	}
	return nil
}

// sinkNames returns the names of the sinks of the config.
func (d *Daemon) sinkNames() []string {
	if p := d.pipeline.Load(); p != nil {
		return names(p.deliveries())
	}
	return nil
}

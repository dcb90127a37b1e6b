package wal

import (
	"context"
	"slices"
	"time"

	"github.com/informd/informd/pkg/journal/internal/segment"
)

const (
	// maxFollowers bounds the processes that copy a log.
	maxFollowers = 8
	// rest is how long readers do not wait for a follower that was too slow.
	rest = 10 * time.Second
)

// followers are the processes with a copy of the log that hard events wait for. They are part of [Barrier].
type followers struct {
	all      map[string]*follower
	released map[string]time.Time // when one was too slow
}

// follower is another process with a copy of the log.
type follower struct {
	acked place
	asked time.Time // when it has acknowledged last
	// until is the end of the log when hard events began to wait for it. With all before, its copy has
	// whatever a reader has.
	until place
}

// behind returns the followers that lack something before a place.
func (f *followers) behind(end place) (names []string) {
	for name, one := range f.all {
		if one.acked.before(end) {
			names = append(names, name)
		}
	}
	return names
}

// acknowledge notes that a follower has all before a place. It begins to wait for one that is near the end of the log.
func (f *followers) acknowledge(name string, at, end place) {
	if known := f.all[name]; known != nil {
		known.acked, known.asked = at, time.Now() // an earlier place than before is that of a new process of this name
		return
	}
	rested := time.Since(f.released[name]) > rest
	if at.segment == end.segment && end.offset-at.offset <= chunkBytes && rested && len(f.all) < maxFollowers {
		delete(f.released, name)
		f.all[name] = &follower{acked: at, asked: time.Now(), until: end}
	}
}

func (f *followers) release(name string) {
	if delete(f.all, name); len(f.released) < maxFollowers {
		f.released[name] = time.Now()
	}
}

// Acknowledge notes that a follower has the log up to an offset of a segment. From the first time in the
// active segment on, hard events wait for that follower, until [Shipping.Release].
func (s *Shipping) Acknowledge(follower, name string, offset int64) {
	n, ok := segment.ParseName(name)
	if !ok || name != n.Log() {
		return
	}
	s.monitor.mu.Lock()
	defer s.monitor.mu.Unlock()
	at, end := place{n.Number, offset}, s.segments.end()
	if end.before(at) {
		return
	}
	s.barrier.followers.acknowledge(follower, at, end)
	s.barrier.free()
}

// Release no longer waits for a follower, for some seconds at least. Before, nobody may count on its copy any more.
func (s *Shipping) Release(follower string) {
	s.monitor.mu.Lock()
	defer s.monitor.mu.Unlock()
	s.barrier.followers.release(follower)
	s.barrier.free()
}

// Following describes the followers of a log.
type Following struct {
	// InSync have whatever a reader has, and Late have kept a reader waiting for longer than allowed.
	InSync, Late []string
	// Lag is how many bytes of the active segment the follower lacks, by name; of one that is in an
	// earlier segment it is that of the whole active one.
	Lag map[string]int64
}

// Following returns the followers of now. Late is one that holds readers up for longer than patience, or lacks
// something and has not asked for longer than silence.
func (s *Shipping) Following(patience, silence time.Duration) Following {
	s.monitor.mu.Lock()
	defer s.monitor.mu.Unlock()
	all, end, withheld := Following{Lag: map[string]int64{}}, s.segments.end(), s.barrier.withheld
	for name, f := range s.barrier.followers.all {
		if all.Lag[name] = end.offset; f.acked.segment == end.segment {
			all.Lag[name] = end.offset - f.acked.offset
		}
		if !f.acked.before(f.until) {
			all.InSync = append(all.InSync, name)
		}
		holdsUp := len(withheld) > 0 && time.Since(withheld[0].at) > patience && f.acked.before(withheld[0].end)
		if holdsUp || f.acked.before(end) && time.Since(f.asked) > silence {
			all.Late = append(all.Late, name)
		}
	}
	slices.Sort(all.InSync)
	slices.Sort(all.Late)
	return all
}

// Settle waits until all followers have what the log has now, or ctx ends. It returns those that lack something.
func (s *Shipping) Settle(ctx context.Context) (behind []string) {
	s.monitor.mu.Lock()
	end := s.segments.end()
	s.settling++
	s.monitor.signal()
	s.monitor.mu.Unlock()
	_ = s.monitor.waitFor(ctx, func() bool {
		behind = s.barrier.followers.behind(end)
		return len(behind) == 0
	})
	s.monitor.mu.Lock()
	defer s.monitor.mu.Unlock()
	s.settling--
	return behind
}

package embedded

import (
	"fmt"

	"github.com/nats-io/nats-server/v2/server"
)

// resizeShare is the part of the limit by which the room must have changed for the
// limit to follow.
const resizeShare = 64

// measure finds how much may be stored.
func (s *Server) measure() error {
	disk, err := s.config.disk(s.config.Dir)
	if err != nil {
		return err
	}
	limits, err := s.limitsOn(disk)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.limits = limits
	s.mu.Unlock()
	if limits.journal < s.config.MaxBytes {
		s.logger.Warn("free disk space is below journal.maxBytes; limit lowered", "dir", s.config.Dir,
			"max_bytes", s.config.MaxBytes, "limit_bytes", limits.journal, "free_bytes", disk.free, "reserve_bytes", s.reserve(disk))
	}
	return nil
}

// limitsOn shares out the room on a disk in this state.
func (s *Server) limitsOn(d disk) (limits, error) {
	used, err := s.store.Size()
	if err != nil {
		return limits{}, err
	}
	return limitsFor(s.config.MaxBytes, used, s.reserve(d), d), nil
}

func (s *Server) reserve(d disk) int64 {
	if s.config.Reserve > 0 {
		return s.config.Reserve
	}
	return d.reserve()
}

// resize has the limits of the running server follow the disk. The server takes a
// higher limit while it runs and no lower one: that one is left to the journal's
// stream, whose owner takes its limit from [Server.MaxBytes]. Without a running server, that
// is the only limit that changes.
func (s *Server) resize(running *server.Server, d disk) error {
	room, err := s.limitsOn(d)
	if err != nil {
		return nil //nolint:nilerr // the disk's trouble shows elsewhere, and the limits hold
	}
	s.mu.Lock()
	before := s.limits
	s.mu.Unlock()
	switch change := room.journal - before.journal; {
	case change == 0:
		return nil
	case room.journal == s.config.MaxBytes: // all that it may have
	case max(change, -change) < before.journal/resizeShare:
		return nil
	}
	if running == nil {
		room.server = before.server
	}
	room.server = max(room.server, before.server)
	if room.server > before.server {
		// Without the journal's own account: in a reload it would lose JetStream.
		o, err := s.options(room.server, []*server.Account{s.readers, s.requests})
		if err != nil {
			return err
		}
		if err := running.ReloadOptions(o); err != nil {
			return fmt.Errorf("raise the journal limit to the free disk space: %w", err)
		}
	}
	s.setLimits(room, before, d)
	return nil
}

// setLimits replaces the limits by those for a disk.
func (s *Server) setLimits(room, before limits, d disk) {
	s.mu.Lock()
	s.limits = room
	s.mu.Unlock()
	s.logger.Info("journal limit changed with free disk space", "dir", s.config.Dir,
		"max_bytes", s.config.MaxBytes, "limit_bytes", room.journal, "before_bytes", before.journal, "free_bytes", d.free)
}

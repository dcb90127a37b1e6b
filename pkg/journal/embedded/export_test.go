package embedded

import "time"

// FakeDisk has the guard see a disk with that much room, in bytes.
func (c *Config) FakeDisk(room func() (free, total int64)) {
	c.disk = func(string) (disk, error) {
		free, total := room()
		return disk{free: free, total: total}, nil
	}
}

// Tick sets how often the guard looks.
func (c *Config) Tick(d time.Duration) { c.tick = d }

// StopJetStream does what the server does to itself when the disk is full.
func (s *Server) StopJetStream() error {
	s.mu.Lock()
	srv := s.running
	s.mu.Unlock()
	return srv.DisableJetStream()
}

package embedded

import (
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// ServeRequest serves a reader's request over a connection to any server, and returns how many
// consumers count as those of readers afterwards. The reader gets an error after slow, and the
// server's answer is expected until last.
func ServeRequest(conn *nats.Conn, m *nats.Msg, slow, last time.Duration) int {
	g := &gate{own: conn, requests: conn, slow: slow, last: last, closed: make(chan struct{}), theirs: make(map[consumerKey]time.Time)}
	g.serve(request{Msg: m})
	return g.count()
}

// FakeDisk has the guard see a disk with that much room, in bytes.
func (c *Config) FakeDisk(room func() (free, total int64)) {
	c.disk = func(string) (disk, error) {
		free, total := room()
		return disk{free: free, total: total}, nil
	}
}

// Hang has the server not answer the guard for as long as the lock is held.
func (c *Config) Hang(lock sync.Locker) {
	c.health = func(running *server.Server) map[string]string {
		lock.Lock()
		defer lock.Unlock()
		return health(running)
	}
}

// Tick sets how often the guard looks.
func (c *Config) Tick(d time.Duration) { c.tick = d }

// Patience sets how long the server or the file system may take to answer the guard.
func (c *Config) Patience(d time.Duration) { c.patience = d }

// StopJetStream does what the server does to itself when the disk is full.
func (s *Server) StopJetStream() error {
	s.mu.Lock()
	srv := s.running
	s.mu.Unlock()
	return srv.DisableJetStream()
}

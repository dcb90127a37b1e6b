package embedded

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nuid"

	"github.com/informd/informd/pkg/journal/embedded/internal/storefiles"
)

// Server is a nats-server in this process, with a guard that keeps it working.
// All methods may be called concurrently.
type Server struct {
	config   Config
	logger   *slog.Logger
	store    storefiles.Store
	lock     *lock
	conn     *nats.Conn
	identity identity // of conn
	// Of the listener:
	readers    *server.Account // of the server that was started last; of launch and the guard alone
	requests   *server.Account // likewise
	gatekeeper identity        // of the gate in readers
	requester  identity        // of the gate in requests
	gate       *gate           // nil if there is none
	pulls      string          // what the subjects of pulls that the gate lets through begin with
	port       int             // of the listener, chosen at the first start; used by launch and admit alone
	log        *serverLogger
	floods     chan uint64 // connections of readers that are to be closed

	stop     context.CancelFunc
	guarding sync.WaitGroup
	close    func() error // once

	stuck   atomic.Bool // the server does not answer the guard, or the store was damaged since
	hung    atomic.Bool // the file system does not answer the guard
	removed atomic.Bool // the directory was removed or replaced

	recording sync.Mutex       // held while the ledger is written
	holder    storefiles.Links // of whoever has recording

	mu      sync.Mutex
	running *server.Server // nil while it is started anew
	limits  limits
	reason  string // why it does not work, "" if it does
	damage  []string
}

// Start locks the directory, checks the files for damage, starts the server and waits until
// it serves. That takes 0.1 s for 100,000 messages after a clean stop, and some seconds per
// gigabyte after a crash. It fails if ctx ends.
//
// It fails if the directory is not writable or in use; damage is no failure. The caller must
// close the server, and must not close the connection.
func Start(ctx context.Context, c Config) (*Server, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	if c.disk == nil {
		c.disk = statDisk
	}
	if c.health == nil {
		c.health = health
	}
	c.tick = cmp.Or(c.tick, guardTick)
	c.patience = cmp.Or(c.patience, patience*c.tick)
	var logins [3]identity
	for i := range logins {
		var err error
		if logins[i], err = newIdentity(); err != nil {
			return nil, err
		}
	}
	if err := prepareDir(c.Dir, c.Logger); err != nil {
		return nil, err
	}
	lock, err := takeLock(c.Dir)
	if err != nil {
		return nil, err
	}
	s := &Server{
		config:     c,
		logger:     c.Logger,
		store:      storefiles.StoreIn(c.Dir),
		lock:       lock,
		identity:   logins[0],
		gatekeeper: logins[1],
		requester:  logins[2],
		floods:     make(chan uint64, maxFloods),
		pulls:      "$JS.INFORMD." + nuid.Next(),
		holder:     storefiles.Links{Dir: c.Dir, Prefix: c.Stream, Store: storefiles.StoreIn(c.Dir), Logger: c.Logger},
	}
	s.log = newServerLogger(s.logger, s.floods)
	s.close = sync.OnceValue(s.shutDown)
	if err := s.open(ctx); err != nil {
		return nil, errors.Join(err, lock.release())
	}
	return s, nil
}

// open does everything behind the lock.
func (s *Server) open(ctx context.Context) error {
	inspection, err := s.inspect(ctx)
	if err != nil {
		return err
	}
	if err := s.measure(); err != nil {
		return err
	}
	if err := s.serve(ctx, inspection); err != nil {
		return err
	}
	guarded, stop := context.WithCancel(context.WithoutCancel(ctx))
	s.stop = stop
	s.guarding.Go(func() { s.guard(guarded) })
	s.guarding.Go(func() { s.endFloods(guarded) })
	if !inspection.Verified {
		s.guarding.Go(func() { s.scrub(guarded) })
	}
	return nil
}

// Conn is the in-process connection with all rights. It stays the same until [Server.Close],
// and reconnects when the server restarts. The Server owns it: do not close it.
func (s *Server) Conn() *nats.Conn { return s.conn }

// URL is the address for NATS clients, "" without a listener.
func (s *Server) URL() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.config.Listen == "" || s.running == nil {
		return ""
	}
	return s.running.ClientURL()
}

// MaxBytes is the current limit of the journal's stream, in bytes: [Config.MaxBytes], or less
// if the disk has less free space. The server refuses a stream with a larger limit. It
// follows the free space: call it every few seconds, and set the stream's limit to the
// result. It may be less than the stored bytes.
func (s *Server) MaxBytes() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.limits.journal
}

// OtherBytes is the current capacity for all streams but the journal's together, in bytes. If
// they hold more, the server can refuse messages of every stream. It follows the free space.
func (s *Server) OtherBytes() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.limits.others
}

// State reports whether the server works, and if not, the reason for people.
func (s *Server) State() (ok bool, reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reason == "", s.reason
}

// Stuck reports whether only a new process helps: the server has not answered for a minute and
// cannot be stopped, or the store lost messages since [Start]. It is also true while the file
// system does not answer for a minute.
func (s *Server) Stuck() bool { return s.stuck.Load() || s.hung.Load() }

// Removed reports whether the directory was removed or replaced. Only a new process helps.
func (s *Server) Removed() bool { return s.removed.Load() }

// Damaged reports whether the log may lack acknowledged messages, across restarts until
// [Server.MadeGood] is called. After a clean stop the contents of the files are checked in the
// background, so the result can change to true later.
func (s *Server) Damaged() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.damage) > 0
}

// Damage lists the damage, one line each.
func (s *Server) Damage() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.damage)
}

// MadeGood clears the damage. Call it when no state depends on the lost messages any more:
// the checkpoints of the targets are deleted, or every target was reconciled.
func (s *Server) MadeGood() error {
	s.mu.Lock()
	s.damage = nil
	s.mu.Unlock()
	return s.record(false)
}

// Close stops the guard and the server, waits for both, and releases the directory.
// Acknowledged messages are stored. A second call returns the same error.
func (s *Server) Close() error { return s.close() }

func (s *Server) shutDown() error {
	s.stop()
	s.guarding.Wait()
	s.gate.close()
	s.conn.Close()
	clean := s.take("closed")
	if !clean {
		s.logger.Warn("journal not stopped cleanly; the next start inspects its files", "dir", s.config.Dir)
	}
	return errors.Join(s.record(clean), s.lock.release())
}

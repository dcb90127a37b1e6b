package store

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/informd/informd/internal/config"
	"github.com/informd/informd/internal/deliver"
	"github.com/informd/informd/internal/relay"
	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
	"github.com/informd/informd/pkg/journal/jetstream"
	"github.com/informd/informd/pkg/journal/jetstream/history"
	"github.com/informd/informd/pkg/journal/lease"
	"github.com/informd/informd/pkg/natsconn"
)

const (
	// flushTimeout bounds a write to the journal's server.
	flushTimeout = 5 * time.Second
	// releaseTimeout bounds the release of the lease.
	releaseTimeout = 2 * time.Second
)

// openNATS opens a journal in the user's server: connection, lease, streams.
func (s *Store) openNATS(ctx context.Context, c *config.Config, waiting func(holder string)) error {
	host, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("find the name of this host: %w", err)
	}
	holder := fmt.Sprintf("%s/%d", host, os.Getpid())
	conn, err := s.connect(c)
	if err != nil {
		return err
	}
	watching, unwatch := context.WithCancel(ctx)
	defer unwatch()
	go s.health.watchConnection(watching, conn, s.Logger)
	s.close = append(s.close, func() error { conn.Close(); return nil })
	held, err := lease.Acquire(ctx, conn, lease.Options{
		// Another cluster's informd is not to wait here: the stream refuses it.
		Bucket: c.Journal.Stream + "_LEASE", Key: "writer." + c.Cluster, Holder: holder,
		Replicas: c.Journal.Replicas, Waiting: waiting, Fit: s.fit, Resume: s.verify, Logger: s.Logger,
	})
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	waiting("")
	s.close = append([]func() error{func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
		defer cancel()
		return held.Release(ctx)
	}}, s.close...)
	go func() {
		if <-held.Lost(); held.Check() != nil {
			s.fail(held.Check())
		}
	}()
	j, err := relay.Open(ctx, relay.Options{
		Open: func(ctx context.Context, replaces *jetstream.Journal) (*jetstream.Journal, error) {
			return s.jetStream(ctx, c, jetstream.Config{
				Conn: conn, MaxBytes: int64(c.Journal.MaxBytes), Replicas: c.Journal.Replicas, Compression: true, Fence: held.Check,
				Replaces: replaces, Existed: !held.Created(), Report: s.health.report,
			})
		},
		Wait: held.Wait, Replaced: s.wasReplaced, Logger: s.Logger,
	})
	if err != nil {
		return err
	}
	s.Journal, s.bind, s.Durable = j, j.Bind, true
	s.History = historyOf(c, conn, s.Logger)
	s.Box, s.Letters = func(name string) deliver.Box { return j.Letters(name) }, j.LetterCounts
	s.relay.Store(j)
	s.health.watch(j.Problem, held.Check)
	s.State = s.health.State
	s.Logger.Info("journal open", "stream", c.Journal.Stream, "count", s.Stats().Events, "holder", holder)
	return nil
}

// connect makes the connection to the journal's server.
func (s *Store) connect(c *config.Config) (*nats.Conn, error) {
	options, err := c.Journal.Options("informd/" + c.Cluster + "/journal")
	if err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	options.FlusherTimeout = flushTimeout // a server that takes nothing must not hold a call for long
	// Credentials may be corrected while informd tries; the library would give up.
	options.IgnoreAuthErrorAbort = true
	options.AsyncErrorCB = func(_ *nats.Conn, _ *nats.Subscription, err error) { s.health.complain(err, s.Logger) }
	options.ReconnectErrCB = func(_ *nats.Conn, err error) { s.health.complain(err, s.Logger) }
	options.DisconnectedErrCB = func(conn *nats.Conn, err error) {
		if conn.IsClosed() {
			return // by Close
		}
		s.Logger.Warn("journal connection lost; reconnecting", "err", err)
	}
	options.ReconnectedCB = func(conn *nats.Conn) {
		s.health.connected()
		s.Logger.Info("journal connected", "server", conn.ConnectedAddr())
	}
	options.ConnectedCB = options.ReconnectedCB
	conn, err := options.Connect()
	if err != nil {
		return nil, fmt.Errorf("journal: connect: %w", natsconn.Explain(err, "journal."))
	}
	return conn, nil
}

// fit is [lease.Options.Fit].
func (s *Store) fit() bool {
	r := s.relay.Load()
	return r == nil || r.Fit()
}

// verify is [lease.Options.Resume].
func (s *Store) verify(ctx context.Context) error {
	if r := s.relay.Load(); r != nil {
		return r.Verify(ctx)
	}
	return nil // nothing was read or written yet
}

// Usable reports whether the journal works, for a metric.
func (s *Store) Usable() bool {
	if s.State == nil {
		return true
	}
	ok, _ := s.State()
	return ok
}

// wasReplaced is [relay.Options.Replaced].
func (s *Store) wasReplaced(lost bool) {
	if f := s.Replaced.Load(); f != nil {
		(*f)(lost)
	}
}

// historyOf reads the journal of a config over a connection.
func historyOf(c *config.Config, conn *nats.Conn, logger *slog.Logger) journal.History {
	return history.New(history.Options{
		Conn: conn, Cluster: c.Cluster, Stream: c.Journal.Stream, SubjectPrefix: c.Journal.SubjectPrefix, Logger: logger,
	})
}

// jetStream opens a journal over a connection.
func (s *Store) jetStream(ctx context.Context, c *config.Config, o jetstream.Config) (*jetstream.Journal, error) {
	o.Cluster, o.Stream, o.SubjectPrefix, o.Logger = c.Cluster, c.Journal.Stream, c.Journal.SubjectPrefix, s.Logger
	o.HistoryPerObject, o.DeletedRetention = int64(c.Journal.HistoryPerObject), c.Journal.DeletedRetention
	o.Watched = func(e *event.Event) bool { return (*s.Watched.Load())(e) }
	var j *jetstream.Journal
	o.Unstorable = func(ctx context.Context, e *event.Event, reason error) error {
		return keepUnstorable(ctx, deliver.NewDeadLetters(config.SourceName, j.Letters(config.SourceName)), e, reason)
	}
	j, err := jetstream.Open(ctx, o)
	return j, err
}

// keepUnstorable keeps an event that the journal never takes in the dead letters of the
// source.
func keepUnstorable(ctx context.Context, letters *deliver.DeadLetters, e *event.Event, reason error) error {
	letter := deliver.SourceLetter{
		Target: e.Target, Key: deliver.ObjectKey(e.Namespace, e.Name, e.UID, e.ResourceVersion),
		Reason: fmt.Sprintf("event %s can never be stored in the journal: %v", e.Op, reason), Size: len(e.Data), Raw: e.Data,
	}
	return letters.WriteSource(ctx, letter)
}

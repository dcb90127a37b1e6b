package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/nats-io/nats.go"

	"github.com/informd/informd/internal/config"
	"github.com/informd/informd/internal/deliver"
	"github.com/informd/informd/internal/relay"
	"github.com/informd/informd/pkg/dynwatch"
	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
	"github.com/informd/informd/pkg/journal/embedded"
	"github.com/informd/informd/pkg/journal/jetstream"
	"github.com/informd/informd/pkg/journal/jetstream/history"
)

// Store is the journal with the server, connection and lease below it. Its failures are those
// that only a restart of informd resolves. Methods may be called concurrently.
type Store struct {
	journal.Journal
	Logger *slog.Logger
	// Box is where the dead letters of that name are kept.
	Box func(name string) deliver.Box
	// Letters counts the dead letters by the name of their box, without empty boxes.
	Letters func(ctx context.Context) (map[string]uint64, error)
	// State reports whether the server below the journal works; nil without one. Stuck reports
	// whether only a restart helps; nil if that does not happen.
	State func() (ok bool, reason string)
	Stuck func() bool
	// removed reports whether the directory of the journal was removed; nil if it has none.
	removed func() bool
	// Health has the state of a journal in the user's server.
	health *Health
	// relay is nil while a journal in the user's server is not open.
	relay atomic.Pointer[relay.Journal]
	// Replaced is called when a journal in the user's server was opened again; nil at first.
	Replaced atomic.Pointer[func(lost bool)]
	// bind notes the cluster of the journal; nil if the journal does not keep that.
	bind func(ctx context.Context, clusterUID string) error
	// Cluster returns the UID of the cluster. The caller retries after an error.
	Cluster func(ctx context.Context) (uid string, err error)
	// History reads the kept events of an object; nil if the journal keeps none.
	History journal.History
	// Durable reports whether the journal survives a restart.
	Durable bool
	// Watched reports whether the object of an event is watched now, see [dynwatch.Covering].
	Watched atomic.Pointer[func(*event.Event) bool]

	binding sync.Mutex
	bound   bool
	// failed ends with the first failure that only a restart resolves, and with Close.
	failed context.Context //nolint:containedctx // has the failure as its cause
	fail   context.CancelCauseFunc
	close  []func() error // in the order in which to call them
}

// Open opens the journal of the config. With a nats journal it blocks while
// another informd writes to it; waiting is called with the name of that one.
func Open(ctx context.Context, c *config.Config, resources []dynwatch.Resource, logger *slog.Logger, h *Health, waiting func(holder string)) (*Store, error) {
	s := &Store{Logger: logger, health: h}
	s.failed, s.fail = context.WithCancelCause(context.WithoutCancel(ctx))
	if err := s.Watch(resources); err != nil {
		return nil, err
	}
	var err error
	switch c.Journal.Type {
	case config.JournalMemory:
		s.Journal = journal.NewMemory(uint64(c.Journal.MaxBytes))
		s.Box = func(name string) deliver.Box { return deliver.NewFileBox(c.Journal.Dir, name) }
		s.Letters = s.countFiled(c.Journal.Dir)
		if c.Journal.Forgotten {
			logger.Info("memory journal in use; --once ignores journal.dir", "max_bytes", c.Journal.MaxBytes)
		} else {
			logger.Info("memory journal in use; a restart takes a new snapshot", "max_bytes", c.Journal.MaxBytes)
		}
	case config.JournalLog:
		err = s.openLog(c)
	case config.JournalEmbedded:
		err = s.openEmbedded(ctx, c)
	default:
		err = s.openNATS(ctx, c, waiting)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	go s.followFailure()
	return s, nil
}

// diskConfig is the config of the log in journal.dir.
func diskConfig(c *config.Config, logger *slog.Logger) journal.DiskConfig {
	return journal.DiskConfig{
		Dir: c.Journal.Dir, Cluster: c.Cluster, MaxBytes: int64(c.Journal.MaxBytes), Sync: journal.Sync(c.Journal.Sync),
		HistoryPerObject: c.Journal.HistoryPerObject, DeletedRetention: c.Journal.DeletedRetention, Logger: logger,
	}
}

func (s *Store) openLog(c *config.Config) error {
	options := diskConfig(c, s.Logger)
	options.Watched = func(e *event.Event) bool { return (*s.Watched.Load())(e) }
	if err := os.MkdirAll(c.Journal.Dir, 0o700); err != nil {
		return fmt.Errorf("create journal.dir: %w", err)
	}
	j, err := journal.Open(options)
	if err != nil {
		return err
	}
	s.Journal, s.bind, s.Durable, s.History = j, j.Bind, true, j.History()
	s.State, s.Stuck, s.removed = j.State, j.Hung, j.Removed
	s.Box, s.Letters = func(name string) deliver.Box { return j.DeadLetters(name) }, j.LetterCounts
	s.Logger.Info("journal open", "dir", c.Journal.Dir, "count", s.Stats().Events)
	return nil
}

// countFiled returns what counts the dead letters of a memory journal. A file that cannot be
// read is in the log once.
func (s *Store) countFiled(dir string) func(context.Context) (map[string]uint64, error) {
	var logged sync.Map // paths
	counts := deliver.FiledCounts{Dir: dir, Unreadable: func(path string, err error) {
		if _, before := logged.LoadOrStore(path, true); !before {
			s.Logger.Warn("dead letters not counted; their file is unreadable", "path", path, "err", err)
		}
	}}
	return counts.Get
}

func (s *Store) openEmbedded(ctx context.Context, c *config.Config) error {
	if found, err := filepath.Glob(filepath.Join(c.Journal.Dir, "????????.????????.log")); err == nil && len(found) > 0 {
		return fmt.Errorf("journal.dir %s has a journal of type log, which an embedded one cannot read: "+
			"set journal.type: log, or another journal.dir, with which each resource begins with a snapshot", c.Journal.Dir)
	}
	server, err := embedded.Start(ctx, embedded.Config{
		Dir: c.Journal.Dir, Listen: c.Journal.Listen, Events: c.Journal.SubjectPrefix + ".>", MaxBytes: int64(c.Journal.MaxBytes),
		SyncAlways: c.Journal.SyncAlways, Stream: c.Journal.Stream, Logger: s.Logger,
	})
	if err != nil {
		return err
	}
	s.close = append(s.close, server.Close)
	s.State, s.Stuck, s.removed = server.State, server.Stuck, server.Removed
	damaged := server.Damaged()
	j, err := s.jetStream(ctx, c, jetstream.Config{
		Conn: server.Conn(), MaxBytes: server.MaxBytes(), Room: server.MaxBytes, OtherBytes: server.OtherBytes, Own: true, Distrust: damaged,
	})
	if err != nil {
		return err
	}
	s.Journal, s.bind, s.Durable = j, j.Bind, true
	s.History = historyOf(c, server.Conn(), s.Logger)
	s.Box, s.Letters = func(name string) deliver.Box { return j.Letters(name) }, j.LetterCounts
	open := s.Logger.With("dir", c.Journal.Dir, "count", s.Stats().Events)
	if url := server.URL(); url != "" {
		open = open.With("clients", url)
	}
	open.Info("journal open")
	if !damaged {
		return nil
	}
	s.Logger.Warn("journal was damaged; reconciling all targets", "dir", c.Journal.Dir, "reason", server.Damage())
	return server.MadeGood() // no mark counts any more on what was lost
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

// Restore implements [journal.Log]. Before the first target reads its past it is
// made sure that it is one of this cluster.
func (s *Store) Restore(ctx context.Context, target string, last func(event.Event)) (journal.Checkpoint, error) {
	if err := s.bindOnce(ctx); err != nil {
		return journal.Checkpoint{}, err
	}
	return s.Journal.Restore(ctx, target, last)
}

// Watch sets the resources that are watched from now on. The journal reads no states of others
// for a sink.
func (s *Store) Watch(resources []dynwatch.Resource) error {
	covers, err := dynwatch.Covering(resources)
	if err == nil {
		s.Watched.Store(&covers)
	}
	return err
}

func (s *Store) bindOnce(ctx context.Context) error {
	s.binding.Lock()
	defer s.binding.Unlock()
	if s.bound || s.bind == nil {
		return nil
	}
	uid, err := s.Cluster(ctx)
	if err != nil {
		return fmt.Errorf("identify the cluster of the API server: %w", err)
	}
	if uid != "" {
		if err := s.bind(ctx, uid); err != nil {
			if ctx.Err() == nil {
				s.fail(err)
			}
			return err
		}
	}
	s.bound = true
	return nil
}

// Failed implements [journal.Log]: the journal has failed, its lease is lost, or it is not that of
// the cluster.
func (s *Store) Failed() <-chan struct{} { return s.failed.Done() }

// Failure implements [journal.Log].
func (s *Store) Failure() error { return context.Cause(s.failed) }

// followFailure passes the failure of the journal on, until Close.
func (s *Store) followFailure() {
	select {
	case <-s.Journal.Failed():
		s.fail(s.Journal.Failure())
	case <-s.failed.Done():
	}
}

// Close closes the journal, then the server, connection and lease below it.
func (s *Store) Close() error {
	s.fail(journal.ErrClosed)
	var errs []error
	if s.Journal != nil {
		errs = append(errs, s.Journal.Close())
	}
	for _, end := range s.close {
		errs = append(errs, end())
	}
	return errors.Join(errs...)
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

package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/informd/informd/internal/config"
	"github.com/informd/informd/internal/replica"
	"github.com/informd/informd/pkg/dynwatch"
	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
)

// clusterJournal is the journal of an informd. Its failures are those that only a restart of informd resolves.
// Methods may be called concurrently.
type clusterJournal struct {
	*journal.Journal

	logger *slog.Logger
	// Cluster returns the UID of the cluster. The caller retries after an error.
	Cluster func(ctx context.Context) (uid string, err error)
	// Durable reports whether the journal survives a restart.
	Durable bool
	// SyncSeconds has how long each sync of the disk took.
	SyncSeconds prometheus.Histogram
	// watched reports whether the object of an event is watched now, see [dynwatch.Covering].
	watched atomic.Pointer[func(*event.Event) bool]

	binding sync.Mutex
	bound   bool
	// failed ends with the first failure that only a restart resolves, and with Close.
	failed context.Context //nolint:containedctx // has the failure as its cause
	fail   context.CancelCauseFunc
	// leading is nil without replicas.
	leading *replica.Leadership
}

// newSyncSeconds returns the histogram of [clusterJournal.SyncSeconds].
func newSyncSeconds() prometheus.Histogram {
	return prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "informd_journal_sync_seconds", Help: "Duration of syncs of the log to the disk in seconds; events of new objects wait for them.",
		Buckets: prometheus.ExponentialBuckets(0.000_5, 4, 9), // up to 33 s
	})
}

// openJournal opens the journal of the config.
func openJournal(ctx context.Context, c *config.Config, resources []dynwatch.Resource, logger *slog.Logger) (*clusterJournal, error) {
	s := &clusterJournal{logger: logger, SyncSeconds: newSyncSeconds()}
	s.failed, s.fail = context.WithCancelCause(context.WithoutCancel(ctx))
	if err := s.Watch(resources); err != nil {
		return nil, err
	}
	open := s.openLog
	if c.Journal.Type == config.JournalMemory {
		open = s.openTemporary
	}
	if err := open(c); err != nil {
		return nil, err
	}
	go s.followFailure()
	return s, nil
}

// logConfig is the config of the log in journal.dir.
func (s *clusterJournal) logConfig(c *config.Config) journal.Config {
	return journal.Config{
		Dir: c.Journal.Dir, Cluster: c.Cluster, MaxBytes: int64(c.Journal.MaxBytes), Sync: journal.Sync(c.Journal.Sync),
		HistoryPerObject: c.Journal.HistoryPerObject, DeletedRetention: c.Journal.DeletedRetention, Logger: s.logger,
		Synced: func(took time.Duration) { s.SyncSeconds.Observe(took.Seconds()) }, Watched: s.Watches,
	}
}

func (s *clusterJournal) openLog(c *config.Config) (err error) {
	if s.Journal, err = journal.Open(s.logConfig(c)); err != nil {
		return err
	}
	s.Durable = true
	s.logger.Info("journal open", "dir", c.Journal.Dir, "count", s.Stats().Events)
	return nil
}

// openTemporary opens a log that ends with the process: below journal.dir if that is set, or if the
// system's directory of temporary files cannot be used.
func (s *clusterJournal) openTemporary(c *config.Config) error {
	parent := ""
	if c.Journal.DirSet {
		parent = c.Journal.Dir
	}
	j, err := journal.OpenTemporary(parent, s.logConfig(c))
	if err != nil && parent == "" { // in a Pod, only journal.dir may be writable
		if inDir, dirErr := journal.OpenTemporary(c.Journal.Dir, s.logConfig(c)); dirErr == nil {
			j, err = inDir, nil
		}
	}
	if err != nil {
		return err
	}
	s.Journal = j
	s.logger.Info("memory journal open; a restart takes a new snapshot", "max_bytes", c.Journal.MaxBytes)
	return nil
}

// Restore implements [journal.Log]. Before the first target reads its past it is
// made sure that it is one of this cluster.
func (s *clusterJournal) Restore(ctx context.Context, target string, last func(event.Event)) (journal.Checkpoint, error) {
	if err := s.bindOnce(ctx); err != nil {
		return journal.Checkpoint{}, err
	}
	return s.Journal.Restore(ctx, target, last)
}

// Watch sets the resources that are watched from now on. The journal reads no states of others
// for a sink.
func (s *clusterJournal) Watch(resources []dynwatch.Resource) error {
	covers, err := dynwatch.Covering(resources)
	if err == nil {
		s.watched.Store(&covers)
	}
	return err
}

// Watches reports whether the object of an event is watched now.
func (s *clusterJournal) Watches(e *event.Event) bool { return (*s.watched.Load())(e) }

func (s *clusterJournal) bindOnce(ctx context.Context) error {
	s.binding.Lock()
	defer s.binding.Unlock()
	if s.bound {
		return nil
	}
	uid, err := s.Cluster(ctx)
	if err != nil {
		return fmt.Errorf("identify the cluster of the API server: %w", err)
	}
	if uid != "" {
		if err := s.Bind(ctx, uid); err != nil {
			if ctx.Err() == nil {
				s.fail(err)
			}
			return err
		}
	}
	s.bound = true
	return nil
}

// Lead makes the store that of the leader: followers copy its log from now on, and it fails when the lease
// is lost. Close releases the lease first.
func (s *clusterJournal) Lead(ctx context.Context, l *replica.Leadership) error {
	if err := l.Begin(ctx, s.Journal); err != nil {
		return err
	}
	s.leading = l
	go func() {
		<-l.Lost()
		s.fail(replica.ErrLost)
	}()
	return nil
}

// Failed implements [journal.Log]: the journal has failed, the lease is lost, or it is not that of the
// cluster.
func (s *clusterJournal) Failed() <-chan struct{} { return s.failed.Done() }

// Failure implements [journal.Log].
func (s *clusterJournal) Failure() error { return context.Cause(s.failed) }

// followFailure passes the failure of the journal on, until Close.
func (s *clusterJournal) followFailure() {
	select {
	case <-s.Journal.Failed():
		s.fail(s.Journal.Failure())
	case <-s.failed.Done():
	}
}

// Close releases the lease, and closes the journal.
func (s *clusterJournal) Close() error {
	s.fail(journal.ErrClosed)
	return errors.Join(release(s.leading), s.Journal.Close())
}

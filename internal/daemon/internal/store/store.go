package store

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
	"github.com/informd/informd/internal/deliver"
	"github.com/informd/informd/internal/relay"
	"github.com/informd/informd/internal/replica"
	"github.com/informd/informd/pkg/dynwatch"
	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
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
	// State reports whether the disk or server below the journal works. Stuck reports whether only
	// a restart helps; nil if that does not happen.
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
	// History reads the kept events of an object.
	History journal.History
	// Durable reports whether the journal survives a restart.
	Durable bool
	// SyncSeconds has how long each sync of the disk took. A nats journal has none.
	SyncSeconds prometheus.Histogram
	// Watched reports whether the object of an event is watched now, see [dynwatch.Covering].
	Watched atomic.Pointer[func(*event.Event) bool]

	binding sync.Mutex
	bound   bool
	// failed ends with the first failure that only a restart resolves, and with Close.
	failed context.Context //nolint:containedctx // has the failure as its cause
	fail   context.CancelCauseFunc
	close  []func() error // in the order in which to call them
	// leading is nil without replicas.
	leading *replica.Leadership
}

// NewSyncSeconds returns the histogram of [Store.SyncSeconds].
func NewSyncSeconds() prometheus.Histogram {
	return prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "informd_journal_sync_seconds", Help: "A second of a sync of the log to the disk; events of new objects wait for it.",
		Buckets: prometheus.ExponentialBuckets(0.000_5, 4, 9), // up to 33 s
	})
}

// Open opens the journal of the config. With a nats journal it blocks while
// another informd writes to it; waiting is called with the name of that one, and with "" when it has
// ended.
func Open(ctx context.Context, c *config.Config, resources []dynwatch.Resource, logger *slog.Logger, h *Health, waiting func(holder string)) (*Store, error) {
	s := &Store{Logger: logger, health: h, SyncSeconds: NewSyncSeconds()}
	s.failed, s.fail = context.WithCancelCause(context.WithoutCancel(ctx))
	if err := s.Watch(resources); err != nil {
		return nil, err
	}
	var err error
	switch c.Journal.Type {
	case config.JournalLog:
		err = s.openLog(c)
	case config.JournalMemory:
		err = s.openTemporary(c)
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

// diskConfig is that of a log that is written, too.
func (s *Store) diskConfig(c *config.Config) journal.DiskConfig {
	d := diskConfig(c, s.Logger)
	d.Synced = func(took time.Duration) { s.SyncSeconds.Observe(took.Seconds()) }
	d.Watched = func(e *event.Event) bool { return (*s.Watched.Load())(e) }
	return d
}

func (s *Store) openLog(c *config.Config) error {
	j, err := journal.Open(s.diskConfig(c))
	if err != nil {
		return err
	}
	s.use(j)
	s.Durable = true
	s.Logger.Info("journal open", "dir", c.Journal.Dir, "count", s.Stats().Events)
	return nil
}

// openTemporary opens a log that ends with the process: below journal.dir if that is set, or if the
// system's directory of temporary files cannot be used.
func (s *Store) openTemporary(c *config.Config) error {
	parent := ""
	if c.Journal.DirSet {
		parent = c.Journal.Dir
	}
	j, err := journal.OpenTemporary(parent, s.diskConfig(c))
	if err != nil && parent == "" { // in a Pod, only journal.dir may be writable
		if inDir, dirErr := journal.OpenTemporary(c.Journal.Dir, s.diskConfig(c)); dirErr == nil {
			j, err = inDir, nil
		}
	}
	if err != nil {
		return err
	}
	s.use(j)
	s.Logger.Info("memory journal open; a restart takes a new snapshot", "max_bytes", c.Journal.MaxBytes)
	return nil
}

// use makes the log the journal of the store.
func (s *Store) use(j *journal.Disk) {
	s.Journal, s.bind, s.History = j, j.Bind, j.History()
	s.State, s.Stuck, s.removed = j.State, j.Hung, j.Removed
	s.Box, s.Letters = func(name string) deliver.Box { return j.DeadLetters(name) }, j.LetterCounts
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

// Lead makes the store that of the leader: followers copy its log from now on, and it fails when the lease
// is lost. Close releases the lease first.
func (s *Store) Lead(ctx context.Context, l *replica.Leadership) error {
	log, ok := s.Journal.(*journal.Disk)
	if !ok {
		return errors.New("replicas need a log journal")
	}
	if err := l.Begin(ctx, log); err != nil {
		return err
	}
	s.leading = l
	go func() {
		<-l.Lost()
		s.fail(replica.ErrLost)
	}()
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

// releasing bounds the release of the lease, which else expires.
const releasing = 3 * time.Second

// Close closes the journal, then the server, connection and lease below it.
func (s *Store) Close() error {
	s.fail(journal.ErrClosed)
	var errs []error
	if s.leading != nil {
		ctx, cancel := context.WithTimeout(context.Background(), releasing)
		defer cancel()
		errs = append(errs, s.leading.Release(ctx))
	}
	if s.Journal != nil {
		errs = append(errs, s.Journal.Close())
	}
	for _, end := range s.close {
		errs = append(errs, end())
	}
	return errors.Join(errs...)
}

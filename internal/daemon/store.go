package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/informd/informd/internal/config"
	"github.com/informd/informd/internal/deliver"
	"github.com/informd/informd/internal/relay"
	"github.com/informd/informd/pkg/dynwatch"
	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
	"github.com/informd/informd/pkg/journal/embedded"
	"github.com/informd/informd/pkg/journal/jetstream"
	"github.com/informd/informd/pkg/journal/lease"
)

// store is the journal with what it stands on. It notices what only a new start
// can mend.
type store struct {
	journal.Journal
	logger *slog.Logger
	// box is where the dead letters of that name are kept.
	box func(name string) deliver.Box
	// letters counts the dead letters by the name of their box; empty boxes are not there.
	letters func(ctx context.Context) (map[string]uint64, error)
	// state says whether what is below the journal works; nil if nothing is there. Stuck
	// says whether only a new process helps; nil if that does not happen.
	state func() (ok bool, reason string)
	stuck func() bool
	// removed says whether the directory of the journal is gone; nil if it has none.
	removed func() bool
	// health has the state of a journal in the user's server.
	health *health
	// relay is nil while a journal in the user's server is not open.
	relay atomic.Pointer[relay.Journal]
	// replaced is called when such a journal was opened again; nil before that matters.
	replaced atomic.Pointer[func(lost bool)]
	// bind tells the journal which cluster it is of; nil if it does not keep that.
	bind func(ctx context.Context, clusterUID string) error
	// cluster finds that out: its error is one that may pass.
	cluster func(ctx context.Context) (uid string, err error)
	durable bool
	// watched says what is watched now, see [dynwatch.Covering]; set before it is asked.
	watched atomic.Pointer[func(*event.Event) bool]

	binding sync.Mutex
	bound   bool
	// failed has the first error that only a new start can mend.
	failed chan error
	close  []func() error // in the order in which to call them
}

// openStore opens the journal of the config. With a nats journal it blocks while
// another informd writes to it; waiting is called with the name of that one.
func openStore(ctx context.Context, c *config.Config, logger *slog.Logger, h *health, waiting func(holder string)) (*store, error) {
	s := &store{logger: logger, health: h, failed: make(chan error, 1)}
	if err := s.watch(c); err != nil {
		return nil, err
	}
	var err error
	switch c.Journal.Type {
	case config.JournalMemory:
		s.Journal = journal.NewMemory(uint64(c.Journal.MaxBytes))
		s.box = func(name string) deliver.Box { return deliver.NewFileBox(c.Journal.Dir, name) }
		s.letters = func(context.Context) (map[string]uint64, error) { return deliver.CountFiled(c.Journal.Dir) }
		if c.Journal.Forgotten {
			logger.Info("memory journal in use; --once ignores journal.dir", "max_bytes", c.Journal.MaxBytes)
		} else {
			logger.Info("memory journal in use; a restart takes a new snapshot", "max_bytes", c.Journal.MaxBytes)
		}
	case config.JournalEmbedded:
		err = s.openEmbedded(ctx, c)
	default:
		err = s.openNATS(ctx, c, waiting)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *store) openEmbedded(ctx context.Context, c *config.Config) error {
	server, err := embedded.Start(ctx, embedded.Config{
		Dir: c.Journal.Dir, Listen: c.Journal.Listen, Events: c.Journal.SubjectPrefix + ".>", MaxBytes: int64(c.Journal.MaxBytes),
		SyncAlways: c.Journal.SyncAlways, Stream: c.Journal.Stream, Logger: s.logger,
	})
	if err != nil {
		return err
	}
	s.close = append(s.close, server.Close)
	s.state, s.stuck, s.removed = server.State, server.Stuck, server.Removed
	damaged := server.Damaged()
	err = s.openJetStream(ctx, c, jetstream.Config{
		Conn: server.Conn(), MaxBytes: server.MaxBytes(), Room: server.MaxBytes, Own: true, Distrust: damaged,
	})
	if err != nil {
		return err
	}
	open := s.logger.With("dir", c.Journal.Dir, "count", s.Stats().Events)
	if url := server.URL(); url != "" {
		open = open.With("clients", url)
	}
	open.Info("journal open")
	if !damaged {
		return nil
	}
	s.logger.Warn("journal was damaged; reconciling all targets", "dir", c.Journal.Dir, "reason", server.Damage())
	return server.MadeGood() // no mark counts any more on what was lost
}

// openJetStream opens the journal in informd's own server.
func (s *store) openJetStream(ctx context.Context, c *config.Config, o jetstream.Config) error {
	j, err := s.jetStream(ctx, c, o)
	if err != nil {
		return err
	}
	s.Journal, s.bind, s.durable = j, j.Bind, true
	s.box, s.letters = func(name string) deliver.Box { return j.Letters(name) }, j.LetterCounts
	return nil
}

// jetStream opens a journal over a connection.
func (s *store) jetStream(ctx context.Context, c *config.Config, o jetstream.Config) (*jetstream.Journal, error) {
	o.Cluster, o.Stream, o.SubjectPrefix, o.Logger = c.Cluster, c.Journal.Stream, c.Journal.SubjectPrefix, s.logger
	o.HistoryPerObject, o.TombstoneTTL = int64(c.Journal.HistoryPerObject), c.Journal.DeletedRetention
	o.Watched = func(e *event.Event) bool { return (*s.watched.Load())(e) }
	var j *jetstream.Journal
	o.Unstorable = func(ctx context.Context, e *event.Event, reason error) error {
		return keepUnstorable(ctx, deliver.NewDeadLetters(config.SourceName, j.Letters(config.SourceName)), e, reason)
	}
	j, err := jetstream.Open(ctx, o)
	return j, err
}

// Restore implements [dynwatch.Log]. Before the first target reads its past it is
// made sure that it is one of this cluster.
func (s *store) Restore(ctx context.Context, target string, last func(event.Event)) ([]byte, error) {
	if err := s.bindOnce(ctx); err != nil {
		return nil, err
	}
	mark, err := s.Journal.Restore(ctx, target, last)
	s.notice(err)
	return mark, err
}

// Append implements [journal.Journal].
func (s *store) Append(ctx context.Context, events []event.Event) error {
	err := s.Journal.Append(ctx, events)
	s.notice(err)
	return err
}

// await waits for readers of the journal before history is appended.
func (s *store) await(ctx context.Context, events []event.Event) (int, error) {
	a, ok := s.Journal.(journal.Awaiter)
	if !ok {
		return len(events), nil
	}
	n, err := a.Await(ctx, events)
	s.notice(err)
	return n, err
}

// Mark implements [journal.Journal].
func (s *store) Mark(ctx context.Context, target string, note []byte) error {
	err := s.Journal.Mark(ctx, target, note)
	s.notice(err)
	return err
}

// Open implements [journal.Journal].
func (s *store) Open(name string, start journal.Start) (journal.Cursor, error) {
	c, err := s.Journal.Open(name, start)
	s.notice(err)
	if err != nil {
		return nil, err
	}
	return &storeCursor{c, s}, nil
}

// storeCursor notices what only a new start can mend where nothing is appended.
type storeCursor struct {
	journal.Cursor
	store *store
}

// Read implements [journal.Cursor].
func (c *storeCursor) Read(ctx context.Context, limit int) ([]journal.Entry, error) {
	entries, err := c.Cursor.Read(ctx, limit)
	c.store.notice(err)
	return entries, err
}

// Rewind implements [journal.Rewinder].
func (c *storeCursor) Rewind(ctx context.Context, since time.Time) (uint64, error) {
	if r, ok := c.Cursor.(journal.Rewinder); ok {
		return r.Rewind(ctx, since)
	}
	return 0, journal.ErrNotKept
}

// Resnapshot implements [journal.Resnapshotter].
func (c *storeCursor) Resnapshot(ctx context.Context, what journal.Resnapshot) error {
	if r, ok := c.Cursor.(journal.Resnapshotter); ok {
		return r.Resnapshot(ctx, what)
	}
	return journal.ErrNotKept
}

// KeepResnapshots implements [journal.ResnapshotKeeper].
func (c *storeCursor) KeepResnapshots(ctx context.Context, all []journal.Resnapshot) error {
	if k, ok := c.Cursor.(journal.ResnapshotKeeper); ok {
		return k.KeepResnapshots(ctx, all)
	}
	return journal.ErrNotKept
}

// KeptResnapshots implements [journal.ResnapshotKeeper].
func (c *storeCursor) KeptResnapshots(ctx context.Context) ([]journal.Resnapshot, error) {
	if k, ok := c.Cursor.(journal.ResnapshotKeeper); ok {
		return k.KeptResnapshots(ctx)
	}
	return nil, journal.ErrNotKept
}

// Note implements [journal.Noter].
func (c *storeCursor) Note() string {
	if n, ok := c.Cursor.(journal.Noter); ok {
		return n.Note()
	}
	return ""
}

// SetNote implements [journal.Noter].
func (c *storeCursor) SetNote(note string) {
	if n, ok := c.Cursor.(journal.Noter); ok {
		n.SetNote(note)
	}
}

// watch says what is watched from now on.
func (s *store) watch(c *config.Config) error {
	covers, err := dynwatch.Covering(wanted(c))
	if err == nil {
		s.watched.Store(&covers)
	}
	return err
}

func (s *store) bindOnce(ctx context.Context) error {
	s.binding.Lock()
	defer s.binding.Unlock()
	if s.bound || s.bind == nil {
		return nil
	}
	uid, err := s.cluster(ctx)
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

// notice looks for errors after which the journal can only be opened anew.
func (s *store) notice(err error) {
	if errors.Is(err, jetstream.ErrFenced) || errors.Is(err, jetstream.ErrLost) || errors.Is(err, lease.ErrLost) {
		s.fail(err)
	}
}

func (s *store) fail(err error) {
	select {
	case s.failed <- err:
	default: // the first one counts
	}
}

// Close closes the journal, then what it stands on.
func (s *store) Close() error {
	var errs []error
	if s.Journal != nil {
		errs = append(errs, s.Journal.Close())
	}
	for _, end := range s.close {
		errs = append(errs, end())
	}
	return errors.Join(errs...)
}

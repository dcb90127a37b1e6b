package wal

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/informd/informd/pkg/journal/internal/disk"
)

// syncEvery is the longest time that records wait for a sync.
const syncEvery = time.Second

// Syncer makes what was written durable, and writes index files. Its goroutine owns note.
type Syncer struct {
	monitor  *Monitor
	store    *store
	segments *segments
	barrier  *Barrier
	sealer   *sealer
	note     note
	synced   func(time.Duration) // see [Options]
	logger   *slog.Logger

	watch disk.Stopwatch     // of a sync in progress
	stop  context.CancelFunc // ends the goroutine
	ended chan struct{}      // it has ended
}

// begin starts the goroutine. The start of the log is over.
func (s *Syncer) begin() {
	s.store.starting = false
	var ctx context.Context
	ctx, s.stop = context.WithCancel(context.Background())
	go s.run(ctx)
}

// end returns when the goroutine has ended.
func (s *Syncer) end() {
	s.stop()
	<-s.ended
}

// run syncs at once while a hard record waits, and else each second, until ctx ends.
func (s *Syncer) run(ctx context.Context) {
	defer close(s.ended)
	ticker := time.NewTicker(syncEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.barrier.wake:
		case <-ticker.C:
		}
		if err := s.syncAndSeal(); err != nil && !errors.Is(err, ErrClosed) {
			s.logger.Error("journal not written any more; the process ends, and the next one continues", "err", s.monitor.FailDisk(err))
			return
		}
	}
}

func (s *Syncer) syncAndSeal() error {
	s.watch.Start()
	defer s.watch.Stop()
	err := s.monitor.Failure()
	if err == nil {
		err = s.syncAll()
	}
	if err == nil {
		err = s.sealer.sealAll()
	}
	return err
}

// Elapsed is for how long the syncing goroutine has not come to an end: because a sync or the write of an
// index file takes so long, or the write of an Append, which it waits for within a second. It never blocks.
func (s *Syncer) Elapsed() time.Duration { return s.watch.Elapsed() }

// syncAll makes everything durable that was written before the call.
func (s *Syncer) syncAll() error {
	s.monitor.mu.Lock()
	end, synced := s.segments.end(), s.barrier.synced
	if synced == end {
		s.monitor.mu.Unlock()
		return nil
	}
	var open []disk.File
	for _, f := range s.segments.all {
		if f.open != nil && f.Number >= synced.segment {
			open = append(open, f.open)
		}
	}
	s.barrier.syncTo = end
	s.monitor.mu.Unlock()

	if err := s.syncFiles(open, end.segment != synced.segment); err != nil {
		return fmt.Errorf("sync: %w", err)
	}
	if err := s.note.write(end); err != nil {
		return fmt.Errorf("note what is synced: %w", err)
	}
	s.monitor.mu.Lock()
	defer s.monitor.mu.Unlock()
	s.barrier.synced = end
	s.barrier.free()
	return nil
}

// syncFiles syncs files, and then the directory if one is new: it counts once its name is durable.
func (s *Syncer) syncFiles(open []disk.File, newFile bool) error {
	began := time.Now()
	for _, f := range open {
		if err := s.store.sync(f); err != nil {
			return err
		}
	}
	if newFile {
		if err := s.store.sync(s.store.dir); err != nil {
			return err
		}
	}
	if s.synced != nil {
		s.synced(time.Since(began))
	}
	return nil
}

// Sync returns when everything is durable that was written before the call.
func (s *Syncer) Sync(ctx context.Context) error {
	s.monitor.mu.Lock()
	end := s.segments.end()
	s.monitor.mu.Unlock()
	signal(s.barrier.wake)
	return s.monitor.waitFor(ctx, func() bool { return !s.barrier.synced.before(end) })
}

// finish makes all durable when nothing is written any more. With an index file of the last segment, the next start
// need not scan it.
func (s *Syncer) finish() error {
	err := s.syncAll()
	if err != nil {
		return err
	}
	if err = s.sealer.seal(s.segments.active()); disk.IsFull(err) {
		return nil
	}
	return errors.Join(err, s.store.sync(s.store.dir))
}

// closeFiles closes what is open. No other call may be in progress but reads.
func (s *Syncer) closeFiles() {
	s.monitor.mu.Lock()
	defer s.monitor.mu.Unlock()
	for _, f := range s.segments.all {
		f.close()
	}
	s.note.close()
}

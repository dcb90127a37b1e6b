package wal

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"time"

	"github.com/informd/informd/pkg/journal/internal/disk"
	"github.com/informd/informd/pkg/journal/internal/record"
	"github.com/informd/informd/pkg/journal/internal/segment"
)

// syncEvery is the longest time that records wait for a sync.
const syncEvery = time.Second

// syncedFile says up to where the log was synced: the id of the log, the number of the segment, its
// length, and a CRC32C. So a start tells damage from the end that a crash has cut off.
//
// It is written behind each sync, and synced itself only once: a power loss may leave an older place of this process.
// A place that is there was synced.
const (
	syncedFile = "synced"
	syncedSize = 16 + 4 + 8 + 4
)

// Syncer makes what was written durable, and writes index files. Its goroutine owns noting.
type Syncer struct {
	monitor  *Monitor
	store    *store
	segments *segments
	barrier  *Barrier
	keys     *Keys
	noting   disk.File           // of what is synced; nil before the first sync
	synced   func(time.Duration) // see [Options]
	logger   *slog.Logger

	// Watch is for how long the goroutine has not come to an end: because a sync or the write of an index file takes so
	// long, or the write of an Append, which it waits for within a second.
	Watch disk.Stopwatch
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
			s.monitor.Fail(diskFailed(err))
			s.logger.Error("journal not written any more; the process ends, and the next one continues", "err", s.monitor.Failure())
			return
		}
	}
}

func (s *Syncer) syncAndSeal() error {
	s.Watch.Start()
	defer s.Watch.Stop()
	err := s.monitor.Failure()
	if err == nil {
		err = s.syncAll()
	}
	if err == nil {
		err = s.sealAll()
	}
	return err
}

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
	if err := s.noteSynced(end); err != nil {
		return fmt.Errorf("note what is synced: %w", err)
	}
	s.monitor.mu.Lock()
	defer s.monitor.mu.Unlock()
	s.barrier.synced = end
	s.barrier.free()
	return nil
}

// noteSynced writes up to where all is synced, at first in a new file. On a full disk the place before stays.
func (s *Syncer) noteSynced(up place) error {
	b := append(make([]byte, 0, syncedSize), s.segments.id[:]...)
	b = binary.LittleEndian.AppendUint32(b, up.segment)
	b = binary.LittleEndian.AppendUint64(b, uint64(up.offset))
	b = binary.LittleEndian.AppendUint32(b, record.Checksum(b))
	first := s.noting == nil
	if first {
		if err := disk.Remove(s.store.dir, syncedFile); err != nil {
			return err
		}
		f, err := s.store.dir.Create(syncedFile)
		if err != nil {
			return unlessFull(err)
		}
		s.noting = f
	}
	_, err := s.noting.WriteAt(b, 0)
	s.store.written.Add(syncedSize)
	if first && err == nil {
		err = s.noting.Sync()
	}
	return unlessFull(err)
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
	Signal(s.barrier.wake)
	return s.monitor.waitFor(ctx, func() bool { return !s.barrier.synced.before(end) })
}

// finish makes all durable when nothing is written any more. With an index file of the last segment, the next start
// need not scan it.
func (s *Syncer) finish() error {
	err := s.syncAll()
	if err != nil {
		return err
	}
	if err = s.seal(s.segments.active()); disk.IsFull(err) {
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
	if s.noting != nil {
		_ = s.noting.Close()
		s.noting = nil
	}
}

// sealAll takes the lock, and writes the index files of synced segments that are not active.
func (s *Syncer) sealAll() error {
	for {
		s.monitor.mu.Lock()
		var sealed *file
		for _, f := range s.segments.all[:len(s.segments.all)-1] {
			if f.index != nil && f.end().before(s.barrier.synced) {
				sealed = f
				break
			}
		}
		s.monitor.mu.Unlock()
		if sealed == nil {
			return nil
		}
		if err := s.seal(sealed); err != nil {
			return unlessFull(err) // the index stays in memory until there is space
		}
	}
}

// seal takes the lock, writes the index file of a segment, and drops the index from memory.
func (s *Syncer) seal(f *file) error {
	s.monitor.mu.Lock()
	index := f.index
	bytes := s.encode(index, func(i int) place { return f.place(&index.Entries[i]) })
	s.monitor.mu.Unlock()
	if err := s.store.write(f.Index(), bytes); err != nil {
		return fmt.Errorf("write %s: %w", f.Index(), err)
	}
	s.monitor.mu.Lock()
	defer s.monitor.mu.Unlock()
	f.index, f.parts, f.sum = nil, index.Parts, index.Sum
	s.segments.version++
	f.close()
	return nil
}

// encode returns the bytes of an index file, of a segment whose records are at these places now. It is called with the
// lock held.
func (s *Syncer) encode(index *segment.Index, at func(i int) place) []byte {
	return index.Append(nil, func(i int) (string, bool) { return s.keepsHead(&index.Entries[i], at(i)) })
}

// keepsHead reports whether an index file has the head of a record at a place, and of which target: of the last record
// of its key. A power loss may take a record that is not synced, so those before that count, too. Until a start has
// written its own record, no other one gets into an index file: that one is missing must show. It is called with the
// lock held.
func (s *Syncer) keepsHead(e *segment.Entry, at place) (target string, ok bool) {
	last, is := s.keys.lastAt(e, at)
	if !last.exists() || !is && last.place().before(s.barrier.synced) || e.Kind == record.Start && s.store.starting {
		return "", false
	}
	if e.Kind.Keyed() {
		target = s.keys.targets.names[last.Target]
	}
	return target, true
}

// readNote reads what an earlier process has noted. What is not whole says nothing.
func readNote(d disk.Dir) (id [16]byte, up place, err error) {
	b, err := disk.Read(d, syncedFile, 0, syncedSize)
	if errors.Is(err, fs.ErrNotExist) {
		return id, up, nil
	}
	if err != nil || len(b) < syncedSize || record.Checksum(b[:28]) != binary.LittleEndian.Uint32(b[28:]) {
		return id, up, err
	}
	return [16]byte(b), place{binary.LittleEndian.Uint32(b[16:]), int64(binary.LittleEndian.Uint64(b[20:]))}, nil
}

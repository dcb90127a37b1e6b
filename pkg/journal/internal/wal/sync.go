package wal

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/informd/informd/pkg/journal/internal/disk"
	"github.com/informd/informd/pkg/journal/internal/record"
	"github.com/informd/informd/pkg/journal/internal/segment"
)

// syncEvery is the longest time that records wait for a sync.
const syncEvery = time.Second

// keepSynced syncs at once while a hard record waits, and else each second, until ctx ends.
func (l *Log) keepSynced(ctx context.Context) {
	defer close(l.ended)
	ticker := time.NewTicker(syncEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.wake:
		case <-ticker.C:
		}
		if err := l.syncAndSeal(); err != nil && !errors.Is(err, ErrClosed) {
			l.options.Logger.Error("journal not written any more; the process ends, and the next one continues", "err", l.fail(err))
			return
		}
	}
}

func (l *Log) syncAndSeal() error {
	l.syncing.Start()
	defer l.syncing.Stop()
	err := l.Failure()
	if err == nil {
		err = l.syncAll()
	}
	if err == nil {
		err = l.sealAll()
	}
	return err
}

// Syncing is for how long the syncing goroutine has not come to an end: because a sync or the write of an
// index file takes so long, or the write of an Append, which it waits for within a second. It never blocks.
func (l *Log) Syncing() time.Duration { return l.syncing.Elapsed() }

// withheld are writes with hard events that readers wait for, until everything before a place is synced and all followers
// have it.
type withheld struct {
	seq uint64 // the first hard event
	end place
	at  time.Time // of the last write
}

// withhold keeps an event, and those behind it, from readers until all that was written is durable. What no sync covers yet
// waits together.
func (l *Log) withhold(seq uint64) {
	end := l.active().end()
	if n := len(l.withheld); n > 0 && l.syncTo.before(l.withheld[n-1].end) {
		l.withheld[n-1].end, l.withheld[n-1].at = end, time.Now()
	} else {
		l.withheld = append(l.withheld, withheld{seq, end, time.Now()})
	}
	signal(l.wake)
}

// free lets readers have what they need not wait for any more. The lock must be held.
func (l *Log) free() {
	for len(l.withheld) > 0 && !l.synced.before(l.withheld[0].end) && len(l.behindOf(l.withheld[0].end)) == 0 {
		l.withheld = l.withheld[1:]
	}
	l.signal()
}

// harden makes the newest event a hard one, unless all is durable. The lock must be held.
func (l *Log) harden() {
	if end := l.active().end(); l.last > 0 && (l.synced != end || len(l.behindOf(end)) > 0) {
		l.withhold(l.last)
		l.signal()
	}
}

// syncAll makes everything durable that was written before the call.
func (l *Log) syncAll() error {
	l.mu.Lock()
	end := l.active().end()
	if l.synced == end {
		l.mu.Unlock()
		return nil
	}
	var open []disk.File
	for _, f := range l.files {
		if f.open != nil && f.Number >= l.synced.segment {
			open = append(open, f.open)
		}
	}
	newFile := end.segment != l.synced.segment
	l.syncTo = end
	l.mu.Unlock()

	if err := l.syncFiles(open, newFile); err != nil {
		return fmt.Errorf("sync: %w", err)
	}
	if err := l.noteSynced(end); err != nil {
		return fmt.Errorf("note what is synced: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.synced = end
	l.free()
	return nil
}

// syncFiles syncs files, and then the directory if one is new: it counts once its name is durable.
func (l *Log) syncFiles(open []disk.File, newFile bool) error {
	began := time.Now()
	for _, f := range open {
		if err := l.sync(f); err != nil {
			return err
		}
	}
	if newFile {
		if err := l.sync(l.dir); err != nil {
			return err
		}
	}
	if l.options.Synced != nil {
		l.options.Synced(time.Since(began))
	}
	return nil
}

// sync syncs a file or the directory. With [SyncNever], nothing is synced after the start, which is synced, so
// that no other start uses its sequences.
func (l *Log) sync(of interface{ Sync() error }) error {
	if l.syncs() {
		return of.Sync()
	}
	return nil
}

func (l *Log) syncs() bool { return l.options.Sync != SyncNever || l.starting() }

// Sync returns when everything is durable that was written before the call.
func (l *Log) Sync(ctx context.Context) error {
	l.mu.Lock()
	end := l.active().end()
	l.mu.Unlock()
	signal(l.wake)
	return l.waitFor(ctx, func() bool { return !l.synced.before(end) })
}

// create begins a new segment.
func (l *Log) create() error {
	header := segment.Header{ID: l.id, Secret: l.secret, Name: segment.Name{Number: 1}, First: l.last + 1}
	var before *segment.Index
	if len(l.files) > 0 {
		before = l.active().index
		header.Previous, header.Number = l.active().size, l.active().Through+1
	}
	for _, name := range l.broken {
		header.Number = max(header.Number, name.Number+1)
	}
	header.Through = header.Number
	open, err := l.dir.Create(header.Log())
	if err != nil {
		return err
	}
	if err := l.writeAt(open, header.Append(nil), 0); err != nil {
		return errors.Join(err, open.Close(), l.dir.Remove(header.Log()))
	}
	l.add(&file{Header: header, size: segment.HeaderSize, open: open, index: segment.NewIndex(header, before)})
	return nil
}

// add makes a segment the last of the log.
func (l *Log) add(f *file) {
	l.files, l.numbers[f.Number] = append(l.files, f), f
	l.bytes += f.size
	l.version++
}

// sealAll writes the index files of synced segments that are not active.
func (l *Log) sealAll() error {
	for {
		l.mu.Lock()
		var sealed *file
		for _, f := range l.files[:len(l.files)-1] {
			if f.index != nil && f.end().before(l.synced) {
				sealed = f
				break
			}
		}
		l.mu.Unlock()
		if sealed == nil {
			return nil
		}
		if err := l.seal(sealed); err != nil {
			return unlessFull(err) // the index stays in memory until there is space
		}
	}
}

// seal writes the index file of a segment, and drops the index from memory.
func (l *Log) seal(f *file) error {
	l.mu.Lock()
	index := f.index
	bytes := index.Append(nil, func(i int) (string, bool) { return l.keepsHead(&index.Entries[i], f.place(&index.Entries[i])) })
	l.mu.Unlock()
	if err := disk.Write(l.dir, f.Index(), bytes, l.syncs()); err != nil {
		return fmt.Errorf("write %s: %w", f.Index(), err)
	}
	l.written.Add(uint64(len(bytes)))
	l.mu.Lock()
	defer l.mu.Unlock()
	f.index, f.parts, f.sum = nil, index.Parts, index.Sum
	l.version++
	l.closeFile(f)
	return nil
}

// keepsHead reports whether an index file has the head of a record at a place, and of which target: of the last record
// of its key. A power loss may take a record that is not synced, so those before that count, too. Until a start has
// written its own record, no other one gets into an index file: that one is missing must show. The lock must be held.
func (l *Log) keepsHead(e *segment.Entry, at place) (target string, ok bool) {
	last := l.table.get(e.Key)
	if !last.exists() || last.place() != at && last.place().before(l.synced) || e.Kind == record.Start && l.starting() {
		return "", false
	}
	if e.Kind.Keyed() {
		target = l.targets.names[last.Target]
	}
	return target, true
}

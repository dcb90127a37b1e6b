package wal

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/informd/informd/pkg/journal/internal/disk"
	"github.com/informd/informd/pkg/journal/internal/keys"
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

// holdBack keeps an event, and those behind it, from readers until it is synced.
func (l *Log) holdBack(seq uint64) {
	if l.hard == 0 {
		l.hard = seq
	}
	if l.nextHard == 0 {
		l.nextHard = seq
	}
}

// harden makes the newest event a hard one, unless all is durable. The lock must be held.
func (l *Log) harden() {
	end := l.active().end()
	if l.synced != end {
		l.holdBack(l.last)
		signal(l.wake)
	}
	if len(l.behindOf(end)) > 0 {
		l.waitForFollowers(l.last, end)
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
	l.nextHard = 0
	l.mu.Unlock()

	if err := l.syncFiles(open, newFile); err != nil {
		return fmt.Errorf("sync: %w", err)
	}
	if err := l.noteSynced(end); err != nil {
		return fmt.Errorf("note what is synced: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.synced = end; end == l.active().end() {
		l.nextHard = 0 // of harden, whose event this sync has covered
	}
	l.hard = l.nextHard
	l.signal()
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

func (l *Log) syncs() bool { return l.options.Sync != SyncNever || l.stop == nil }

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
		if err := l.seal(sealed); disk.IsFull(err) {
			return nil // the index stays in memory until there is space
		} else if err != nil {
			return err
		}
	}
}

// seal writes the index file of a segment, and drops the index from memory.
func (l *Log) seal(f *file) error {
	l.mu.Lock()
	index := f.index
	heads := l.headsToKeep(f, index)
	bytes := index.Append(nil, func(i int) (string, bool) { return heads[i].target, heads[i].keep })
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

// keptHead says whether an index file has the head of a record, and the target of an event.
type keptHead struct {
	keep   bool
	target string
}

// headsToKeep tells which heads the index file of a segment has: those of last records, and what a
// start reads in full. A power loss may take a record that is not synced, so the one before that
// counts as the last, too. The lock must be held.
func (l *Log) headsToKeep(f *file, index *segment.Index) []keptHead {
	heads := make([]keptHead, len(index.Entries))
	found := map[keys.Hash]bool{} // of keys whose last record is not synced
	for i := len(heads) - 1; i >= 0; i-- {
		e := &index.Entries[i]
		last := l.table.Get(e.Key)
		switch {
		case last == nil:
		case placeOf(last) == f.place(e):
			heads[i].keep = true
		case !placeOf(last).before(l.synced) && !found[e.Key]:
			heads[i].keep, found[e.Key] = true, true
		}
		if heads[i].keep && e.Kind.Keyed() {
			heads[i].target = l.targets.names[last.Target]
		}
	}
	return heads
}

func placeOf(e *keys.Entry) place { return place{e.Segment, int64(e.Offset)} }

package jetstream

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	js "github.com/nats-io/nats.go/jetstream"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal/jetstream/internal/record"
	"github.com/informd/informd/pkg/journal/jetstream/internal/scan"
)

// metaCreator is a stream's metadata with the writer that has created the stream.
const metaCreator = "informd-creator"

// metaReplaces is the metadata of a stream that was created in place of one that was missing.
// A process that dies before it has declared the loss leaves that to the next one.
const metaReplaces = "informd-replaces"

// replacesFor is how long after its creation such a stream tells that of targets without a
// mark. Later ones are new in the config.
const replacesFor = time.Hour

// A process that finds its streams deleted, emptied or replaced opens the journal again:
// [Config.Replaces]. The new journal inherits from the old one:
//   - for every target a mark that says "lost", if the state stream is new. A process that
//     dies before it has announced all objects again leaves that mark to its successor;
//   - the positions of sinks, if the state stream is new and the stream of events is not;
//   - the re-snapshots of sinks that are not complete, if the state stream is new;
//   - nothing else: the caller appends [Journal.Unread] and announces all objects again.

// Continues reports whether the journal has all events of the one that it replaces:
// only the stream of states was missing, or none was.
func (j *Journal) Continues() bool {
	old := j.config.Replaces
	return old != nil && errors.Is(old.Failure(), ErrMissing) && j.created.Equal(old.created) && j.found >= old.log.Tail.End()
}

// Created is when the stream of events was created.
func (j *Journal) Created() time.Time { return j.created }

// Owned returns [ErrFenced] if another process has opened the journal since this one did.
// Opening claims all records of the state stream; this process has written the newest one
// if no other process has. A message without a writer is no record: an operator wrote it.
// Without records, the process that has created the stream of events again is the writer.
func (j *Journal) Owned(ctx context.Context) error {
	info, err := j.log.Requests.Info(ctx, j.state)
	switch {
	case errors.Is(err, js.ErrStreamNotFound):
		return j.ownsEvents(ctx)
	case err != nil:
		return err
	}
	var m scan.Message
	if info.State.LastSeq > 0 {
		err = j.log.Requests.Do(ctx, func(ctx context.Context) (err error) {
			m, err = j.state.MessageAt(ctx, info.State.LastSeq)
			return err
		})
	}
	switch writer := m.Value(record.HeaderWriter); {
	case err != nil:
		return err
	case writer != "" && writer != j.records.Writer:
		return fmt.Errorf("%w: it wrote record %s", ErrFenced, m.Subject)
	case writer == "" || errors.Is(j.log.Loss(), ErrMissing):
		return j.ownsEvents(ctx)
	}
	return nil
}

// ownsEvents returns [ErrFenced] if another informd has created the stream of events in
// place of the one that this journal has opened.
func (j *Journal) ownsEvents(ctx context.Context) error {
	info, err := j.log.Requests.Info(ctx, j.log.Stream)
	switch {
	case errors.Is(err, js.ErrStreamNotFound):
		return nil
	case err != nil || info.Created.Equal(j.created):
		return err
	}
	if creator := info.Config.Metadata[metaCreator]; creator != "" && creator != j.records.Writer {
		return fmt.Errorf("%w: it created stream %s again", ErrFenced, j.config.Stream)
	}
	return nil
}

// createdHere reports whether this process has created the stream of events for this
// journal, even if the server's answer was lost.
func (j *Journal) createdHere(info *js.StreamInfo) bool {
	old := j.config.Replaces
	return info.Config.Metadata[metaCreator] == j.records.Writer && (old == nil || !info.Created.Equal(old.created))
}

// replaces reports whether the stream of events took the place of a missing one a short while
// ago.
func (j *Journal) replaces(info *js.StreamInfo) bool {
	return j.config.Existed && (j.createdHere(info) || info.Config.Metadata[metaReplaces] != "" && time.Since(info.Created) < replacesFor)
}

// Unread returns the newest events that an open cursor has not committed, oldest first, as
// far as they are still in memory. It works on a closed journal.
func (j *Journal) Unread() []event.Event {
	passed := j.log.Tail.End()
	for _, c := range j.openCursors() {
		c.mu.Lock()
		passed = min(passed, c.record.Last)
		c.mu.Unlock()
	}
	return j.log.Tail.Behind(passed)
}

// saveMissing writes a record if its key has none.
func (j *Journal) saveMissing(ctx context.Context, key string, record any) error {
	m, err := j.state.LastMessage(ctx, key)
	if err != nil || m.Seq != 0 {
		return err
	}
	return j.save(ctx, key, record)
}

// inheritTargets writes a mark that says "lost" for every target that has none and had
// one in the journal that this one replaces.
func (j *Journal) inheritTargets(ctx context.Context) error {
	if j.config.Replaces == nil {
		return nil
	}
	old := j.config.Replaces
	for _, key := range old.records.Keys(j.records.Target("")) {
		lost := record.Target{Place: record.Place{Created: old.created}, Lost: true, LostUpTo: old.lostUpTo[key]}
		if err := j.saveMissing(ctx, key, lost); err != nil {
			return err
		}
	}
	return nil
}

// inheritPositions writes the positions of sinks that have none, if they are positions in
// this stream of events.
func (j *Journal) inheritPositions(ctx context.Context) error {
	old := j.config.Replaces
	if old == nil || !j.Continues() {
		return nil
	}
	old.mu.Lock()
	positions := maps.Clone(old.absent)
	old.mu.Unlock()
	for _, c := range old.openCursors() {
		c.mu.Lock()
		if !c.record.Created.IsZero() { // else it is being opened
			positions[j.records.Sink(c.name)] = c.record
		}
		c.mu.Unlock()
	}
	for key, position := range positions {
		if err := j.saveMissing(ctx, key, position); err != nil {
			return err
		}
	}
	return nil
}

// inheritRequests writes the re-snapshots that are not complete where there is no record.
func (j *Journal) inheritRequests(ctx context.Context) error {
	old := j.config.Replaces
	if old == nil {
		return nil
	}
	old.mu.Lock()
	pending := maps.Clone(old.pending)
	old.mu.Unlock()
	for key, kept := range pending {
		if err := j.saveMissing(ctx, key, kept); err != nil {
			return err
		}
		j.notePending(key, kept)
	}
	return nil
}

// notePending remembers what a record of re-snapshots has.
func (j *Journal) notePending(key string, kept requests) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(kept.Requests) == 0 {
		delete(j.pending, key)
	} else {
		j.pending[key] = kept
	}
}

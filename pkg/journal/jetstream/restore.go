package jetstream

import (
	"context"
	"log/slog"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
	"github.com/informd/informd/pkg/journal/jetstream/internal/conflict"
	"github.com/informd/informd/pkg/journal/jetstream/internal/lastindex"
	"github.com/informd/informd/pkg/journal/jetstream/internal/record"
	"github.com/informd/informd/pkg/journal/jetstream/internal/scan"
	"github.com/informd/informd/pkg/journal/jetstream/internal/server"
)

// Restore implements [journal.Journal]. It tries for as long as it takes.
func (j *Journal) Restore(ctx context.Context, target string, last func(e event.Event)) (journal.Checkpoint, error) {
	if err := j.log.Usable(ctx); err != nil {
		return journal.Checkpoint{}, err
	}
	filter, err := j.config.targetSubjects(target)
	if err != nil {
		return journal.Checkpoint{}, err
	}
	bounded, cancel := j.log.Within(ctx)
	defer cancel()
	m, err := j.checkpoint(bounded, target)
	if err != nil {
		return journal.Checkpoint{}, j.log.Cause(ctx, err)
	}
	if err := j.restoreObjects(bounded, filter, last); err != nil {
		return journal.Checkpoint{}, j.log.Cause(ctx, err)
	}
	if m.Mark == nil {
		return journal.Checkpoint{Mark: m.Void, Void: m.Lost || j.replaced}, nil
	}
	void := !m.Holds(j.here())
	if void {
		j.log.Lost.Add(1)
		j.log.Logger.Error("journal lost acknowledged events; reconciling the target", slog.String("target", target),
			slog.Uint64("expected_seq", m.Last), slog.Uint64("seq", j.log.Tail.End()), slog.String("next", conflict.CheckStorage))
	}
	return journal.Checkpoint{Mark: m.Mark, Void: void}, nil
}

// Checkpointed reports whether a target has a valid checkpoint: since the checkpoint, also in earlier
// processes, the log has lost no acknowledged event. It asks the server, and blocks while that does
// not answer. The error is that of ctx or of the journal.
func (j *Journal) Checkpointed(ctx context.Context, target string) (bool, error) {
	if err := j.log.Usable(ctx); err != nil {
		return false, err
	}
	bounded, cancel := j.log.Within(ctx)
	defer cancel()
	m, err := j.checkpoint(bounded, target)
	return len(m.Mark) > 0 && m.Holds(j.here()), j.log.Cause(ctx, err)
}

// checkpoint reads the record of a target, which is empty if there is none.
func (j *Journal) checkpoint(ctx context.Context, target string) (m record.Target, err error) {
	err = j.log.Requests.Repeat(ctx, j.asking, func(ctx context.Context) error {
		_, err := j.records.Load(ctx, j.records.Target(target), &m)
		return err
	})
	if err == nil && len(m.Mark) > 0 && !m.Holds(j.here()) {
		j.look(ctx) // another process may have appended since Open
	}
	return m, err
}

// restoreObjects calls last for what the subjects of the filter end with, and
// remembers the sequences.
func (j *Journal) restoreObjects(ctx context.Context, filter string, last func(e event.Event)) error {
	done := uint64(0)
	return server.RetryUnbounded(ctx, j.asking, func(ctx context.Context) error {
		return j.log.Stream.EachLast(ctx, []string{filter}, 0, func(m scan.Message) error {
			if m.Seq <= done {
				return nil // seen before the connection was lost
			}
			done = m.Seq
			if e, ok := j.log.Messages.Identify(m); ok {
				j.log.Subjects.Set(j.log.Subjects.Hash(m.Subject), lastindex.Entry{Seq: m.Seq, ID: j.log.Subjects.Hash(e.ID), Ends: e.Op.Ends()})
				last(e)
			}
			return nil
		})
	})
}

package jetstream

import (
	"context"
	"log/slog"

	"github.com/informd/informd/pkg/event"
)

// scanBatch is how many headers are asked for at a time.
const scanBatch = 2000

// Restore implements [journal.Journal]. It tries for as long as it takes.
func (j *Journal) Restore(ctx context.Context, target string, last func(e event.Event)) ([]byte, error) {
	if err := j.usable(ctx); err != nil {
		return nil, err
	}
	filter, err := j.config.targetSubjects(target)
	if err != nil {
		return nil, err
	}
	bounded, cancel := j.within(ctx)
	defer cancel()
	var m mark
	err = j.retrySoon(bounded, j.asking, func(ctx context.Context) error {
		_, err := j.load(ctx, j.targetKey(target), &m)
		return err
	})
	if err != nil {
		return nil, j.cause(ctx, err)
	}
	if err := j.restoreObjects(bounded, filter, last); err != nil {
		return nil, j.cause(ctx, err)
	}
	if len(m.Mark) > 0 && !m.holds(j.here()) {
		j.look(bounded) // another process may have appended since Open
	}
	if m.Mark == nil && (m.Lost || j.replaced) {
		m.Mark = []byte{}
	}
	if len(m.Mark) > 0 && !m.holds(j.here()) {
		j.lost.Add(1)
		j.logger.Error("journal lost acknowledged events; reconciling the target", slog.String("target", target),
			slog.Uint64("expected_seq", m.Last), slog.Uint64("seq", j.tail.end()), slog.String("next", checkStorage))
		m.Mark = []byte{}
	}
	return m.Mark, nil
}

// restoreObjects calls last for what the subjects of the filter end with, and
// remembers the sequences.
func (j *Journal) restoreObjects(ctx context.Context, filter string, last func(e event.Event)) error {
	done := uint64(0)
	each := func(m message) {
		if m.seq <= done {
			return // seen before the connection was lost
		}
		done = m.seq
		e, ok := j.identify(m)
		if !ok {
			return
		}
		j.heads.set(j.heads.hash(m.Subject), head{seq: m.seq, id: j.heads.hash(e.ID), ends: e.Op.Ends()})
		last(e)
	}
	return j.persevere(ctx, j.asking, func(ctx context.Context) error {
		return j.eachLast(ctx, []string{filter}, func(m message) error {
			each(m)
			return nil
		})
	})
}

// eachLast calls do with the headers of the last message of every subject that the
// filters match, in the order of the log.
func (j *Journal) eachLast(ctx context.Context, filters []string, do func(m message) error) error {
	l := &lasts{journal: j, filters: filters, headers: true, batch: scanBatch}
	defer l.close(ctx)
	for {
		found, through, err := l.next(ctx)
		if err != nil {
			return err
		}
		for _, m := range found {
			if err := do(m); err != nil {
				return err
			}
		}
		if through {
			return nil
		}
	}
}

// persevere is retry for work without a bound in time, which bounds its parts
// itself.
func (j *Journal) persevere(ctx context.Context, t *trouble, do func(ctx context.Context) error) error {
	var pause backoff
	for {
		err := do(ctx)
		if err == nil {
			t.over()
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		t.begin(err)
		if err := pause.wait(ctx); err != nil {
			return err
		}
	}
}

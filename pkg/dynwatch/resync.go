package dynwatch

import (
	"context"
	"errors"

	"github.com/informd/informd/pkg/dynwatch/internal/frame"
	"github.com/informd/informd/pkg/dynwatch/internal/index"
	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
	"github.com/informd/informd/pkg/dynwatch/internal/recovery"
)

// resync has what has fallen due read.
func (t *resnapshotter) resync(ctx context.Context) {
	r := &t.schedule
	if r.Late() {
		t.logger.Warn("scheduled re-snapshot is late", "resnapshot_every", t.spec.resync,
			"next", "raise resnapshotEvery, or make the sinks faster")
	}
	ready, wait := r.Look(t.index)
	if len(ready) == 0 {
		t.lookAgain(wait)
		return
	}
	objects := make([]index.ID, len(ready)) // the index is not for the reader
	for i, d := range ready {
		e := t.index.ByHandle(d.Entry)
		objects[i].Namespace, objects[i].Name = t.index.Namespace(e), t.index.Name(e)
	}
	source := t.source
	t.read(ctx, func(ctx context.Context, take func(present) error) (uint64, error) {
		for _, o := range objects {
			p, err := presentOf(ctx, source, o.Namespace, o.Name)
			if err == nil {
				err = take(p)
			}
			if err != nil {
				return 0, err
			}
		}
		return 0, nil
	})
}

// presentOf reads an object of the selection by name.
func presentOf(ctx context.Context, s *listwatch.Source, namespace, name string) (p present, err error) {
	p.object, p.there, p.at, err = s.MatchBy(ctx, namespace, name, 0)
	if bad, ok := errors.AsType[*frame.Malformed](err); ok {
		return present{bad: bad}, nil
	}
	return p, err
}

// resynced announces the first of the queue anew, unless the watch has told or will
// tell something else of it.
func (t *resnapshotter) resynced(ctx context.Context, p *present) error {
	r := &t.schedule
	d := r.First()
	if o := &p.object; p.there {
		var against recovery.Contradictions
		against.Note(t.index, t.index.Get(o.Namespace, o.Name), listwatch.ListedOf(o))
		if err := t.checkHistory(ctx, &against, p.at); err != nil {
			return err
		}
	}
	if e := t.index.ByHandle(d.Entry); e != nil && p.there && t.isLast(&p.object, e) {
		if err := t.announceAgain(ctx, &p.object, e, r.Run(d.At)); err != nil {
			return err
		}
	}
	r.Done()
	t.marks.Soon()
	return nil
}

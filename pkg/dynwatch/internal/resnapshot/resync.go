package resnapshot

import (
	"context"
	"errors"

	"github.com/informd/informd/pkg/dynwatch/internal/frame"
	"github.com/informd/informd/pkg/dynwatch/internal/index"
	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
	"github.com/informd/informd/pkg/dynwatch/internal/recovery"
)

// resync has what has fallen due read.
func (t *Repeater) resync(ctx context.Context) {
	r := &t.Schedule
	if r.Late() {
		t.Logger.Warn("scheduled re-snapshot is late", "resnapshot_every", t.Spec.Resync,
			"next", "raise resnapshotEvery, or make the sinks faster")
	}
	ready, wait := r.Look(t.Index)
	if len(ready) == 0 {
		t.lookAgain(wait)
		return
	}
	objects := make([]index.ID, len(ready)) // the index is not for the reader
	for i, d := range ready {
		e := t.Index.ByHandle(d.Entry)
		objects[i].Namespace, objects[i].Name = t.Index.Namespace(e), t.Index.Name(e)
	}
	source := t.Source
	t.read(ctx, func(ctx context.Context, take func(Object) error) (uint64, error) {
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
func presentOf(ctx context.Context, s *listwatch.Source, namespace, name string) (p Object, err error) {
	p.object, p.there, p.at, err = s.MatchBy(ctx, namespace, name, 0)
	if errors.Is(err, listwatch.ErrUnselected) {
		p.object, p.there, p.at, err = s.LookAmong(ctx, namespace, name)
	}
	if bad, ok := errors.AsType[*frame.Malformed](err); ok {
		return Object{bad: bad}, nil
	}
	return p, err
}

// leaveOut removes an object from the queue after resnapshotAttempts failed reads, so that
// later objects do not wait for it.
func (t *Repeater) leaveOut(err error) {
	d := t.Schedule.First()
	if d != t.failing {
		t.failing, t.failures = d, 0
	}
	if t.failures++; t.failures < resnapshotAttempts {
		return
	}
	if e := t.Index.ByHandle(d.Entry); e != nil {
		t.Logger.Warn("object unreadable; left out of the scheduled re-snapshot",
			"namespace", t.Index.Namespace(e), "name", t.Index.Name(e), "err", err)
	}
	t.Schedule.Done()
	t.Marks.Soon()
}

// resynced announces the first of the queue anew, unless the watch has told or will
// tell something else of it.
func (t *Repeater) resynced(ctx context.Context, p *Object) error {
	r := &t.Schedule
	d := r.First()
	if o := &p.object; p.there {
		var against recovery.Contradictions
		against.Note(t.Index, t.Index.Get(o.Namespace, o.Name), listwatch.ListedOf(o))
		if err := t.CheckHistory(ctx, &against, p.at); err != nil {
			return err
		}
	}
	if e := t.Index.ByHandle(d.Entry); e != nil && p.there && t.isLast(&p.object, e) {
		if err := t.announceAgain(ctx, &p.object, e, r.Run(d.At)); err != nil {
			return err
		}
	}
	r.Done()
	t.Marks.Soon()
	return nil
}

package dynwatch

import (
	"context"
	"errors"
	"slices"

	"k8s.io/apimachinery/pkg/watch"

	"github.com/informd/informd/pkg/dynwatch/internal/frame"
	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
	"github.com/informd/informd/pkg/dynwatch/internal/selection"
)

// tellLeftOut tells what frames said that were left out, as etcd has it, oldest first.
// It returns the revision up to which all is told.
func (t *namespacer) tellLeftOut(ctx context.Context, frames []selection.LeftFrame, from uint64) (told uint64, err error) {
	defer t.await.history()()
	told = from
	for _, f := range frames {
		if f.RV <= from {
			continue
		}
		if err := t.tellLeft(ctx, f); err != nil {
			return told, err
		}
		if err := t.Flush(ctx); err != nil {
			return told, err
		}
		told = f.RV - 1 // more may have ended at that revision
	}
	return told, nil
}

func (t *namespacer) tellLeft(ctx context.Context, f selection.LeftFrame) error {
	t.status.progressNow()
	e := t.index.Get(f.Namespace, f.Name)
	if f.Kind == watch.Deleted {
		if e == nil || e.RV >= f.RV {
			return nil
		}
		return t.endAt(ctx, e, f.RV)
	}
	o, ok, err := t.source.ObjectAt(ctx, f.Namespace, f.Name, f.RV)
	if bad, isBad := errors.AsType[*frame.Malformed](err); isBad {
		return t.rejectFrame(ctx, f.Kind, bad)
	}
	if err == nil && (!ok || o.ResourceVersion != f.RV) {
		err = listwatch.ErrInexact
	}
	if err != nil {
		return err
	}
	return t.applyState(ctx, f.Kind, &o)
}

// explained reports whether the index tells all that frames did: they were of new
// objects, which have not changed since.
func (t *decider) explained(frames []selection.LeftFrame) bool {
	return !slices.ContainsFunc(frames, func(f selection.LeftFrame) bool {
		e := t.index.Get(f.Namespace, f.Name)
		return f.Kind != watch.Added || e == nil || e.RV != f.RV
	})
}

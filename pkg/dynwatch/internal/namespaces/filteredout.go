package namespaces

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/watch"

	"github.com/informd/informd/pkg/dynwatch/internal/frame"
	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
	"github.com/informd/informd/pkg/dynwatch/internal/selection"
)

// tellLeftOut tells what frames said that were left out, as etcd has it, oldest first.
// It returns the revision up to which all is told.
func (t *Follower) tellLeftOut(ctx context.Context, frames []selection.LeftFrame, from uint64) (told uint64, err error) {
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

func (t *Follower) tellLeft(ctx context.Context, f selection.LeftFrame) error {
	t.Status.Progressed()
	e := t.Index.Get(f.Namespace, f.Name)
	if f.Kind == watch.Deleted {
		if e == nil || e.RV >= f.RV {
			return nil
		}
		return t.EndAt(ctx, e, f.RV)
	}
	o, ok, err := t.Source.MatchAt(ctx, f.Namespace, f.Name, f.RV)
	if bad, isBad := errors.AsType[*frame.Malformed](err); isBad {
		return t.RejectFrame(ctx, f.Kind, bad)
	}
	if err == nil && (!ok || o.ResourceVersion != f.RV) {
		err = listwatch.ErrInexact
	}
	if err != nil {
		return err
	}
	return t.ApplyEarlier(ctx, &o)
}

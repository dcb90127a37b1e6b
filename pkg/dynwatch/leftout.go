package dynwatch

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/watch"

	"github.com/informd/informd/pkg/dynwatch/internal/frame"
	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
)

// keptFrames is how many frames that were left out are remembered at least.
const keptFrames = 1000

// leftFrame is a frame of a namespace that was not covered when it came.
type leftFrame struct {
	kind            watch.EventType
	namespace, name string
	rv              uint64
}

// leftOut are the frames of namespaces that labels may yet show to have been covered
// when they came: the watch of the Namespaces may be behind. The zero value knows
// nothing.
type leftOut struct {
	// since: what was left out up to there is not known.
	since uint64
	// last is the newest revision that was left out of each namespace.
	last map[string]uint64
	// told is up to where frames were told of each namespace that is not covered any
	// more.
	told map[string]uint64
	// frames are the newest of them, oldest first; dropped is the revision of the
	// newest that is not among them any more.
	frames  []leftFrame
	dropped uint64
}

// forget begins anew at a revision.
func (l *leftOut) forget(since uint64) { *l = leftOut{since: since} }

// add notes a frame.
func (l *leftOut) add(f leftFrame) {
	if l.last == nil {
		l.last = make(map[string]uint64)
	}
	f.namespace, f.name = strings.Clone(f.namespace), strings.Clone(f.name) // they are slices of something larger
	l.last[f.namespace] = f.rv
	if len(l.frames) == 2*keptFrames {
		l.dropped = l.frames[keptFrames-1].rv
		l.frames = l.frames[:copy(l.frames, l.frames[keptFrames:])]
	}
	l.frames = append(l.frames, f)
}

// begin notes that what comes of a namespace after a revision is left out.
func (l *leftOut) begin(namespace string, told uint64) {
	if l.told == nil {
		l.told = make(map[string]uint64)
	}
	l.told[namespace] = told
}

// prune lets go of what no change of a Namespace after a revision can concern.
func (l *leftOut) prune(at uint64) {
	past := func(_ string, rv uint64) bool { return rv <= at }
	maps.DeleteFunc(l.last, past)
	maps.DeleteFunc(l.told, past)
	if len(l.last) == 0 {
		l.frames = l.frames[:0]
	}
}

// of returns what was left out of a namespace after a revision; false if not all of
// it is known.
func (l *leftOut) of(namespace string, after uint64) (frames []leftFrame, known bool) {
	switch {
	case after < l.since:
		return nil, false
	case l.last[namespace] <= after:
		return nil, true
	case after < l.dropped:
		return nil, false
	}
	for _, f := range l.frames {
		if f.namespace == namespace && f.rv > after {
			frames = append(frames, f)
		}
	}
	return frames, true
}

// tellLeftOut tells what frames said that were left out, as etcd has it, oldest first.
// It returns the revision up to which all is told.
func (t *target) tellLeftOut(ctx context.Context, frames []leftFrame, from uint64) (told uint64, err error) {
	defer t.await.history()()
	told = from
	for _, f := range frames {
		if f.rv <= from {
			continue
		}
		if err := t.tellLeft(ctx, f); err != nil {
			return told, err
		}
		if err := t.flush(ctx); err != nil {
			return told, err
		}
		told = f.rv - 1 // more may have ended at that revision
	}
	return told, nil
}

func (t *target) tellLeft(ctx context.Context, f leftFrame) error {
	t.status.progressNow()
	e := t.index.Get(f.namespace, f.name)
	if f.kind == watch.Deleted {
		if e == nil || e.RV >= f.rv {
			return nil
		}
		return t.endAt(ctx, e, f.rv)
	}
	o, ok, err := t.source.ObjectAt(ctx, f.namespace, f.name, f.rv)
	if bad, isBad := errors.AsType[*frame.Malformed](err); isBad {
		return t.rejectFrame(ctx, f.kind, bad)
	}
	if err == nil && (!ok || o.ResourceVersion != f.rv) {
		err = listwatch.ErrInexact
	}
	if err != nil {
		return err
	}
	return t.applyState(ctx, f.kind, &o)
}

// explained reports whether the index tells all that frames did: they were of new
// objects, which have not changed since.
func (t *target) explained(frames []leftFrame) bool {
	return !slices.ContainsFunc(frames, func(f leftFrame) bool {
		e := t.index.Get(f.namespace, f.name)
		return f.kind != watch.Added || e == nil || e.RV != f.rv
	})
}

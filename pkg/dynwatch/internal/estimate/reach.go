package estimate

import (
	"context"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
)

// How far back one can go is not told by the API server, but it shows: a watch from
// the first revision is refused with the oldest one that the watch cache still has,
// and a list at a revision that etcd has compacted is refused, too.

// horizon is where etcd's history begins: behind gone, at or before kept.
type horizon struct{ gone, kept uint64 }

// History finds how far back the history of resources goes. Its methods may be called
// concurrently.
type History struct {
	// Turns are those of the callers: Reach is called in one, and lets others have it meanwhile.
	Turns Turns

	mu   sync.Mutex
	seen horizon // where etcd's history began for a resource that was asked about
}

// Turns bound how many resources are asked about at a time.
type Turns chan struct{}

// Begin waits until the caller may ask.
func (t Turns) Begin() { t <- struct{}{} }

// End lets another caller ask.
func (t Turns) End() { <-t }

// Reach finds out from which revision a watch of the resource can begin, and where its history
// in etcd begins.
func (all *History) Reach(ctx context.Context, src *listwatch.Source, now uint64) (watched, kept uint64, err error) {
	oldest, err := all.oldestWatched(ctx, src)
	if err != nil {
		return 0, 0, err
	}
	kept, err = all.oldestKept(now, func(rv uint64) (bool, error) { return src.Keeps(ctx, rv) })
	switch {
	case listwatch.Unsupported(err) && oldest > 1:
		err = nil
	case listwatch.Unsupported(err):
		// Such a server may take a watch from anywhere, and begin now all the same.
		return 0, kept, nil
	case oldest == 0:
		oldest = kept // there is no watch cache: watches are of etcd
	}
	return min(oldest, now), kept, err
}

// firstFrame is how long a watch is looked at after the server has answered: if it is
// refused, the frame that says so comes right behind the answer's head.
const firstFrame = time.Second

// watchTimeout is when the server ends such a watch by itself.
const watchTimeout = 10 * time.Second

// oldestWatched is the oldest revision from which a watch can begin, 0 if the API
// server refuses the first one and names none. Most watches from there are silent, and
// looking at one costs the server nothing: others may have a turn meanwhile.
func (all *History) oldestWatched(ctx context.Context, s *listwatch.Source) (uint64, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w, err := s.WatchFrom(ctx, 1, watchTimeout)
	if err == nil {
		defer w.Stop()
		all.Turns.End()
		defer all.Turns.Begin()
		patience := time.NewTimer(firstFrame)
		defer patience.Stop()
		select {
		case e := <-w.ResultChan():
			if e.Type == watch.Error {
				err = apierrors.FromObject(e.Object)
			}
		case <-patience.C:
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	switch {
	case listwatch.Expired(err):
		return listwatch.OldestNamed(err), nil
	case err != nil:
		return 0, fmt.Errorf("watch: %w", err)
	}
	return 1, nil
}

const (
	// firstStep is how many revisions one goes back first, stepFactor how much
	// further each time.
	firstStep, stepFactor = 64, 4
	// precision is the part of the whole way back by which it may come out too short.
	precision = 32
)

// oldestKept finds about the oldest revision that is kept: in growing steps back from
// now, which is, and then by bisecting the last one. Most resources are in one etcd,
// so what was found for another one is tried first.
func (all *History) oldestKept(now uint64, keeps func(rv uint64) (bool, error)) (uint64, error) {
	h, ok, err := all.confirm(now, keeps)
	if err != nil {
		return 0, err
	}
	if ok {
		return h.kept, nil
	}
	h = horizon{kept: now}
	for back := uint64(firstStep); back < now && h.gone == 0; back *= stepFactor {
		if err := h.narrow(now-back, keeps); err != nil {
			return 0, err
		}
	}
	if h.gone == 0 {
		if err := h.narrow(1, keeps); err != nil {
			return 0, err
		}
	}
	for h.kept > 1 && h.kept-h.gone > max((now-h.gone)/precision, 1) {
		if err := h.narrow(h.gone+(h.kept-h.gone)/2, keeps); err != nil {
			return 0, err
		}
	}
	all.mu.Lock()
	defer all.mu.Unlock()
	all.seen = h
	return h.kept, nil
}

// confirm reports whether what was found for another resource holds for this one.
func (all *History) confirm(now uint64, keeps func(rv uint64) (bool, error)) (horizon, bool, error) {
	all.mu.Lock()
	h := all.seen
	all.mu.Unlock()
	if h.kept == 0 || h.kept > now {
		return horizon{}, false, nil
	}
	kept, err := keeps(h.kept)
	if err != nil || !kept || h.gone == 0 {
		return h, kept && err == nil, err
	}
	kept, err = keeps(h.gone)
	return h, !kept && err == nil, err
}

// narrow moves one of the ends to a revision between them.
func (h *horizon) narrow(rv uint64, keeps func(rv uint64) (bool, error)) error {
	ok, err := keeps(rv)
	switch {
	case err != nil:
		return err
	case ok:
		h.kept = rv
	default:
		h.gone = rv
	}
	return nil
}

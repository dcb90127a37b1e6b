package recovery

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/informd/informd/pkg/dynwatch/internal/frame"
	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
)

// history is what a walk has found out about one name.
type history struct {
	walk  *Walk
	query *Query
	// lifetimes are the objects that had the name, each before the list.
	lifetimes []*lifetime
	// size is how many bytes of states are held.
	size int
	// torn: the history has a hole.
	torn bool
}

// lifetime is one object's time under the name, or one stay in the selection.
type lifetime struct {
	uid string
	// oldest is the revision up to which it was followed down.
	oldest uint64
	// states are newest first, without the listed one.
	states []*state
	// alive is a revision at which it was there, last how it was then, if known;
	// gone is a later one at which it was not, 0 if the list holds it.
	alive, gone uint64
	last        *state
	// exact: it was seen, or is known, to be there right before gone. left: it is
	// still there then, and does not match.
	exact, left bool
	// after is how it was at gone, if it left.
	after *frame.Object
	// listless: etcd has it at the revision of the list, which lacks it.
	listless bool
}

// trace reads the history, newest first. An error is one that ends the walk; what
// ends this history only leaves it torn.
func (h *history) trace(ctx context.Context) error {
	q := h.query
	gone := q.Top
	if q.RV != 0 {
		listed := &lifetime{uid: q.UID, oldest: q.RV, alive: q.Top}
		h.lifetimes = append(h.lifetimes, listed)
		known, err := h.descend(ctx, listed)
		if q.KnownUID == q.UID && (known || err != nil) {
			return h.tear(ctx, err)
		}
		if err := h.tear(ctx, err); err != nil {
			return err
		}
		gone = listed.oldest - 1 // what had the name before
	}
	ended := func(l *lifetime) bool { return l.gone != 0 && l.uid == q.KnownUID }
	if q.KnownUID != "" && (q.KnownUID != q.UID || h.selects()) && !slices.ContainsFunc(h.lifetimes, ended) {
		h.lifetimes = append(h.lifetimes, &lifetime{uid: q.KnownUID, oldest: gone, alive: max(q.KnownRV, q.Floor), gone: gone})
	}
	return h.traceEnded(ctx)
}

// tear takes note of an error: nil is returned if it ends this history only.
func (h *history) tear(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	h.torn = true
	if h.walk.cut(ctx, err) {
		return nil
	}
	return err
}

func (h *history) selects() bool { return h.walk.Source.Resource.Selects() }

// traceEnded follows every lifetime that has ended; while it does, more may turn up.
func (h *history) traceEnded(ctx context.Context) error {
	for i := 0; i < len(h.lifetimes); i++ {
		l := h.lifetimes[i]
		if l.gone == 0 {
			continue
		}
		if err := h.tear(ctx, h.close(ctx, l)); err != nil {
			return err
		}
		if l.last == nil || l.last.rv <= h.floor(l) {
			continue
		}
		h.push(l, l.last)
		_, err := h.descend(ctx, l)
		if err := h.tear(ctx, err); err != nil {
			return err
		}
	}
	return nil
}

// floor is the revision up to which a lifetime's states are known.
func (h *history) floor(l *lifetime) uint64 {
	if l.uid == h.query.KnownUID {
		return max(h.query.Floor, h.query.KnownRV)
	}
	return h.query.Floor
}

// descend follows a lifetime down to its beginning, or to what is known of it.
func (h *history) descend(ctx context.Context, l *lifetime) (known bool, err error) {
	floor := h.floor(l)
	for l.oldest-1 > floor {
		if h.size > h.walk.Bodies {
			return false, fmt.Errorf("%w: the object has too many large states", errSpent)
		}
		s, err := h.walk.at(ctx, h.query, l.oldest-1)
		switch {
		case err != nil:
			return false, err
		case !s.there:
			return false, nil
		case s.uid != l.uid:
			h.meet(s, l.oldest-1, l.oldest)
			return false, nil
		case s.rv <= floor:
			return true, nil
		}
		h.push(l, &s)
	}
	return true, nil
}

// close finds the end of a lifetime by bisection: there is one, and under one name
// nothing comes back with the same uid. In a selection it can; then this finds one
// of the times that it left.
func (h *history) close(ctx context.Context, l *lifetime) error {
	readable := uint64(0) // below it etcd has forgotten
	for l.gone-max(l.alive, readable) > 1 {
		low := max(l.alive, readable)
		mid := low + (l.gone-low)/2
		s, err := h.walk.at(ctx, h.query, mid)
		switch {
		case listwatch.Expired(err):
			readable, h.torn = mid, true
		case err != nil:
			return err
		case s.there && s.uid == l.uid:
			l.alive, l.last = mid, &s
		default:
			if s.there {
				h.meet(s, mid, l.gone)
			}
			l.gone = mid
		}
	}
	if l.alive != l.gone-1 {
		return nil // no state at its end can be read
	}
	if wrong, err := h.wrongList(ctx, l); wrong || err != nil {
		return err
	}
	l.exact = true
	return h.lastWords(ctx, l)
}

// wrongList asks etcd itself about a lifetime that would end with the list, and reports whether
// the list wrongly lacks it.
func (h *history) wrongList(ctx context.Context, l *lifetime) (bool, error) {
	if l.gone != h.query.Top || h.query.RV != 0 {
		return false, nil
	}
	s, err := h.walk.at(ctx, h.query, l.gone)
	if err != nil || !s.there || s.uid != l.uid {
		return false, err
	}
	l.alive, l.gone, l.last, l.listless = l.gone, 0, &s, true
	return true, nil
}

// lastWords looks at a lifetime right before and right after its end.
func (h *history) lastWords(ctx context.Context, l *lifetime) error {
	if l.last == nil {
		s, err := h.walk.at(ctx, h.query, l.alive)
		if err != nil && !listwatch.Expired(err) {
			l.exact = false
			return err
		}
		if s.there && s.uid == l.uid {
			l.last = &s
		}
	}
	if !h.walk.Source.Resource.Loses() {
		return nil
	}
	now, ok, err := h.walk.outside(ctx, h.query, l.gone)
	if errors.Is(err, listwatch.ErrOutside) {
		l.left = true
		return nil
	}
	if err != nil {
		l.exact = false
		return err
	}
	if l.left = ok && now.UID == l.uid; l.left && now.Data != nil {
		l.after = &now
	}
	return nil
}

// meet notes an object that came and went inside the range. In a selection a stay
// is not distinguished from another by the uid, so there it is left out.
func (h *history) meet(s state, at, gone uint64) {
	known := func(l *lifetime) bool { return l.uid == s.uid }
	if h.selects() || slices.ContainsFunc(h.lifetimes, known) {
		return
	}
	h.lifetimes = append(h.lifetimes, &lifetime{uid: s.uid, oldest: gone, alive: at, gone: gone, last: &s})
}

// push adds the next older state to a lifetime.
func (h *history) push(l *lifetime, s *state) {
	l.states, l.oldest = append(l.states, s), s.rv
	if s.object != nil {
		h.size += len(s.object.Data)
	} else {
		h.size += len(s.bad.Raw)
	}
}

// send sends the history, oldest first.
func (h *history) send(ctx context.Context) error {
	slices.SortFunc(h.lifetimes, func(a, b *lifetime) int { return cmp.Compare(a.alive, b.alive) })
	for _, l := range h.lifetimes {
		for _, s := range slices.Backward(l.states) {
			if err := h.sendOne(ctx, Result{UID: s.uid, RV: s.rv, Object: s.object, Bad: s.bad}); err != nil {
				return err
			}
		}
		if err := h.sendEnd(ctx, l); err != nil {
			return err
		}
	}
	return nil
}

func (h *history) sendEnd(ctx context.Context, l *lifetime) error {
	if l.listless {
		return h.sendOne(ctx, Result{UID: l.uid, RV: h.query.Top, Listless: true})
	}
	if l.gone == 0 || h.selects() && !l.exact {
		return nil
	}
	f := Result{UID: l.uid, RV: l.gone, End: true, Left: l.left}
	switch {
	case l.left:
		f.Object = l.after
	case l.exact && l.last != nil && l.last.object != nil:
		// The state that was sent shares the bytes behind its end.
		last := *l.last.object
		last.Data = slices.Clone(last.Data)
		f.Object = &last
	}
	return h.sendOne(ctx, f)
}

func (h *history) sendOne(ctx context.Context, f Result) error {
	f.Namespace, f.Name, f.Torn = h.query.Namespace, h.query.Name, h.torn
	if ctx.Err() != nil {
		return ctx.Err() // a history that was broken off must not look like one with a hole
	}
	select {
	case h.walk.results <- f:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// outside is at without the selection.
func (w *Walk) outside(ctx context.Context, q *Query, rv uint64) (frame.Object, bool, error) {
	for {
		if err := w.pass(ctx); err != nil {
			return frame.Object{}, false, err
		}
		o, ok, err := w.Source.ObjectAt(ctx, q.Namespace, q.Name, rv)
		if w.put(err) {
			continue
		}
		if bad, isBad := errors.AsType[*frame.Malformed](err); isBad {
			return frame.Object{UID: bad.UID, ResourceVersion: rv}, true, nil
		}
		return o, ok, err
	}
}

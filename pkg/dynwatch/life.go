package dynwatch

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/informd/informd/pkg/dynwatch/internal/frame"
	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
)

// history is what a walk has found out about one name.
type history struct {
	walk  *walk
	quest *quest
	// lives are the objects that had the name, each before the list.
	lives []*life
	// held are the states in the order in which they were read, the first dropped
	// of them without their bodies; size is the bytes of the others.
	held    []*sight
	dropped int
	size    int
	// torn: the history has a hole.
	torn bool
}

// life is one object's time under the name, or one stay in the selection.
type life struct {
	uid string
	// oldest is the revision up to which it was followed down.
	oldest uint64
	// states are newest first, without the listed one.
	states []*sight
	// alive is a revision at which it was there, last how it was then, if known;
	// gone is a later one at which it was not, 0 if the list holds it.
	alive, gone uint64
	last        *sight
	// exact: it was seen, or is known, to be there right before gone. left: it is
	// still there then, and does not match.
	exact, left bool
	// after is how it was at gone, if it left.
	after *frame.Object
	// listless is the identity and revision that it has in etcd at the revision of the list,
	// which lacks it.
	listless *frame.Object
}

// trace reads the history, newest first. An error is one that ends the walk; what
// ends this history only leaves it torn.
func (h *history) trace(ctx context.Context) error {
	q := h.quest
	gone := q.top
	if q.rv != 0 {
		listed := &life{uid: q.uid, oldest: q.rv, alive: q.top}
		h.lives = append(h.lives, listed)
		known, err := h.descend(ctx, listed)
		if q.knownUID == q.uid && (known || err != nil) {
			return h.tear(ctx, err)
		}
		if err := h.tear(ctx, err); err != nil {
			return err
		}
		gone = listed.oldest - 1 // what had the name before
	}
	ended := func(l *life) bool { return l.gone != 0 && l.uid == q.knownUID }
	if q.knownUID != "" && (q.knownUID != q.uid || h.selects()) && !slices.ContainsFunc(h.lives, ended) {
		h.lives = append(h.lives, &life{uid: q.knownUID, oldest: gone, alive: max(q.knownRV, q.floor), gone: gone})
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

func (h *history) selects() bool { return h.walk.source.Resource.Selects() }

// traceEnded follows every life that has ended; while it does, more may turn up.
func (h *history) traceEnded(ctx context.Context) error {
	for i := 0; i < len(h.lives); i++ {
		l := h.lives[i]
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

// floor is the revision up to which a life's states are known.
func (h *history) floor(l *life) uint64 {
	if l.uid == h.quest.knownUID {
		return max(h.quest.floor, h.quest.knownRV)
	}
	return h.quest.floor
}

// descend follows a life down to its beginning, or to what is known of it.
func (h *history) descend(ctx context.Context, l *life) (known bool, err error) {
	floor := h.floor(l)
	for l.oldest-1 > floor {
		s, err := h.walk.at(ctx, h.quest, l.oldest-1)
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

// close finds the end of a life by bisection: there is one, and under one name
// nothing comes back with the same uid. In a selection it can; then this finds one
// of the times that it left.
func (h *history) close(ctx context.Context, l *life) error {
	readable := uint64(0) // below it etcd has forgotten
	for l.gone-max(l.alive, readable) > 1 {
		low := max(l.alive, readable)
		mid := low + (l.gone-low)/2
		s, err := h.walk.at(ctx, h.quest, mid)
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

// wrongList asks etcd itself about a life that would end with the list, and reports whether
// the list wrongly lacks it.
func (h *history) wrongList(ctx context.Context, l *life) (bool, error) {
	if l.gone != h.quest.top || h.quest.rv != 0 {
		return false, nil
	}
	s, err := h.walk.at(ctx, h.quest, l.gone)
	if err != nil || !s.there || s.uid != l.uid {
		return false, err
	}
	l.alive, l.gone, l.last, l.listless = l.gone, 0, &s, &frame.Object{UID: s.uid, ResourceVersion: s.rv}
	return true, nil
}

// lastWords looks at a life right before and right after its end.
func (h *history) lastWords(ctx context.Context, l *life) error {
	if l.last == nil {
		s, err := h.walk.at(ctx, h.quest, l.alive)
		if err != nil && !listwatch.Expired(err) {
			l.exact = false
			return err
		}
		if s.there && s.uid == l.uid {
			l.last = &s
		}
	}
	if !h.selects() {
		return nil
	}
	now, ok, err := h.walk.outside(ctx, h.quest, l.gone)
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
// is not told from another by the uid, so there it is left out.
func (h *history) meet(s sight, at, gone uint64) {
	known := func(l *life) bool { return l.uid == s.uid }
	if h.selects() || slices.ContainsFunc(h.lives, known) {
		return
	}
	h.lives = append(h.lives, &life{uid: s.uid, oldest: gone, alive: at, gone: gone, last: &s})
}

// push adds the next older state to a life. When more bodies are held than
// should, the newest go: they are the last to be told and the last that etcd
// forgets, and are read again then.
func (h *history) push(l *life, s *sight) {
	l.states, l.oldest = append(l.states, s), s.rv
	h.held = append(h.held, s)
	h.size += s.size()
	for h.size > h.walk.limits.bodies && h.dropped < len(h.held)-1 {
		newest := h.held[h.dropped]
		h.size -= newest.size()
		newest.object, newest.bad = nil, nil
		h.dropped++
	}
}

// dropped reports whether the body is not held any more.
func (s *sight) dropped() bool { return s.object == nil && s.bad == nil }

// size is how many bytes are held.
func (s *sight) size() int {
	switch {
	case s.object != nil:
		return len(s.object.Data)
	case s.bad != nil:
		return len(s.bad.Raw)
	default:
		return 0
	}
}

// tell sends the history, oldest first.
func (h *history) tell(ctx, asking context.Context) error {
	slices.SortFunc(h.lives, func(a, b *life) int { return cmp.Compare(a.alive, b.alive) })
	for _, l := range h.lives {
		for len(l.states) > 0 {
			s := l.states[len(l.states)-1]
			l.states = l.states[:len(l.states)-1]
			if err := h.tellState(ctx, asking, s); err != nil {
				return err
			}
			if s != l.last {
				s.object, s.bad = nil, nil
			}
		}
		if err := h.tellEnd(ctx, asking, l); err != nil {
			return err
		}
	}
	return nil
}

func (h *history) tellState(ctx, asking context.Context, s *sight) error {
	there, err := h.reread(asking, s)
	if err != nil || !there {
		return err
	}
	return h.send(ctx, finding{uid: s.uid, rv: s.rv, object: s.object, bad: s.bad})
}

// reread reads a body again that was dropped.
func (h *history) reread(asking context.Context, s *sight) (there bool, err error) {
	if !s.dropped() {
		return true, nil
	}
	again, err := h.walk.at(asking, h.quest, s.rv)
	if err != nil || again.rv != s.rv {
		h.torn = true
		return false, h.tear(asking, err)
	}
	s.object, s.bad = again.object, again.bad
	return true, nil
}

func (h *history) tellEnd(ctx, asking context.Context, l *life) error {
	if l.listless != nil {
		return h.send(ctx, finding{uid: l.uid, rv: h.quest.top, object: l.listless, listless: true})
	}
	if l.gone == 0 || h.selects() && !l.exact {
		return nil
	}
	f := finding{uid: l.uid, rv: l.gone, end: true, left: l.left, listed: h.quest.rv == 0 && l.gone == h.quest.top && !l.exact}
	switch {
	case l.left:
		f.object = l.after
	case l.exact && l.last != nil:
		if _, err := h.reread(asking, l.last); err != nil {
			return err
		}
		if l.last.object != nil {
			// The state that was told shares the bytes behind its end.
			last := *l.last.object
			last.Data = slices.Clone(last.Data)
			f.object = &last
		}
		l.last.object = nil
	}
	return h.send(ctx, f)
}

func (h *history) send(ctx context.Context, f finding) error {
	f.namespace, f.name, f.torn = h.quest.namespace, h.quest.name, h.torn
	if ctx.Err() != nil {
		return ctx.Err() // a history that was broken off must not look like one with a hole
	}
	select {
	case h.walk.findings <- f:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// outside is at without the selection.
func (w *walk) outside(ctx context.Context, q *quest, rv uint64) (frame.Object, bool, error) {
	for {
		if err := w.pass(ctx); err != nil {
			return frame.Object{}, false, err
		}
		o, ok, err := w.source.ObjectAt(ctx, q.namespace, q.name, rv)
		if w.put(err) {
			continue
		}
		if bad, isBad := errors.AsType[*frame.Malformed](err); isBad {
			return frame.Object{UID: bad.UID, ResourceVersion: rv}, true, nil
		}
		return o, ok, err
	}
}

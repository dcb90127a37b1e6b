package decide_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/informd/informd/pkg/dynwatch/internal/decide"
	"github.com/informd/informd/pkg/event"
)

// revisions is how many revisions the models have.
const revisions = 4

// observation is what an API server sends about the only name of a model.
type observation struct {
	decide.Seen
	uid string
	// there: if asked, the API server says that the object exists without the selector.
	there bool
}

// act is an event of a model.
type act struct {
	op  event.Op
	uid string
	rv  uint64
}

// name is what a log holds of the only name of a model.
type name struct {
	uid        string // empty without an object
	rv, newest uint64
	ended      uint64
	position   uint64
	acts       []act
}

func (n *name) known(uid string) decide.Known {
	k := decide.Known{Ended: n.ended}
	switch {
	case n.uid == "":
		return k
	case n.uid == uid:
		k.Object = decide.Same
	default:
		k.Object = decide.Other
	}
	k.RV, k.Newest = n.rv, n.newest
	return k
}

// take decides about an observation and does what was decided, as a target does.
func (n *name) take(o observation, selects bool) {
	d := decide.Decide(n.known(o.uid), o.Seen, decide.Rules{Position: n.position, Selects: selects})
	if d.Replaced {
		n.acts = append(n.acts, act{event.Deleted, n.uid, d.ReplacedAt})
		n.uid = ""
	}
	if d.Ask && o.there {
		d.Op = d.IfExists
	}
	if d.Op != "" {
		n.acts = append(n.acts, act{d.Op, o.uid, o.RV})
		n.uid, n.rv, n.newest = o.uid, o.RV, o.RV
		if d.Op.Ends() {
			n.uid = ""
		}
	}
	n.position = max(n.position, o.RV)
	if o.Kind == decide.Gone && o.RV == n.position {
		n.ended = o.RV
	} else if n.ended < n.position {
		n.ended = 0
	}
}

// names are all that a log can hold of a name: nothing, as of an object that an edit has dropped, the
// end of an object, or an object with its last event and a newer state that was skipped.
func names(yield func(n name, end act) bool) {
	for position := range uint64(revisions + 1) {
		if !yield(name{position: position}, act{}) {
			return
		}
		for _, op := range []event.Op{event.Deleted, event.Left} {
			for _, uid := range []string{"a", "b"} {
				if position > 0 && !yield(name{position: position, ended: position}, act{op, uid, position}) {
					return
				}
			}
		}
		for _, uid := range []string{"a", "b"} {
			for rv := uint64(1); rv <= revisions; rv++ {
				for newest := rv; newest <= revisions; newest++ {
					if !yield(name{uid: uid, rv: rv, newest: newest, position: position}, act{rv: rv}) {
						return
					}
				}
			}
		}
	}
}

func observations(yield func(observation) bool) {
	for rv := uint64(1); rv <= revisions; rv++ {
		for _, kind := range []decide.Kind{decide.State, decide.Gone} {
			for _, uid := range []string{"a", "b"} {
				for _, there := range []bool{false, true} {
					if !yield(observation{decide.Seen{Kind: kind, RV: rv}, uid, there}) {
						return
					}
				}
			}
		}
	}
}

func TestEachObservationOfEachName(t *testing.T) {
	for before, last := range names {
		for o := range observations {
			if last.op == event.Deleted && last.uid == o.uid && o.RV > last.rv {
				continue // no UID is used again
			}
			for _, selects := range []bool{false, true} {
				check(t, before, last, o, selects)
			}
		}
	}
}

// check checks what an observation gives, and that it gives nothing once more. Last is the event
// before.
func check(t *testing.T, before name, last act, o observation, selects bool) {
	t.Helper()
	n := before
	n.take(o, selects)
	what := fmt.Sprintf("known %+v, observed %+v, selector %v: %v", before, o, selects, n.acts)
	if len(n.acts) > 2 {
		t.Errorf("%s: more than two events", what)
	}
	for _, a := range n.acts {
		if a.rv < last.rv || a.rv == last.rv && !a.op.Ends() { // servers without etcd end at the last revision
			t.Errorf("%s: the revision does not rise", what)
		}
		if a.op.Ends() && last.op.Ends() && a.uid == last.uid && last.op == event.Deleted {
			t.Errorf("%s: a second end", what)
		}
		last = a
	}
	count := len(n.acts)
	if n.take(o, selects); len(n.acts) != count {
		t.Errorf("%s: repeated, it gives %v", what, n.acts[count:])
	}
}

// history is what happens to a name, one step at a revision.
type history struct {
	frames []observation
	// want are the events, by revision.
	want []act
}

// state is where a history stands.
type state struct {
	uid     string // empty if no object exists
	matches bool
	created int
}

// histories yields all histories of a name. With a selector, its objects can also match or not.
func histories(selector bool, yield func(history)) {
	var extend func(at uint64, s state, h history)
	extend = func(at uint64, s state, h history) {
		if at > revisions {
			yield(h)
			return
		}
		next := func(s state, kind decide.Kind, uid string, there bool, op event.Op) {
			longer := history{slices.Clone(h.frames), slices.Clone(h.want)}
			if op != "" {
				longer.frames = append(longer.frames, observation{decide.Seen{Kind: kind, RV: at}, uid, there})
				longer.want = append(longer.want, act{op, uid, at})
			}
			extend(at+1, s, longer)
		}
		next(s, 0, "", false, "") // another object changes
		switch {
		case s.uid == "" && s.created == 2:
		case s.uid == "":
			uid := string(rune('a' + s.created))
			next(state{uid, true, s.created + 1}, decide.State, uid, false, event.Added)
			if selector {
				next(state{uid, false, s.created + 1}, decide.State, uid, false, "")
			}
		case s.matches:
			next(s, decide.State, s.uid, true, event.Modified)
			next(state{"", false, s.created}, decide.Gone, s.uid, false, event.Deleted)
			if selector {
				next(state{s.uid, false, s.created}, decide.Gone, s.uid, true, event.Left)
			}
		default:
			next(state{s.uid, true, s.created}, decide.State, s.uid, true, event.Entered)
			next(state{"", false, s.created}, decide.Gone, s.uid, false, "")
		}
	}
	extend(1, state{}, history{})
}

// A watch brings a history once, is cut after any frame and resumed from any mark before: each change
// is one event.
func TestHistories(t *testing.T) {
	for _, selector := range []bool{false, true} {
		histories(selector, func(h history) {
			for cut := range len(h.frames) + 1 {
				for mark := range uint64(revisions + 1) {
					n := name{}
					ended := observation{}
					for _, o := range h.frames[:cut] {
						if n.take(o, selector); o.Kind == decide.Gone && o.RV > mark {
							ended = o
						}
					}
					if mark > n.position {
						continue
					}
					// The log knows the ends after the mark.
					n.position, n.ended = mark, ended.RV
					for _, o := range h.frames {
						if o.RV > mark {
							restored := n.ended
							if n.take(o, selector); restored > n.ended {
								n.ended = restored // it is after the position
							}
						}
					}
					if !slices.Equal(n.acts, h.want) {
						t.Errorf("history %v, cut after %d frames, resumed from %d: got %v", h.want, cut, mark, n.acts)
					}
				}
			}
		})
	}
}

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
	left       string // the UID of the object that has left
	position   uint64
	acts       []act
}

func (n *name) known(uid string) decide.Known {
	k := decide.Known{Past: n.ended}
	switch {
	case n.uid == "":
		k.Left = n.left == uid
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
	d := decide.Decide(n.known(o.uid), o.Seen, decide.Rules{Position: n.position, Selects: selects, Arrival: event.Added})
	if d.Replaced {
		n.acts = append(n.acts, act{event.Deleted, n.uid, d.ReplacedAt})
		n.uid = ""
	}
	if d.Ask && o.there {
		d.Op = d.IfExists
	}
	if d.Op != "" {
		n.acts = append(n.acts, act{d.Op, o.uid, o.RV})
		n.uid, n.rv, n.newest, n.left = o.uid, o.RV, o.RV, ""
		if d.Op.Ends() {
			n.uid = ""
		}
		if d.Op == event.Left {
			n.left = o.uid
		}
	}
	if o.Kind == decide.Listed || o.Kind == decide.Absent {
		return
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
				n := name{position: position, ended: position}
				if op == event.Left {
					n.left = uid
				}
				if position > 0 && !yield(n, act{op, uid, position}) {
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
		for _, kind := range []decide.Kind{decide.State, decide.Gone, decide.Listed, decide.Absent} {
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
			if o.Kind == decide.Absent && o.uid != before.uid {
				continue // it is about what the log holds
			}
			if k := before.known(o.uid); o.Kind == decide.Listed && k.Contradicts(o.RV, revisions) {
				continue // etcd was restored
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
		entered := a.op == event.Entered && last.op == event.Left            // by another change than one of its own
		if !entered && (a.rv < last.rv || a.rv == last.rv && !a.op.Ends()) { // servers without etcd end at the last revision
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
	// states are where the history stands at each revision.
	states [revisions + 1]state
}

// state is where a history stands.
type state struct {
	uid     string // empty if no object exists
	rv      uint64
	matches bool
	created int
}

// histories yields all histories of a name. With a selector, its objects can also match or not.
func histories(selector bool, yield func(history)) {
	var extend func(at uint64, h history)
	extend = func(at uint64, h history) {
		if at > revisions {
			yield(h)
			return
		}
		s := h.states[at-1]
		next := func(uid string, matches bool, op event.Op) {
			longer := history{slices.Clone(h.frames), slices.Clone(h.want), h.states}
			longer.states[at] = state{uid, at, matches, s.created}
			frame := observation{decide.Seen{RV: at}, uid, uid == s.uid}
			if uid != "" && s.uid == "" {
				longer.states[at].created++
			}
			if op.Ends() {
				frame = observation{decide.Seen{Kind: decide.Gone, RV: at}, s.uid, uid != ""}
			}
			if op != "" {
				longer.frames = append(longer.frames, frame)
				longer.want = append(longer.want, act{op, frame.uid, at})
			}
			extend(at+1, longer)
		}
		still := history{h.frames, h.want, h.states}
		still.states[at] = s
		extend(at+1, still) // another object changes
		switch {
		case s.uid == "" && s.created == 2:
		case s.uid == "":
			next(string(rune('a'+s.created)), true, event.Added)
			if selector {
				next(string(rune('a'+s.created)), false, "")
			}
		case s.matches:
			next(s.uid, true, event.Modified)
			next("", false, event.Deleted)
			if selector {
				next(s.uid, false, event.Left)
			}
		default:
			next(s.uid, true, event.Entered)
			next("", false, "")
		}
	}
	extend(1, history{})
}

// A watch brings a history once, is cut after any frame and resumed from any mark before: each change
// is one event.
func TestFramesOfEachHistory(t *testing.T) {
	for _, selector := range []bool{false, true} {
		histories(selector, func(h history) {
			for cut := range len(h.frames) + 1 {
				for mark := range uint64(revisions + 1) {
					resume(t, h, selector, cut, mark)
				}
			}
		})
	}
}

func resume(t *testing.T, h history, selector bool, cut int, mark uint64) {
	t.Helper()
	n, ended := name{}, uint64(0)
	for _, o := range h.frames[:cut] {
		if n.take(o, selector); o.Kind == decide.Gone && o.RV > mark {
			ended = o.RV
		}
	}
	if mark > n.position {
		return
	}
	n.position, n.ended = mark, ended // the log knows the ends after the mark
	for _, o := range h.frames {
		if o.RV > mark {
			n.take(o, selector)
			n.ended = max(n.ended, ended)
		}
	}
	if !slices.Equal(n.acts, h.want) {
		t.Errorf("history %v, cut after %d frames, resumed from %d: got %v", h.want, cut, mark, n.acts)
	}
}

// list takes a list of a history at revision at.
func (n *name) list(t *testing.T, h history, at uint64, selector bool) {
	t.Helper()
	s := h.states[at]
	if !s.matches {
		n.take(observation{decide.Seen{Kind: decide.Absent, RV: at}, n.uid, n.uid == s.uid}, selector)
		return
	}
	if n.known(s.uid).Contradicts(s.rv, at) {
		t.Errorf("history %v: a list at %d contradicts %v", h.want, at, n.acts)
	}
	n.take(observation{decide.Seen{Kind: decide.Listed, RV: s.rv}, s.uid, h.states[n.position].uid == s.uid}, selector)
}

// A list may come after any frame, and the watch go on from any revision before it: in the end the
// log has what there is, and each life has one end. A list from before the position tells nothing new
// of an object that is known.
func TestListsOfEachHistory(t *testing.T) {
	for _, selector := range []bool{false, true} {
		histories(selector, func(h history) {
			for after := range uint64(revisions + 1) {
				for at := range uint64(revisions + 1) {
					for from := range at + 1 {
						listBetween(t, h, selector, after, at, from)
					}
				}
			}
		})
	}
}

func listBetween(t *testing.T, h history, selector bool, after, at, from uint64) {
	t.Helper()
	n := name{}
	frames := func(from, to uint64) {
		for _, o := range h.frames {
			if from < o.RV && o.RV <= to {
				n.take(o, selector)
			}
		}
		n.position = max(n.position, to)
	}
	frames(0, after)
	if at < after {
		if before := len(n.acts); n.uid != "" {
			if n.list(t, h, at, selector); len(n.acts) != before {
				t.Errorf("history %v: a list at %d after frames to %d gives %v", h.want, at, after, n.acts[before:])
			}
		}
		return
	}
	n.list(t, h, at, selector)
	frames(max(from, after), revisions)
	what := fmt.Sprintf("history %v, frames to %d, list at %d, frames from %d: %v", h.want, after, at, max(from, after), n.acts)
	if s := h.states[revisions]; s.matches != (n.uid != "") || s.matches && (n.uid != s.uid || n.rv != s.rv) {
		t.Errorf("%s: the log has %q at %d, want %+v", what, n.uid, n.rv, s)
	}
	open := ""
	for _, a := range n.acts {
		begins := a.op == event.Added || a.op == event.Entered
		switch {
		case begins && open == "":
			open = a.uid
		case !begins && open == a.uid:
			if a.op.Ends() {
				open = ""
			}
		case a.op == event.Deleted && open == "": // created in a gap
		default:
			t.Errorf("%s: %v is not expected", what, a)
		}
	}
}

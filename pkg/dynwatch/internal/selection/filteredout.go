package selection

import (
	"maps"
	"strings"

	"k8s.io/apimachinery/pkg/watch"
)

// keptFrames is how many frames that were left out are remembered at least.
const keptFrames = 1000

// keptNames is how many names of namespaces each map holds at most: Kubernetes is tested with as
// many namespaces.
const keptNames = 10_000

// LeftFrame is a frame of a namespace that was not covered when it came.
type LeftFrame struct {
	Kind            watch.EventType
	Namespace, Name string
	RV              uint64
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
	frames  []LeftFrame
	dropped uint64
	// overflowed is the revision up to which frames were forgotten because they were of too many
	// namespaces. Those up to since need no gap of their own, these do.
	overflowed uint64
}

// forget begins anew at a revision.
func (l *leftOut) forget(since uint64) { *l = leftOut{since: since} }

// add notes a frame.
func (l *leftOut) add(f LeftFrame) {
	if l.last == nil {
		l.last = make(map[string]uint64)
	}
	f.Namespace, f.Name = strings.Clone(f.Namespace), strings.Clone(f.Name) // they are slices of something larger
	l.last[f.Namespace] = f.RV
	if len(l.frames) == 2*keptFrames {
		l.dropped = l.frames[keptFrames-1].RV
		l.frames = l.frames[:copy(l.frames, l.frames[keptFrames:])]
	}
	l.frames = append(l.frames, f)
	l.bound()
}

// begin notes that what comes of a namespace after a revision is left out.
func (l *leftOut) begin(namespace string, told uint64) {
	if l.told == nil {
		l.told = make(map[string]uint64)
	}
	l.told[namespace] = told
	l.bound()
}

// bound forgets everything once there are too many names. If the Namespaces are in another store,
// nothing is pruned, since revisions do not compare.
func (l *leftOut) bound() {
	if len(l.last) <= keptNames && len(l.told) <= keptNames {
		return
	}
	newest := l.overflowed
	for _, m := range []map[string]uint64{l.last, l.told} {
		for _, rv := range m {
			newest = max(newest, rv)
		}
	}
	*l = leftOut{since: l.since, overflowed: newest}
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
func (l *leftOut) of(namespace string, after uint64) (frames []LeftFrame, known bool) {
	switch {
	case after < max(l.since, l.overflowed):
		return nil, false
	case l.last[namespace] <= after:
		return nil, true
	case after < l.dropped:
		return nil, false
	}
	for _, f := range l.frames {
		if f.Namespace == namespace && f.RV > after {
			frames = append(frames, f)
		}
	}
	return frames, true
}

package dynwatch

import (
	"k8s.io/apimachinery/pkg/watch"

	"github.com/informd/informd/pkg/dynwatch/internal/frame"
	"github.com/informd/informd/pkg/dynwatch/internal/index"
)

// An API server on etcd sends the frames of a watch by ascending revision, and a deletion
// at a revision of its own. Aggregated API servers with other storage do neither: they send
// a DELETED frame with the object's last revision, and frames from before the position of
// the watch. These rules hold for both kinds of servers. They compare a frame with the
// object's own last event, and with the position only where nothing is known of the object.

// isLate reports whether a frame from before the target's position can say something new. A
// deletion of an unknown object does not: it was announced, or the object never was.
func (t *sweeper) isLate(typ watch.EventType, o *frame.Object) bool {
	return typ != watch.Deleted || t.index.Get(o.Namespace, o.Name) != nil
}

// endsAtLast reports whether a frame is the deletion of an entry's object at the last
// revision that is known of it. On etcd a deletion has a newer revision than any state.
func (t *sweeper) endsAtLast(typ watch.EventType, o *frame.Object, e *index.Entry) bool {
	return typ == watch.Deleted && (o.ResourceVersion == e.RV || o.ResourceVersion == t.index.Newest(e))
}

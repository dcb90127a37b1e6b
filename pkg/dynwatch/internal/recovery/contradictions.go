package recovery

import (
	"context"
	"errors"
	"math"

	"github.com/informd/informd/pkg/dynwatch/internal/decide"
	"github.com/informd/informd/pkg/dynwatch/internal/frame"
	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
)

// maxContradictions bounds the listed objects that are kept of one list to confirm a
// rollback. One is enough; the others stand in for objects that change meanwhile.
const maxContradictions = 8

// Contradictions are objects of one list that may prove a rollback. The revision of the
// list is known at its end only.
type Contradictions struct {
	// Older are listed at a revision that the index is past of.
	Older []listwatch.Listed
	// Returned are not in the index, and deleted by what the log says.
	Returned []listwatch.Listed
}

// Note keeps a listed object if a list that is new enough would prove a rollback by it.
func (c *Contradictions) Note(k decide.Known, d listwatch.Listed) {
	if len(c.Older) < maxContradictions && k.Contradicts(d.RV, math.MaxUint64) {
		c.Older = append(c.Older, d)
	}
}

// NoteReturned keeps a listed object that was deleted by what the log says.
func (c *Contradictions) NoteReturned(d listwatch.Listed) {
	if len(c.Returned) < maxContradictions {
		c.Returned = append(c.Returned, d)
	}
}

// Confirm reads a listed object from etcd, at revision at, or now if that revision is gone; now is the revision of
// the answer. Of an object that cannot be emitted it returns the identity.
func Confirm(ctx context.Context, source *listwatch.Source, d listwatch.Listed, at uint64) (o frame.Object, there bool, now uint64, err error) {
	o, there, err = source.MatchAt(ctx, d.Namespace, d.Name, at)
	if listwatch.Expired(err) || listwatch.Unsupported(err) {
		o, there, at, err = source.Look(ctx, d.Namespace, d.Name, 0)
		if errors.Is(err, listwatch.ErrOutside) {
			err = nil
		}
	}
	if bad, ok := errors.AsType[*frame.Malformed](err); ok {
		return frame.Object{UID: bad.UID, ResourceVersion: bad.ResourceVersion}, true, at, nil
	}
	return o, there, at, err
}

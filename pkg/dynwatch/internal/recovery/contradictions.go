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

// Confirmed is what etcd has under the name of a listed object.
type Confirmed struct {
	Object frame.Object
	There  bool
	// At is the revision of the answer.
	At uint64
	// Bad: the object is rejected, and only its identity is known.
	Bad bool
}

// Confirm reads a listed object from etcd, at revision at, or now if that revision is gone. What
// etcd cannot show for long is taken as listed: to take a restore for none would hide changes.
func Confirm(ctx context.Context, source *listwatch.Source, d listwatch.Listed, at uint64) (Confirmed, error) {
	o, there, err := source.MatchAt(ctx, d.Namespace, d.Name, at)
	if listwatch.Expired(err) || listwatch.Unsupported(err) {
		o, there, at, err = source.Look(ctx, d.Namespace, d.Name, 0)
		if errors.Is(err, listwatch.ErrOutside) {
			err = nil
		}
	}
	if errors.Is(err, listwatch.ErrLasting) {
		return Confirmed{frame.Object{UID: d.UID, ResourceVersion: d.RV}, true, at, false}, nil
	}
	if bad, ok := errors.AsType[*frame.Malformed](err); ok {
		o.UID, o.ResourceVersion = bad.UID, bad.ResourceVersion
		return Confirmed{o, true, at, true}, nil
	}
	return Confirmed{o, there, at, false}, err
}

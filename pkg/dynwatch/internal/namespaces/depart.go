package namespaces

import (
	"context"
	"errors"

	"github.com/informd/informd/pkg/dynwatch/internal/frame"
	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
	"github.com/informd/informd/pkg/dynwatch/internal/selection"
)

// depart stops to cover a namespace. What a list shows to be as the index has it
// leaves at once; of the rest the stream has more to bring.
func (t *Follower) depart(ctx context.Context, namespace string, cause uint64) error {
	c := &t.Coverage
	c.LeftOutSince(namespace, t.Cursor)
	c.Uncover(namespace, selection.Departure{Cause: cause})
	until, err := t.Source.List(ctx, &listwatch.Listing{Namespace: namespace}, t.Source.Whole, func(o *frame.Object, bad *frame.Malformed) error {
		t.Status.Progressed()
		if bad == nil { // else what is known of it leaves later
			if e := t.Index.Get(o.Namespace, o.Name); e != nil && t.Index.IsUID(e, o.UID) && t.Index.Newest(e) == o.ResourceVersion {
				return t.Leave(ctx, e, o, cause, false)
			}
		}
		return nil
	})
	if listwatch.Unsupported(err) { // then all of it leaves once the stream has come to the present
		until, err = t.Source.Revision(ctx)
	}
	if err := errors.Join(err, t.Flush(ctx)); err != nil {
		return err
	}
	c.Uncover(namespace, selection.Departure{Until: until, Cause: cause})
	c.Sure(namespace)
	return nil
}

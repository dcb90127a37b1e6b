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
	d, _ := c.Leaving(namespace)
	d = selection.Departure{Cause: cause, MissingAfter: d.MissingAfter}
	c.Uncover(namespace, d)
	if d.MissingAfter != 0 && len(t.entriesOf(namespace)) > 0 { // they are about to leave
		now, err := t.Source.Revision(ctx)
		if err == nil {
			err = t.DeclareMissing(ctx, namespace, now)
		}
		if err != nil {
			return err
		}
	}
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
	d, _ = c.Leaving(namespace)
	d.Until = until
	c.Uncover(namespace, d)
	c.Sure(namespace)
	return nil
}

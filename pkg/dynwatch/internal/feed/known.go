package feed

import (
	"github.com/informd/informd/pkg/dynwatch/internal/decide"
	"github.com/informd/informd/pkg/dynwatch/internal/index"
)

// Known is what the log holds of an object's name, and the entry of the name, nil if there is none.
func (t *Feed) Known(id index.ID) (decide.Known, *index.Entry) {
	k := decide.Known{Ended: t.EndedAt(id.Namespace, id.Name)}
	e := t.Index.Get(id.Namespace, id.Name)
	if e == nil {
		return k, nil
	}
	k.Object, k.RV, k.Newest = decide.Other, e.RV, t.Index.Newest(e)
	if t.Index.IsUID(e, id.UID) {
		k.Object = decide.Same
	}
	return k, e
}

package feed

import (
	"github.com/informd/informd/pkg/dynwatch/internal/decide"
	"github.com/informd/informd/pkg/dynwatch/internal/index"
)

// Known is what the log holds of an object's name, and the entry of the name, nil if there is none.
func (t *Feed) Known(id index.ID) (decide.Known, *index.Entry) {
	e := t.Index.Get(id.Namespace, id.Name)
	k := t.Index.Known(e, id.UID)
	k.Past = t.EndedAt(id.Namespace, id.Name)
	return k, e
}

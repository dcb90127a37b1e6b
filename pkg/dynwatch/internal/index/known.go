package index

import "github.com/informd/informd/pkg/dynwatch/internal/decide"

// Known is what a decision about an object under the name of an entry needs of it. The entry is nil
// if there is none.
func (x *Index) Known(e *Entry, uid string) decide.Known {
	if e == nil {
		return decide.Known{}
	}
	k := decide.Known{Object: decide.Other, RV: e.RV, Newest: x.Newest(e)}
	if x.IsUID(e, uid) {
		k.Object = decide.Same
	}
	return k
}

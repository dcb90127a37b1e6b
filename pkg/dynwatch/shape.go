package dynwatch

import (
	"github.com/informd/informd/pkg/dynwatch/internal/emit"
	"github.com/informd/informd/pkg/dynwatch/internal/frame"
)

// What becomes of objects by the rules of their resource is done where their bytes come
// from: in the normaliser, which asks for the shape with every object, and below, where
// an event takes an object from the log.

// reshape brings the objects that are read from now on into the shape that a spec says,
// and before its change gates, and has events say what it asks for, without a break in
// the watch. It may be called at any time.
func (t *target) reshape(s spec) {
	shape := frame.NewShape(s.rules, t.redactor).Gated(s.gates)
	t.Reshape(shape.Asking(
		s.actor && !s.rules.RedactsAround("metadata", "managedFields"),
		s.owner && !s.rules.RedactsAround("metadata", "ownerReferences"),
	), emit.Changes(s.changes))
}

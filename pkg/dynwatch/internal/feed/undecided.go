package feed

import (
	"github.com/informd/informd/pkg/dynwatch/internal/frame"
	"github.com/informd/informd/pkg/dynwatch/internal/index"
)

// Undecided is an object for which a DELETED frame came so late that etcd no
// longer knows whether it was deleted or left: only how it is at revision at.
// Frames may still show it until then: it may have come back before its deletion.
// Two deletion events with one id would follow.
type Undecided struct {
	Entry index.Handle
	RV    uint64
	At    uint64
	Now   *frame.Object // nil if it is gone
	There bool
}

package target

import (
	"context"
	"fmt"

	"github.com/informd/informd/internal/display"
	"github.com/informd/informd/pkg/dynwatch/internal/emit"
	"github.com/informd/informd/pkg/dynwatch/internal/frame"
)

// maxRejections bounds what is remembered of rejected objects; beyond it they are
// rejected again.
const maxRejections = 10_000

// maxUID bounds the UIDs that are remembered: the cluster chooses them.
const maxUID = 253

// isRejected reports whether an object was rejected at a revision, or later.
func (t *Target) isRejected(uid string, rv uint64) bool {
	at, is := t.rejections[uid]
	return is && (at >= rv || at == 0) // its revision may be what is unreadable
}

// reject stores an object that cannot be emitted, once
// per revision.
func (t *Target) reject(ctx context.Context, bad *frame.Malformed) error {
	if bad.UID != "" && t.rejections[bad.UID] == bad.ResourceVersion {
		return nil
	}
	if len(t.rejections) >= maxRejections {
		clear(t.rejections)
	}
	if bad.UID != "" && len(bad.UID) <= maxUID {
		t.rejections[bad.UID] = bad.ResourceVersion
	}
	t.Status.Rejected.Add(1)
	t.Logger.Error("object rejected; stored as a dead letter", "namespace", display.Reason(bad.Namespace), "name", display.Reason(bad.Name),
		"resource_version", bad.ResourceVersion, "reason", display.Reason(bad.Reason),
		"runbook", display.AlertRunbook("InformdObjectRejected"))
	t.Status.Block()
	defer t.Status.Unblock()
	if err := t.StoreRejected(ctx, bad); err != nil {
		return fmt.Errorf("%w: store a rejected object: %w", emit.ErrLog, err)
	}
	return nil
}

package feed

import (
	"context"
	"fmt"
	"strings"

	"github.com/informd/informd/internal/display"
	"github.com/informd/informd/pkg/dynwatch/internal/emit"
	"github.com/informd/informd/pkg/dynwatch/internal/frame"
)

// maxRejections bounds what is remembered of rejected objects; beyond it they are
// rejected again.
const maxRejections = 10_000

// maxShown bounds what is shown, and remembered for a report, of a text that the cluster
// chooses: no valid name is longer, but for kinds whose names the API server does not bound.
const maxShown = 253

// cut shortens a text to what is shown of it.
func cut(text string) string {
	if len(text) <= maxShown {
		return text
	}
	return fmt.Sprintf("%s… (%d bytes)", strings.ToValidUTF8(text[:maxShown], ""), len(text))
}

// Reject stores an object that cannot be emitted, once
// per revision.
func (t *Feed) Reject(ctx context.Context, bad *frame.Malformed) error {
	if bad.UID != "" && t.rejections[bad.UID] == bad.ResourceVersion {
		return nil
	}
	if len(t.rejections) >= maxRejections {
		clear(t.rejections)
	}
	if bad.UID != "" && len(bad.UID) <= maxShown {
		t.rejections[bad.UID] = bad.ResourceVersion
	}
	t.Status.Rejected.Add(1)
	t.Logger.Error("object rejected; stored as a dead letter", "namespace", cut(bad.Namespace), "name", cut(bad.Name),
		"resource_version", bad.ResourceVersion, "reason", display.Reason(bad.Reason))
	t.Status.Block()
	defer t.Status.Unblock()
	if err := t.StoreRejected(ctx, bad); err != nil {
		return fmt.Errorf("%w: store a rejected object: %w", emit.ErrLog, err)
	}
	return nil
}

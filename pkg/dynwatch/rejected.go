package dynwatch

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

// reject hands an object that cannot be passed on to [Options.Reject], once
// per revision.
func (t *feed) reject(ctx context.Context, bad *frame.Malformed) error {
	if bad.UID != "" && t.rejections[bad.UID] == bad.ResourceVersion {
		return nil
	}
	if len(t.rejections) >= maxRejections {
		clear(t.rejections)
	}
	if bad.UID != "" && len(bad.UID) <= maxShown {
		t.rejections[bad.UID] = bad.ResourceVersion
	}
	r := Rejected{
		Target: t.name, Namespace: bad.Namespace, Name: bad.Name, UID: bad.UID,
		ResourceVersion: bad.ResourceVersion, Reason: display.Reason(bad.Reason), Size: bad.Size, Raw: bad.Raw,
	}
	t.status.rejected.Add(1)
	t.logger.Error("object rejected; stored as a dead letter", "namespace", cut(r.Namespace), "name", cut(r.Name),
		"resource_version", r.ResourceVersion, "reason", r.Reason)
	t.status.block()
	defer t.status.unblock()
	if err := t.options.Reject(ctx, r); err != nil {
		return fmt.Errorf("%w: store a rejected object: %w", emit.ErrLog, err)
	}
	return nil
}

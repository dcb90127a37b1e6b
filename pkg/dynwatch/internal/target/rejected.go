package target

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/informd/informd/internal/display"
	"github.com/informd/informd/pkg/dynwatch/internal/emit"
	"github.com/informd/informd/pkg/dynwatch/internal/frame"
	"github.com/informd/informd/pkg/dynwatch/internal/status"
)

// maxRejections bounds what is remembered of rejected objects; beyond it they are
// rejected again.
const maxRejections = 10_000

// maxUID bounds the UIDs that are remembered: the cluster chooses them.
const maxUID = 253

// rejections stores objects that cannot be emitted.
type rejections struct {
	// at are the revisions of rejected objects, by UID, so that each list does not reject them again.
	at     map[string]uint64
	store  func(ctx context.Context, bad *frame.Malformed) error
	status *status.Status
	logger *slog.Logger
}

// has reports whether an object was rejected at a revision, or later.
func (r *rejections) has(uid string, rv uint64) bool {
	at, is := r.at[uid]
	return is && (at >= rv || at == 0) // its revision may be what is unreadable
}

// reject stores an object that cannot be emitted, once
// per revision.
func (r *rejections) reject(ctx context.Context, bad *frame.Malformed) error {
	if bad.UID != "" && r.at[bad.UID] == bad.ResourceVersion {
		return nil
	}
	if len(r.at) >= maxRejections {
		clear(r.at)
	}
	if bad.UID != "" && len(bad.UID) <= maxUID {
		r.at[bad.UID] = bad.ResourceVersion
	}
	r.status.Rejected.Add(1)
	r.logger.Error("object rejected; stored as a dead letter", "namespace", display.Reason(bad.Namespace), "name", display.Reason(bad.Name),
		"resource_version", bad.ResourceVersion, "reason", display.Reason(bad.Reason),
		"runbook", display.AlertRunbook("InformdObjectRejected"))
	r.status.Block()
	defer r.status.Unblock()
	if err := r.store(ctx, bad); err != nil {
		return fmt.Errorf("%w: store a rejected object: %w", emit.ErrLog, err)
	}
	return nil
}

package dynwatch

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/informd/informd/pkg/dynwatch/internal/catalog"
	"github.com/informd/informd/pkg/dynwatch/internal/kube"
	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
)

// judge says which state an error puts the target in. None of them is taken for
// an empty list.
func (t *target) judge(err error) State { return judge(err, t.Status.Synced.Load()) }

// judge is that for a target that has or has not been synced.
func judge(err error, synced bool) State {
	switch {
	case errors.Is(err, kube.ErrNotServed), apierrors.IsNotFound(err):
		return Waiting
	case apierrors.IsForbidden(err):
		return Forbidden
	case listwatch.Expired(err):
		return Syncing // a list took longer than etcd keeps its revision
	case errors.Is(err, catalog.ErrUnusable), errors.Is(err, kube.ErrOtherCluster), apierrors.IsUnauthorized(err), apierrors.IsBadRequest(err), apierrors.IsInvalid(err):
		return Degraded
	case synced:
		return Stale
	default:
		return Degraded
	}
}

// tellState appends the state that is shown to the log if it differs from the last
// one there. What lies between two states is not told: after a restart that changes
// nothing the target is live as it was.
func (t *target) tellState(ctx context.Context, reason string) error {
	switch {
	case !t.Restored, t.stateTold == t.Shown, t.Shown == Syncing:
		return nil
	case t.Shown == Stale && time.Since(t.ShownSince) < t.Timing.StaleTold:
		return nil
	}
	if err := t.EmitState(ctx, string(t.Shown), reason, t.Cursor); err != nil {
		return err
	}
	t.stateTold = t.Shown
	return t.Flush(ctx)
}

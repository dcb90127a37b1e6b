package dynwatch

import (
	"context"
	"errors"
	"log/slog"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/informd/informd/internal/display"
	"github.com/informd/informd/pkg/dynwatch/internal/catalog"
	"github.com/informd/informd/pkg/dynwatch/internal/kube"
	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
)

// judge says which state an error puts the target in. None of them is taken for
// an empty list.
func (t *target) judge(err error) State { return judge(err, t.status.synced.Load()) }

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

func (t *feed) setState(state State, reason string) {
	t.status.set(state, reason)
	if t.shown == state {
		return
	}
	t.shown, t.shownSince = state, time.Now()
	level := slog.LevelInfo
	if state != Live && state != Syncing && state != Stopped {
		level = slog.LevelWarn
	}
	attrs := []slog.Attr{slog.String("state", string(state))}
	if reason != "" {
		attrs = append(attrs, slog.String("reason", display.Reason(reason)))
	}
	t.logger.LogAttrs(context.Background(), level, "target state changed", attrs...)
}

// tellState appends the state that is shown to the log if it differs from the last
// one there. What lies between two states is not told: after a restart that changes
// nothing the target is live as it was.
func (t *target) tellState(ctx context.Context, reason string) error {
	switch {
	case !t.restored, t.stateTold == t.shown, t.shown == Syncing:
		return nil
	case t.shown == Stale && time.Since(t.shownSince) < t.timing.staleTold:
		return nil
	}
	if err := t.EmitState(ctx, string(t.shown), reason, t.cursor); err != nil {
		return err
	}
	t.stateTold = t.shown
	return t.Flush(ctx)
}

package target

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
	"github.com/informd/informd/pkg/dynwatch/internal/status"
)

// StateAfter is the state of a target after an error. Synced: its first list was complete. No
// error counts as an empty list.
func StateAfter(err error, synced bool) status.State {
	switch {
	case errors.Is(err, kube.ErrNotServed), apierrors.IsNotFound(err):
		return status.Waiting
	case apierrors.IsForbidden(err):
		return status.Forbidden
	case listwatch.Expired(err):
		return status.Syncing // a list took longer than etcd keeps its revision
	case errors.Is(err, catalog.ErrUnusable), errors.Is(err, kube.ErrOtherCluster), apierrors.IsUnauthorized(err), apierrors.IsBadRequest(err), apierrors.IsInvalid(err):
		return status.Degraded
	case synced:
		return status.Stale
	default:
		return status.Degraded
	}
}

// shown is the state of a target that its status shows.
type shown struct {
	status *status.Status
	logger *slog.Logger
	// state was logged last, and since when; inLog is the last one that the log has.
	state status.State
	since time.Time
	inLog status.State
}

// set shows a state.
func (s *shown) set(state status.State, reason string) {
	s.status.Set(state, reason)
	if s.state == state {
		return
	}
	s.state, s.since = state, time.Now()
	level := slog.LevelInfo
	if state != status.Live && state != status.Syncing && state != status.Stopped {
		level = slog.LevelWarn
	}
	attrs := []slog.Attr{slog.String("state", string(state))}
	if reason != "" {
		attrs = append(attrs, slog.String("reason", display.Reason(reason)))
	}
	if state == status.Forbidden || state == status.Degraded {
		attrs = append(attrs, slog.String("runbook", display.AlertRunbook("InformdTargetNotWatched")))
	}
	s.logger.LogAttrs(context.Background(), level, "target state changed", attrs...)
}

// logState appends the state that is shown to the log if it differs from the last
// one there. What lies between two states is not logged: after a restart that changes
// nothing the target is live as it was.
func (t *Target) logState(ctx context.Context, reason string) error {
	switch {
	case !t.loop.restored(), t.shown.inLog == t.shown.state, t.shown.state == status.Syncing:
		return nil
	case t.shown.state == status.Stale && time.Since(t.shown.since) < t.Timing.StaleTold:
		return nil
	}
	if err := t.Writer.EmitState(ctx, string(t.shown.state), reason, t.position.rv); err != nil {
		return err
	}
	t.shown.inLog = t.shown.state
	return t.Writer.Flush(ctx)
}

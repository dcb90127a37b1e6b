package target

import (
	"cmp"
	"context"

	"github.com/informd/informd/internal/display"
	"github.com/informd/informd/pkg/dynwatch/internal/catalog"
	"github.com/informd/informd/pkg/dynwatch/internal/kube"
)

// informd asks at the start of every target what the credentials lack. Otherwise a missing
// watch permission would show after the first list, in an error of the API server that
// names one verb of two.

// anyNamespace stands for all namespaces in a log: no namespace can have this name.
const anyNamespace = "*"

// ReviewAccess says which permissions the target lacks, as soon as the API server
// answers. It only reports: the requests themselves show what is allowed. It runs
// beside the loop, of which it touches the status alone, and ends with ctx.
func (t *Target) ReviewAccess(ctx context.Context, r *catalog.Reviews) {
	for !t.review(ctx, r) {
		if kube.Sleep(ctx, catalog.ReviewAgain) != nil {
			return
		}
	}
}

// review is one attempt at it, once it is the target's turn.
func (t *Target) review(ctx context.Context, r *catalog.Reviews) (answered bool) {
	missing, err := r.Missing(ctx, t.Clients.Discovery.Client, t.Spec.Attributes())
	if err != nil {
		if ctx.Err() == nil {
			t.Logger.Debug("permissions not checked", "err", err)
		}
		return false
	}
	if t.Status.SetMissing(missing) {
		t.Logger.Error("permissions missing; apply the output of `informd rbac`",
			"verbs", missing, "namespace", cmp.Or(t.Spec.Namespace, anyNamespace),
			"runbook", display.AlertRunbook("InformdTargetNotWatched"))
	}
	return true
}

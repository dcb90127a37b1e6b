package target

import (
	"cmp"
	"context"
	"time"

	"github.com/informd/informd/internal/display"
	"github.com/informd/informd/pkg/dynwatch/internal/catalog"
)

const (
	// anyNamespace stands for all namespaces in a log: no namespace can have this name.
	anyNamespace = "*"
	// reviewTimeout bounds the questions about one target.
	reviewTimeout = 30 * time.Second
	// reviewEvery is the least time between two reviews: each retry of a target is refused.
	reviewEvery = time.Minute
)

// reviewAccess says which permissions a target lacks that was refused: the error of the API server names one verb of
// two. It only reports.
func (t *Target) reviewAccess(ctx context.Context) {
	if time.Since(t.reviewed) < reviewEvery {
		return
	}
	t.reviewed = time.Now()
	of := t.Spec.Attributes()
	defer t.Clients.Pace.Begin(ctx, of.Group)()
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	missing, err := catalog.MissingVerbs(ctx, t.Clients.Discovery.Client, of, catalog.NeededVerbs())
	if err != nil {
		t.Logger.Debug("permissions not checked", "err", err)
		return
	}
	if t.Status.SetMissing(missing) {
		t.Logger.Error("permissions missing; apply the output of `informd rbac`",
			"verbs", missing, "namespace", cmp.Or(t.Spec.Namespace, anyNamespace),
			"runbook", display.AlertRunbook("InformdTargetNotWatched"))
	}
}

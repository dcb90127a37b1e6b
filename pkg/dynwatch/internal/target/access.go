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
func (d *discovery) reviewAccess(ctx context.Context) {
	if time.Since(d.reviewed) < reviewEvery {
		return
	}
	d.reviewed = time.Now()
	of := d.spec.Attributes()
	defer d.clients.Pace.Begin(ctx, of.Group)()
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	missing, err := catalog.MissingVerbs(ctx, d.clients.Discovery.Client, of, catalog.NeededVerbs())
	if err != nil {
		d.logger.Debug("permissions not checked", "err", err)
		return
	}
	if d.status.SetMissing(missing) {
		d.logger.Error("permissions missing; apply the output of `informd rbac`",
			"verbs", missing, "namespace", cmp.Or(d.spec.Namespace, anyNamespace),
			"runbook", display.AlertRunbook("InformdTargetNotWatched"))
	}
}

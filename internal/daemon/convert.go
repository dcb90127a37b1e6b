package daemon

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/informd/informd/internal/config"
	"github.com/informd/informd/internal/deliver"
	"github.com/informd/informd/internal/display"
	"github.com/informd/informd/pkg/dynwatch"
	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
)

func wanted(c *config.Config) []dynwatch.Resource {
	all := make([]dynwatch.Resource, len(c.Resources))
	for i, r := range c.Resources {
		all[i] = dynwatch.Resource{
			Group: r.Group, Version: r.Version, Resource: r.Resource, Mode: dynwatch.Mode(r.Mode),
			ExcludeResources: r.ExcludeResources,
			Namespaces:       r.Namespaces, ExcludeNamespaces: r.ExcludeNamespaces, NamespaceSelector: r.NamespaceSelector,
			Scope: dynwatch.Scope(r.Scope), LabelSelector: r.LabelSelector, FieldSelector: r.FieldSelector,
			Keep: r.Keep, Omit: r.Omit, Redact: r.Redact,
			EmitWhen:     dynwatch.EmitWhen{Changed: r.EmitWhen.Changed, SuppressNoop: !r.EmitWhen.Noop},
			SinkFilters:  r.Asked(c.Sinks),
			FieldManager: r.FieldManager, OwnerChain: r.OwnerChain, ResnapshotEvery: r.ResnapshotEvery,
			Changes: dynwatch.Changes{
				Changed:   slices.Contains(r.Changes, config.ChangesChanged),
				Patch:     slices.Contains(r.Changes, config.ChangesPatch),
				OldObject: slices.Contains(r.Changes, config.ChangesOldObject),
			},
		}
	}
	return all
}

// newRoute returns what decides which events a sink gets.
func newRoute(s config.Sink) *deliver.Route {
	all := make([]deliver.Match, len(s.Match))
	for i, m := range s.Match {
		all[i] = deliver.Match{
			Group: m.Group, Resource: m.Resource, Namespaces: m.Namespaces, Ops: operations(m.Ops), Control: operations(m.Control),
			Changed: m.Filters, DropFailed: m.OnConditionError == config.OnConditionErrorDrop,
		}
		if m.When != nil {
			all[i].When = m.When
		}
	}
	return deliver.NewRoute(all, s.Start == config.StartSnapshot)
}

// operations converts names of operations, which the config has checked.
func operations(names []string) []event.Op {
	ops := make([]event.Op, len(names))
	for i, name := range names {
		ops[i] = event.Op(name)
	}
	return ops
}

// start says where a sink begins that the journal does not know.
func start(s string) journal.Start {
	if s == config.StartNow {
		return journal.FromNow
	}
	return journal.FromSnapshot
}

// rejectPause is the time between two attempts to keep a rejected object.
const rejectPause = 5 * time.Second

// rejectTo keeps what cannot be passed on in the dead letters of the source. It
// does not give up: a full disk holds the target back, as a full journal does.
func rejectTo(letters *deliver.DeadLetters, logger *slog.Logger) func(context.Context, dynwatch.Rejected) error {
	return func(ctx context.Context, r dynwatch.Rejected) error {
		letter := deliver.SourceLetter{
			Target: r.Target, Key: deliver.ObjectKey(r.Namespace, r.Name, r.UID, r.ResourceVersion),
			Reason: r.Reason, Size: r.Size, Raw: r.Raw,
		}
		return wait.PollUntilContextCancel(ctx, rejectPause, true, func(ctx context.Context) (bool, error) {
			err := letters.WriteSource(ctx, letter)
			if err != nil && ctx.Err() == nil {
				logger.Error("dead letter not written; the target waits, retrying", "target", r.Target, "path", letters.Place(), "err", err,
					"runbook", display.AlertRunbook("InformdObjectRejected"))
			}
			return err == nil, nil
		})
	}
}

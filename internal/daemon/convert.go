package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/informd/informd/internal/config"
	"github.com/informd/informd/internal/deliver"
	"github.com/informd/informd/internal/display"
	"github.com/informd/informd/internal/kubeauth"
	"github.com/informd/informd/pkg/dynwatch"
	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
)

// kubernetesConfig finds the API server: the named kubeconfig, else that of the
// Pod, else $KUBECONFIG or ~/.kube/config.
func kubernetesConfig(c config.Kubernetes) (*rest.Config, error) {
	rules, err := kubeconfigRules(c)
	if err != nil {
		return nil, err
	}
	if rules == nil {
		return rest.InClusterConfig()
	}
	overrides := &clientcmd.ConfigOverrides{CurrentContext: c.Context}
	loaded, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides).ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		return nil, fmt.Errorf("find the API server: no kubeconfig in %s; name one with $KUBECONFIG or the key kubernetes.kubeconfig",
			strings.Join(rules.GetLoadingPrecedence(), " or "))
	}
	if err != nil {
		return nil, fmt.Errorf("find the API server: %w", err)
	}
	return loaded, nil
}

// kubeconfigRules say which files are the kubeconfig, nil for the Pod's service account.
func kubeconfigRules(c config.Kubernetes) (*clientcmd.ClientConfigLoadingRules, error) {
	if c.Kubeconfig == "" && c.Context == "" {
		_, err := rest.InClusterConfig()
		if err == nil {
			return nil, nil //nolint:nilnil // see above
		}
		if !errors.Is(err, rest.ErrNotInCluster) {
			return nil, fmt.Errorf("use the Pod's service account: %w", err)
		}
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = c.Kubeconfig
	if rest, ok := strings.CutPrefix(c.Kubeconfig, "~/"); ok {
		home, err := os.UserHomeDir()
		if err != nil {
			return nil, fmt.Errorf("find kubernetes.kubeconfig %s: %w", c.Kubeconfig, err)
		}
		rules.ExplicitPath = filepath.Join(home, rest)
	}
	return rules, nil
}

// credentialsOf follows the credentials of the kubeconfig, if there is one.
func credentialsOf(c config.Kubernetes, logger *slog.Logger) (*kubeauth.Credentials, error) {
	rules, err := kubeconfigRules(c)
	if err != nil {
		return nil, err
	}
	var paths []string
	if rules != nil {
		paths = rules.GetLoadingPrecedence()
	}
	return kubeauth.New(func() (*rest.Config, error) { return kubernetesConfig(c) }, paths, logger)
}

func wanted(c *config.Config) []dynwatch.Resource {
	all := make([]dynwatch.Resource, len(c.Resources))
	for i, r := range c.Resources {
		all[i] = dynwatch.Resource{
			Group: r.Group, Version: r.Version, Resource: r.Resource, Mode: dynwatch.Mode(r.Mode),
			ExcludeResources: r.ExcludeResources,
			Namespaces:       r.Namespaces, ExcludeNamespaces: r.ExcludeNamespaces, NamespaceSelector: r.NamespaceSelector,
			Scope: dynwatch.Scope(r.Scope), LabelSelector: r.LabelSelector, FieldSelector: r.FieldSelector,
			Keep: r.Keep, Omit: r.Omit, Redact: r.Redact,
			EmitWhen:    dynwatch.EmitWhen{Changed: r.EmitWhen.Changed, SuppressNoop: !r.EmitWhen.Noop},
			SinkFilters: r.Asked(c.Sinks),
			Actor:       r.FieldManager, Owner: r.OwnerChain, Changes: changesOf(r.Changes), ResnapshotEvery: r.ResnapshotEvery,
		}
	}
	return all
}

// changesOf is what an entry asks for, in the words of package dynwatch.
func changesOf(asked config.OneOrMore) dynwatch.Changes {
	return dynwatch.Changes{
		Paths: slices.Contains(asked, config.ChangesChanged),
		Patch: slices.Contains(asked, config.ChangesPatch),
		Old:   slices.Contains(asked, config.ChangesOldObject),
	}
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

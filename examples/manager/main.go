// Command manager is a controller-runtime manager with informers of pkg/informer. It logs the
// number of Pods of each ReplicaSet, after each change of them. Of several replicas, one works.
package main

import (
	"context"
	"log/slog"
	"os"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/informd/informd/pkg/informer"
)

func main() {
	ctrl.SetLogger(logr.FromSlogHandler(slog.Default().Handler()))
	if err := run(ctrl.SetupSignalHandler()); err != nil {
		slog.Default().Error("manager stopped", "err", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	config := ctrl.GetConfigOrDie()
	m, err := ctrl.NewManager(config, ctrl.Options{
		Cache: cache.Options{NewInformer: informer.ForControllerRuntime(config)}, Metrics: server.Options{BindAddress: "0"},
		LeaderElection: true, LeaderElectionID: "informd-example", LeaderElectionNamespace: "default", LeaderElectionReleaseOnCancel: true,
	})
	if err != nil {
		return err
	}
	byOwner := func(o client.Object) (names []string) {
		for _, owner := range o.GetOwnerReferences() {
			names = append(names, owner.Name)
		}
		return names
	}
	if err := m.GetFieldIndexer().IndexField(ctx, &corev1.Pod{}, "owner", byOwner); err != nil {
		return err
	}
	count := reconcile.Func(func(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
		var pods corev1.PodList
		err := m.GetClient().List(ctx, &pods, client.InNamespace(r.Namespace), client.MatchingFields{"owner": r.Name})
		if err == nil {
			slog.Default().InfoContext(ctx, "Pods counted", "replicaset", r.String(), "pods", len(pods.Items))
		}
		return reconcile.Result{}, err
	})
	if err := ctrl.NewControllerManagedBy(m).For(&appsv1.ReplicaSet{}).Owns(&corev1.Pod{}).Complete(count); err != nil {
		return err
	}
	return m.Start(ctx)
}

package dynwatch_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/informd/informd/pkg/dynwatch"
	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
)

// A program that prints every change of Deployments, from a journal in a directory. After a
// restart or a crash it continues at its cursor, and reports the deletions of that time.
func ExampleRun_durable() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	kubernetes, err := rest.InClusterConfig() // or clientcmd's, from a kubeconfig
	if err != nil {
		fmt.Println(err)
		return
	}
	// At least 16 random bytes, the same after each restart: other keys give other hashes.
	key, err := os.ReadFile("/etc/watcher/redaction.key")
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := watchDurably(ctx, kubernetes, "/var/lib/watcher", key); err != nil {
		fmt.Println(err) // a new process continues from the journal
	}
}

// watchDurably prints events until ctx ends or the journal fails.
func watchDurably(ctx context.Context, kubernetes *rest.Config, dir string, key []byte) (err error) {
	const cluster = "prod"
	wanted := []dynwatch.Resource{{Group: "apps", Resource: "deployments"}}
	watched, err := dynwatch.Covering(wanted)
	if err != nil {
		return err
	}
	log, err := journal.Open(journal.Config{Dir: dir, Cluster: cluster, Watched: watched})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	uid, err := clusterUID(ctx, kubernetes)
	if err == nil {
		err = log.Bind(ctx, uid)
	}
	if err != nil {
		return err
	}
	return dynwatch.Run(ctx, dynwatch.Options{Cluster: cluster, Kubernetes: kubernetes, Log: log, RedactionKey: key}, wanted, func(e event.Event) error {
		_, err := fmt.Printf("%s\n", e.AppendJSON(nil))
		return err
	})
}

// clusterUID identifies the cluster, so that the journal of one is never used for another.
func clusterUID(ctx context.Context, kubernetes *rest.Config) (string, error) {
	client, err := metadata.NewForConfig(kubernetes)
	if err != nil {
		return "", err
	}
	system, err := client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}).Get(ctx, "kube-system", metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	return string(system.UID), nil
}

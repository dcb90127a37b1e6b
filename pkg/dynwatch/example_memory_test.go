package dynwatch_test

import (
	"context"
	"crypto/rand"
	"fmt"

	"k8s.io/client-go/rest"

	"github.com/informd/informd/pkg/dynwatch"
	"github.com/informd/informd/pkg/journal"
)

// A program that prints every change of Deployments from a memory journal. If it prints slowly,
// the journal fills up and the watches pause. A restart begins with a new snapshot.
func Example_memory() {
	ctx := context.Background()
	config, err := rest.InClusterConfig() // or clientcmd's, from a kubeconfig
	if err != nil {
		fmt.Println(err)
		return
	}
	log := journal.NewMemory(8 << 20)
	defer func() { _ = log.Close() }() // never fails
	// Open every cursor before Apply: a memory journal keeps nothing for a later one.
	cursor, err := log.Open("printer", journal.FromSnapshot)
	if err != nil {
		fmt.Println(err)
		return
	}
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails
	manager, err := dynwatch.New(dynwatch.Options{
		Cluster: "prod", Kubernetes: config, Log: log, RedactionKey: key,
		Reject: func(_ context.Context, r dynwatch.Rejected) error {
			fmt.Println(r.Target, r.Name, "is not a valid object:", r.Reason)
			return nil
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer manager.Close()
	if err := manager.Apply([]dynwatch.Resource{{Group: "apps", Resource: "deployments"}}); err != nil {
		fmt.Println(err)
		return
	}
	for {
		entries, err := cursor.Read(ctx, 256) // blocks until there is an event
		if err != nil {
			fmt.Println(err)
			return
		}
		for i := range entries {
			fmt.Printf("%s\n", entries[i].Event.AppendJSON(nil))
		}
		// The journal frees the memory of events that every cursor has committed.
		if err := cursor.Commit(ctx, entries[len(entries)-1].Seq); err != nil {
			fmt.Println(err)
			return
		}
	}
}

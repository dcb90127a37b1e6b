package dynwatch_test

import (
	"context"
	"crypto/rand"
	"fmt"

	"k8s.io/client-go/rest"

	"github.com/informd/informd/pkg/dynwatch"
	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
)

// printer is a Log that only prints, so it needs no state. A real one keeps the events before
// Append returns: informd does not deliver them again.
type printer struct{ journal.Stateless }

func (printer) Append(_ context.Context, events []event.Event) error {
	for i := range events {
		fmt.Printf("%s\n", events[i].AppendJSON(nil))
	}
	return nil
}

// A program that prints every change of Deployments and, with their metadata
// only, of ConfigMaps.
func Example() {
	config, err := rest.InClusterConfig() // or clientcmd's, from a kubeconfig
	if err != nil {
		fmt.Println(err)
		return
	}
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails
	manager, err := dynwatch.New(dynwatch.Options{
		Cluster: "prod", Kubernetes: config, Log: printer{}, RedactionKey: key,
		Reject: func(_ context.Context, r dynwatch.Rejected) error {
			fmt.Println(r.Target, r.Name, "cannot be passed on:", r.Reason)
			return nil
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer manager.Close()
	if err := manager.Apply([]dynwatch.Resource{
		{Group: "apps", Resource: "deployments"},
		{Resource: "configmaps", Mode: dynwatch.Metadata},
	}); err != nil {
		fmt.Println(err)
		return
	}
	select {} // run until the process ends
}

package delivery_test

import (
	"context"
	"maps"
	"strconv"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"

	"github.com/informd/informd/pkg/dynwatch"
	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/test/cluster"
	"github.com/informd/informd/test/e2e"
)

// TestRunInAProgram: a Go program that keeps the revision of each ConfigMap has those of the API
// server, after changes and a restart of it.
func TestRunInAProgram(t *testing.T) {
	c := cluster.Start(t, cluster.Options{})
	client := dynamic.NewForConfigOrDie(e2e.Fast(c.RESTConfig()))
	configMaps, l := e2e.ConfigMapKind(), e2e.NewLedger()
	e2e.WriteAll(t, client, []e2e.Kind{configMaps}, l, 40, 1)

	var mu sync.Mutex
	seen := make(map[string]string)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- dynwatch.Run(ctx, dynwatch.Options{Kubernetes: c.RESTConfig()},
			[]dynwatch.Resource{{Resource: "configmaps", Namespaces: []string{configMaps.Namespace}}},
			func(e event.Event) error {
				mu.Lock()
				defer mu.Unlock()
				switch {
				case e.Op.Control():
				case e.Op.Ends():
					delete(seen, e.Name)
				default:
					seen[e.Name] = strconv.FormatUint(e.ResourceVersion, 10)
				}
				return nil
			})
	}()
	same := func() bool {
		list, err := client.Resource(configMaps.GVR).Namespace(configMaps.Namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return false
		}
		want := make(map[string]string, len(list.Items))
		for i := range list.Items {
			want[list.Items[i].GetName()] = list.Items[i].GetResourceVersion()
		}
		mu.Lock()
		defer mu.Unlock()
		return len(want) > 0 && maps.Equal(want, seen)
	}
	e2e.Eventually(t, "the objects that there are", same)
	e2e.WriteAll(t, client, []e2e.Kind{configMaps}, l, 40, 2)
	e2e.Eventually(t, "the changes", same)
	e2e.Must(t, c.APIServer(0).Kill())
	e2e.Must(t, c.APIServer(0).Start(t.Context()))
	e2e.WriteAll(t, client, []e2e.Kind{configMaps}, l, 40, 3)
	e2e.Eventually(t, "the changes after a restart of the API server", same)
	stop()
	if err := <-ended; err != nil {
		t.Errorf("Run ended with %v", err)
	}
}

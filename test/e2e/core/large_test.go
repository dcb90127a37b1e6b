package core_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/dynamic"

	"github.com/informd/informd/test/cluster"
	"github.com/informd/informd/test/e2e"
	"github.com/informd/informd/test/natsserver"
)

// TestObjectTooLargeForASink: what a destination can never take is put aside
// with the reason; what is around it goes on, in order, and the other sinks get it.
func TestObjectTooLargeForASink(t *testing.T) {
	c := cluster.Start(t, cluster.Options{})
	bus := natsserver.Start(t, natsserver.Options{}) // takes 1 MiB
	client := dynamic.NewForConfigOrDie(e2e.Fast(c.RESTConfig()))
	d := e2e.StartInformd(t, c.Kubeconfig(), "- {resource: configmaps, namespaces: [default]}",
		fmt.Sprintf("- {name: bus, type: nats, servers: [%q], subjectPrefix: k8s, stream: K8S}", bus.URL()))
	d.WaitForSync(1)
	w := e2e.NewWriter(client, e2e.ConfigMapKind(), e2e.NewLedger(), 1)
	usual := w.Kind.Fields
	e2e.Must(t, w.Create(t.Context(), "before"))
	w.Kind.Fields = func(int) map[string]any {
		return map[string]any{"data": map[string]any{"large": strings.Repeat("x", 1_000_000), "larger": strings.Repeat("\\", 40_000)}}
	}
	e2e.Must(t, w.Create(t.Context(), "large"))
	w.Kind.Fields = usual
	e2e.Must(t, w.Create(t.Context(), "after"))
	e2e.Eventually(t, "file complete", func() bool { return e2e.Complete([]e2e.Kind{w.Kind}, d.Records(), w.Ledger) })
	e2e.Check(t, w.Kind, d.Records(), w.Ledger, client, e2e.Claim{})
	var names []string
	e2e.Eventually(t, "the small ones on NATS", func() bool {
		names = nil
		for _, r := range e2e.ReadStream(t, bus.URL(), "K8S") {
			if !r.Control() {
				names = append(names, r.Name)
			}
		}
		return slices.Contains(names, "after")
	})
	if !slices.Equal(names, []string{"before", "after"}) {
		t.Errorf("on NATS: %q", names)
	}
	if letters := e2e.ReadLetters(t, d, "bus"); !strings.Contains(letters, `"name":"large"`) || !strings.Contains(letters, "max_payload") {
		t.Errorf("dead letters of bus: %.300s", letters)
	}
}

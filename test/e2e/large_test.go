package e2e_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/dynamic"

	"github.com/informd/informd/test/cluster"
	"github.com/informd/informd/test/natsserver"
)

// TestObjectTooLargeForASink: what a destination can never take is put aside
// with the reason; what is around it goes on, in order, and the other sinks get it.
func TestObjectTooLargeForASink(t *testing.T) {
	c := cluster.Start(t, cluster.Options{})
	bus := natsserver.Start(t, natsserver.Options{}) // takes 1 MiB
	client := dynamic.NewForConfigOrDie(fast(c.RESTConfig()))
	d := startInformd(t, c.Kubeconfig(), "- {resource: configmaps, namespaces: [default]}",
		fmt.Sprintf("- {name: bus, type: nats, servers: [%q], subjectPrefix: k8s, stream: K8S}", bus.URL()))
	d.waitForSync(1)
	w := newWriter(client, configMapKind(), newLedger(), 1)
	usual := w.kind.fields
	if err := w.create(t.Context(), "before"); err != nil {
		t.Fatal(err)
	}
	w.kind.fields = func(int) map[string]any {
		return map[string]any{"data": map[string]any{"large": strings.Repeat("x", 1_000_000), "larger": strings.Repeat("\\", 40_000)}}
	}
	if err := w.create(t.Context(), "large"); err != nil {
		t.Fatal(err)
	}
	w.kind.fields = usual
	if err := w.create(t.Context(), "after"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "file complete", func() bool { return complete([]kind{w.kind}, d.records(), w.ledger) })
	check(t, w.kind, d.records(), w.ledger, client, claim{})
	var names []string
	eventually(t, "the small ones on NATS", func() bool {
		names = nil
		for _, r := range readStream(t, bus.URL(), "K8S") {
			if !r.control() {
				names = append(names, r.Name)
			}
		}
		return slices.Contains(names, "after")
	})
	if !slices.Equal(names, []string{"before", "after"}) {
		t.Errorf("on NATS: %q", names)
	}
	if letters := readLetters(t, d, "bus"); !strings.Contains(letters, `"name":"large"`) || !strings.Contains(letters, "max_payload") {
		t.Errorf("dead letters of bus: %.300s", letters)
	}
}

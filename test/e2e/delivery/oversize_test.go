package delivery_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/dynamic"

	"github.com/informd/informd/test/cluster"
	"github.com/informd/informd/test/e2e"
)

// TestLargeObjects: objects of more than 1 MB go through in their place between the others and
// with every byte, whether they can be compressed or not. A new sink gets them from the journal.
func TestLargeObjects(t *testing.T) {
	const pairs = 4
	c := cluster.Start(t, cluster.Options{})
	client := dynamic.NewForConfigOrDie(e2e.Fast(c.RESTConfig()))
	s := e2e.Setup{
		Kubeconfig: c.Kubeconfig(), Resources: "- {resource: configmaps, namespaces: [default]}", Journal: e2e.LogJournal,
	}
	d := e2e.NewInformd(t, s)
	d.Start()
	d.WaitForSync(1)
	w := e2e.NewWriter(client, e2e.ConfigMapKind(), e2e.NewLedger(), 1)
	large, missing := make(map[string]string), make(map[string]bool)
	var order []string
	for i := range pairs {
		for name, data := range map[string][]byte{
			"plain": []byte(strings.Repeat("0123456789abcdef", 65_000)),
			"noise": e2e.Noise(1_048_000),
		} {
			small := fmt.Sprintf("small-%s-%d", name, i)
			w.Kind.Fields = e2e.ConfigMapKind().Fields
			e2e.Must(t, w.Create(t.Context(), small))
			name = fmt.Sprintf("%s-%d", name, i)
			encoded := base64.StdEncoding.EncodeToString(data) // 1.4 MB
			w.Kind.Fields = func(int) map[string]any { return map[string]any{"binaryData": map[string]any{"b": encoded}} }
			e2e.Must(t, w.Create(t.Context(), name))
			e2e.Must(t, w.Update(t.Context(), small))
			large[name], missing[name] = encoded, true
			order = append(order, small, name, small)
		}
	}
	e2e.Eventually(t, "stream complete", func() bool { return e2e.Complete([]e2e.Kind{w.Kind}, d.Records(), w.Ledger) })
	e2e.Check(t, w.Kind, d.Records(), w.Ledger, client, e2e.Claim{})
	d.Stop()

	late := filepath.Join(d.Dir, "late.ndjson")
	s.Sinks = fmt.Sprintf("- {name: late, type: file, path: %q}", late)
	d.Configure(s)
	d.Start()
	d.WaitForLive(1)
	var again e2e.EventFile
	for _, r := range again.Read(t, late) {
		if content := binaryData(t, r); content != large[r.Name] {
			t.Errorf("%s in the snapshot of a new sink has not the content that was written", r.Name)
		}
		delete(missing, r.Name)
	}
	if len(missing) > 0 {
		t.Errorf("the new sink's snapshot lacks %v", slices.Sorted(maps.Keys(missing)))
	}

	var names []string
	for _, r := range d.Records() {
		if r.Control() || r.Op == "snapshot" {
			continue
		}
		names = append(names, r.Name)
		if content := binaryData(t, r); content != large[r.Name] {
			t.Errorf("%s has not the content that was written", r.Name)
		}
	}
	if got, want := strings.Join(names, " "), strings.Join(order, " "); got != want {
		t.Errorf("order\ngot  %s\nwant %s", got, want)
	}
}

func binaryData(t *testing.T, r e2e.Record) string {
	t.Helper()
	if r.Control() {
		return ""
	}
	var o struct{ BinaryData map[string]string }
	if err := json.Unmarshal(r.Data.Object, &o); err != nil {
		t.Errorf("%s: %v", r.Name, err)
	}
	return o.BinaryData["b"]
}

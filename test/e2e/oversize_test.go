package e2e_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/dynamic"

	"github.com/informd/informd/test/cluster"
)

// TestLargeObjects: objects of more than 1 MB go through in their place between the others and
// with every byte, whether they can be compressed or not. A new sink gets them from the journal.
func TestLargeObjects(t *testing.T) {
	const pairs = 4
	c := cluster.Start(t, cluster.Options{})
	client := dynamic.NewForConfigOrDie(fast(c.RESTConfig()))
	s := setup{
		kubeconfig: c.Kubeconfig(), resources: "- {resource: configmaps, namespaces: [default]}", journal: logJournal,
	}
	d := newInformd(t, s)
	d.start()
	d.waitForSync(1)
	w := newWriter(client, configMapKind(), newLedger(), 1)
	large, missing := make(map[string]string), make(map[string]bool)
	var order []string
	for i := range pairs {
		for name, data := range map[string][]byte{
			"plain": []byte(strings.Repeat("0123456789abcdef", 65_000)),
			"noise": noise(1_048_000),
		} {
			small := fmt.Sprintf("small-%s-%d", name, i)
			w.kind.fields = configMapKind().fields
			if err := w.create(t.Context(), small); err != nil {
				t.Fatal(err)
			}
			name = fmt.Sprintf("%s-%d", name, i)
			encoded := base64.StdEncoding.EncodeToString(data) // 1.4 MB
			w.kind.fields = func(int) map[string]any { return map[string]any{"binaryData": map[string]any{"b": encoded}} }
			if err := w.create(t.Context(), name); err != nil {
				t.Fatal(err)
			}
			if err := w.update(t.Context(), small); err != nil {
				t.Fatal(err)
			}
			large[name], missing[name] = encoded, true
			order = append(order, small, name, small)
		}
	}
	eventually(t, "stream complete", func() bool { return complete([]kind{w.kind}, d.records(), w.ledger) })
	check(t, w.kind, d.records(), w.ledger, client, claim{})
	d.stop()

	late := filepath.Join(d.dir, "late.ndjson")
	s.sinks = fmt.Sprintf("- {name: late, type: file, path: %q}", late)
	d.configure(s)
	d.start()
	d.waitForLive(1)
	var again eventFile
	for _, r := range again.read(t, late) {
		if content := binaryData(t, r); content != large[r.Name] {
			t.Errorf("%s in the snapshot of a new sink has not the content that was written", r.Name)
		}
		delete(missing, r.Name)
	}
	if len(missing) > 0 {
		t.Errorf("the new sink's snapshot lacks %v", slices.Sorted(maps.Keys(missing)))
	}

	var names []string
	for _, r := range d.records() {
		if r.control() || r.Op == "snapshot" {
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

func binaryData(t *testing.T, r record) string {
	t.Helper()
	if r.control() {
		return ""
	}
	var o struct{ BinaryData map[string]string }
	if err := json.Unmarshal(r.Data.Object, &o); err != nil {
		t.Errorf("%s: %v", r.Name, err)
	}
	return o.BinaryData["b"]
}

// noise is bytes that cannot be compressed.
func noise(n int) []byte {
	random := rand.New(rand.NewPCG(1, 2))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(random.Uint32())
	}
	return b
}

package e2e_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/informd/informd/test/cluster"
)

// TestEmitWhen: what changes nothing that a change filter names is no event, live,
// while informd is away, and after it was killed; what does change comes to each sink
// that asks about it.
func TestEmitWhen(t *testing.T) {
	c := cluster.Start(t, cluster.Options{})
	maps := dynamic.NewForConfigOrDie(c.RESTConfig()).Resource(configMapKind().gvr).Namespace("default")
	create := func(name string) {
		t.Helper()
		object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name}}}
		if _, err := maps.Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	set := func(key, value string) {
		t.Helper()
		patch := fmt.Appendf(nil, `{"data":{%q:%q}}`, key, value)
		if _, err := maps.Patch(t.Context(), "x", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	// revisions are what has become of x since the last call, and a mark behind it.
	path, marks := filepath.Join(t.TempDir(), "sizes.ndjson"), 0
	d := newInformd(t, setup{
		kubeconfig: c.Kubeconfig(), journal: logJournal,
		resources: "- {resource: configmaps, namespaces: [default], emitWhen: {changed: [data.color, data.size], noop: false}}",
		sinks:     fmt.Sprintf("- {name: sizes, type: file, path: %q, match: [{changed: [data.size]}]}", path),
	})
	var out eventFile
	want := func(all, sizes int) {
		t.Helper()
		marks++
		mark := fmt.Sprint("mark-", marks)
		create(mark)
		marked := func(r record) bool { return r.Name == mark }
		eventually(t, mark, func() bool {
			return slices.ContainsFunc(d.records(), marked) && slices.ContainsFunc(out.read(t, path), marked)
		})
		modified := func(records []record) int {
			ids := make(map[string]bool) // a kill may have a file repeat some
			for _, r := range records {
				if r.Op == "modified" {
					ids[r.ID] = true
				}
			}
			return len(ids)
		}
		if a, s := modified(d.records()), modified(out.read(t, path)); a != all || s != sizes {
			t.Errorf("at %s all of %d changes and %d of sizes have come, want %d and %d", mark, a, s, all, sizes)
		}
	}
	create("x")
	d.start()
	d.waitForLive(1)
	set("color", "red")
	set("note", "1") // nobody asks about it
	set("size", "1")
	set("note", "2")
	want(2, 1)
	if n := d.metrics()[`informd_target_unchanged_total{target="core/configmaps@default"`]; n != 2 {
		t.Errorf("%v are counted, want 2", n)
	}
	d.kill()
	set("note", "3")
	d.start()
	d.waitForLive(1)
	want(2, 1)
	d.kill()
	set("note", "4")
	set("color", "blue")
	d.start()
	d.waitForLive(1)
	want(3, 1)
	set("size", "2")
	want(4, 2)
	if text, exit := d.command("verify"); exit != 0 {
		t.Errorf("verify exits with %d: %s", exit, text)
	}
}

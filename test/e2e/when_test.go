package e2e_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"github.com/informd/informd/test/cluster"
)

// TestWhen: a sink gets what its expression holds for, by the snapshot and live, each
// deletion, and nothing twice when the expression changes.
func TestWhen(t *testing.T) {
	c := cluster.Start(t, cluster.Options{})
	maps := dynamic.NewForConfigOrDie(c.RESTConfig()).Resource(configMapKind().gvr).Namespace("default")
	write := func(name, color string) {
		t.Helper()
		object := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name}, "data": map[string]any{"color": color},
		}}
		if color == "" {
			unstructured.RemoveNestedField(object.Object, "data")
		}
		if _, err := maps.Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	remove := func(name string) {
		t.Helper()
		if err := maps.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	write("old-red", "red")
	write("old-blue", "blue")

	path := filepath.Join(t.TempDir(), "colored.ndjson")
	d := newInformd(t, setup{
		kubeconfig: c.Kubeconfig(), resources: "- {resource: configmaps, namespaces: [default]}", journal: logJournal,
		sinks: fmt.Sprintf(`- {name: colored, type: file, path: %q, match: [{condition: 'object.data.color == "red"', onConditionError: drop}]}`, path),
	})
	file, base := mountConfig(t, d)
	d.start()
	d.waitForLive(1)
	write("red", "red")
	write("blue", "blue")
	write("none", "")
	remove("blue")
	var out eventFile
	got := func() []string {
		var lines []string
		for _, r := range out.read(t, path) {
			if r.Name != "kube-root-ca.crt" {
				lines = append(lines, strings.TrimSpace(r.Op+" "+r.Name))
			}
		}
		return lines
	}
	want := []string{"begin", "snapshot old-red", "synced", "added red", "deleted blue"}
	eventually(t, "the red ones and the deletion are there", func() bool { return slices.Equal(got(), want) })
	if n := d.metrics()[`informd_sink_condition_errors_total{sink="colored"`]; n == 0 {
		t.Error("an object without data is not counted")
	}
	eventually(t, "the log tells of it", func() bool {
		return strings.Contains(d.stderr.String(), `msg="condition could not be evaluated" sink=colored expression=match[0].condition`)
	})

	file.swap(strings.Replace(base, `== "red"`, `=== "red"`, 1))
	eventually(t, "the mistake is told", func() bool {
		return strings.Contains(d.configStatus().LastReloadError, "match[0].condition: Syntax error")
	})
	file.swap(strings.Replace(base, `== "red"`, `== "green"`, 1))
	eventually(t, "the expression has changed", func() bool { return d.configStatus().LastReloadSuccessful })
	write("red-again", "red")
	write("green", "green")
	want = append(want, "added green")
	eventually(t, "the green one is there", func() bool { return slices.Equal(got(), want) })
}

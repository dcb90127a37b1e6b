package watching_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"

	"github.com/informd/informd/test/cluster"
	"github.com/informd/informd/test/e2e"
)

// TestWhen: a sink gets what its expression holds for, by the snapshot and live, each
// deletion, and nothing twice when the expression changes.
func TestWhen(t *testing.T) {
	c := cluster.Start(t, cluster.Options{})
	maps := dynamic.NewForConfigOrDie(c.RESTConfig()).Resource(e2e.ConfigMapKind().GVR).Namespace("default")
	write := func(name, color string) {
		t.Helper()
		e2e.CreateConfigMap(t, maps, name, map[string]any{"color": color})
	}
	remove := func(name string) {
		t.Helper()
		e2e.Must(t, maps.Delete(t.Context(), name, metav1.DeleteOptions{}))
	}
	write("old-red", "red")
	write("old-blue", "blue")

	path := filepath.Join(t.TempDir(), "colored.ndjson")
	d := e2e.NewInformd(t, e2e.Setup{
		Kubeconfig: c.Kubeconfig(), Resources: "- {resource: configmaps, namespaces: [default]}", Journal: e2e.LogJournal,
		Sinks: fmt.Sprintf(`- {name: colored, type: file, path: %q, match: [{condition: 'object.data.color == "red"', onConditionError: drop}]}`, path),
	})
	file, base := e2e.MountConfig(t, d)
	d.Start()
	d.WaitForLive(1)
	write("red", "red")
	write("blue", "blue")
	e2e.CreateConfigMap(t, maps, "none", nil)
	remove("blue")
	var out e2e.EventFile
	got := func() []string {
		var lines []string
		for _, r := range out.Read(t, path) {
			if r.Name != "kube-root-ca.crt" {
				lines = append(lines, strings.TrimSpace(r.Op+" "+r.Name))
			}
		}
		return lines
	}
	want := []string{"begin", "snapshot old-red", "synced", "added red", "deleted blue"}
	e2e.Eventually(t, "the red ones and the deletion are there", func() bool { return slices.Equal(got(), want) })
	if n := d.Metrics()[`informd_sink_condition_errors_total{sink="colored"`]; n == 0 {
		t.Error("an object without data is not counted")
	}
	e2e.Eventually(t, "the log tells of it", func() bool {
		return strings.Contains(d.Stderr.String(), `msg="condition could not be evaluated" sink=colored expression=match[0].condition`)
	})

	file.Swap(strings.Replace(base, `== "red"`, `=== "red"`, 1))
	e2e.Eventually(t, "the mistake is told", func() bool {
		return strings.Contains(d.ConfigStatus().LastReloadError, "match[0].condition: Syntax error")
	})
	file.Swap(strings.Replace(base, `== "red"`, `== "green"`, 1))
	e2e.Eventually(t, "the expression has changed", func() bool { return d.ConfigStatus().LastReloadSuccessful })
	write("red-again", "red")
	write("green", "green")
	want = append(want, "added green")
	e2e.Eventually(t, "the green one is there", func() bool { return slices.Equal(got(), want) })
}

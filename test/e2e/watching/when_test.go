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

// TestEmitWhen: what changes nothing that a change filter names is no event, live,
// while informd is away, and after it was killed; what does change comes to each sink
// that asks about it.
func TestEmitWhen(t *testing.T) {
	c := cluster.Start(t, cluster.Options{})
	maps := dynamic.NewForConfigOrDie(c.RESTConfig()).Resource(e2e.ConfigMapKind().GVR).Namespace("default")
	set := func(key, value string) {
		t.Helper()
		e2e.Patch(t, maps, "x", fmt.Sprintf(`{"data":{%q:%q}}`, key, value))
	}
	// revisions are what has become of x since the last call, and a mark behind it.
	path, marks := filepath.Join(t.TempDir(), "sizes.ndjson"), 0
	d := e2e.NewInformd(t, e2e.Setup{
		Kubeconfig: c.Kubeconfig(), Journal: e2e.LogJournal,
		Resources: "- {resource: configmaps, namespaces: [default], emitWhen: {changed: [data.color, data.size], noop: false}}",
		Sinks:     fmt.Sprintf("- {name: sizes, type: file, path: %q, match: [{changed: [data.size]}]}", path),
	})
	var out e2e.EventFile
	want := func(all, sizes int) {
		t.Helper()
		marks++
		mark := fmt.Sprint("mark-", marks)
		e2e.CreateConfigMap(t, maps, mark, nil)
		marked := func(r e2e.Record) bool { return r.Name == mark }
		e2e.Eventually(t, mark, func() bool {
			return slices.ContainsFunc(d.Records(), marked) && slices.ContainsFunc(out.Read(t, path), marked)
		})
		modified := func(records []e2e.Record) int {
			ids := make(map[string]bool) // a kill may have a file repeat some
			for _, r := range records {
				if r.Op == "modified" {
					ids[r.ID] = true
				}
			}
			return len(ids)
		}
		if a, s := modified(d.Records()), modified(out.Read(t, path)); a != all || s != sizes {
			t.Errorf("at %s all of %d changes and %d of sizes have come, want %d and %d", mark, a, s, all, sizes)
		}
	}
	e2e.CreateConfigMap(t, maps, "x", nil)
	d.Start()
	d.WaitForLive(1)
	set("color", "red")
	set("note", "1") // nobody asks about it
	set("size", "1")
	set("note", "2")
	want(2, 1)
	if n := d.Metrics()[`informd_target_unchanged_total{target="core/configmaps@default"`]; n != 2 {
		t.Errorf("%v are counted, want 2", n)
	}
	d.Kill()
	set("note", "3")
	d.Start()
	d.WaitForLive(1)
	want(2, 1)
	d.Kill()
	set("note", "4")
	set("color", "blue")
	d.Start()
	d.WaitForLive(1)
	want(3, 1)
	set("size", "2")
	want(4, 2)
	if text, exit := d.Command("verify"); exit != 0 {
		t.Errorf("verify exits with %d: %s", exit, text)
	}
}

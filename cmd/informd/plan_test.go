package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/informd/informd/pkg/dynwatch"
)

// mixedPlan has a bit of everything.
func mixedPlan() []dynwatch.TargetPlan {
	return []dynwatch.TargetPlan{
		{Name: "apps/deployments", Group: "apps", Version: "v1", Resource: "deployments", Kind: "Deployment", Mode: dynwatch.Full, State: dynwatch.Ready, ResourceVersion: 2_000_000, Objects: 412, Bytes: 3 << 20, WatchFrom: 1_998_796, EtcdFrom: 1_900_000},
		{Name: "core/configmaps@shop", Version: "v1", Resource: "configmaps", Namespace: "shop", Kind: "ConfigMap", Mode: dynwatch.Metadata, State: dynwatch.Ready, ResourceVersion: 2_000_000, WatchFrom: 1, EtcdFrom: 1},
		{Name: "core/events", Version: "v1", Resource: "events", Kind: "Event", Mode: dynwatch.Full, State: dynwatch.Ready, ResourceVersion: 2_000_000, Objects: 5000, More: true, Bytes: 4 << 20, WatchFrom: 1_900_000, EtcdFrom: 1_900_000},
		{Name: "core/pods", Version: "v1", Resource: "pods", Kind: "Pod", Mode: dynwatch.Full, State: dynwatch.Forbidden, ResourceVersion: 2_000_000, Objects: 7, Bytes: 700, MissingVerbs: []string{"watch"}, Reason: `watch: pods is forbidden: User "x" cannot watch resource "pods" in API group "" at the cluster scope`},
		{Name: "core/secrets", Resource: "secrets", Mode: dynwatch.Full, State: dynwatch.Forbidden, MissingVerbs: []string{"list", "watch"}, Reason: "list: secrets is forbidden"},
		{Name: "example.com/sensors", Group: "example.com", Resource: "sensors", Mode: dynwatch.Full, State: dynwatch.Waiting, Reason: `not served: the API server has no group "example.com"`},
		{Name: "metrics.k8s.io/nodes", Group: "metrics.k8s.io", Version: "v1beta1", Resource: "nodes", Kind: "NodeMetrics", Mode: dynwatch.Full, State: dynwatch.Ready, ResourceVersion: 2_000_000, Objects: 3, Bytes: 900, WatchFrom: 1_999_999, Reason: "how far back one can go is not known: list at 1: it is broken"},
	}
}

func TestPlanOutputs(t *testing.T) {
	for output, show := range planPrinters() {
		t.Run(output, func(t *testing.T) {
			var out bytes.Buffer
			if err := show(&out, newPlan("prod-eu1", "https://10.0.0.1:6443", mixedPlan())); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join("testdata", "plan-"+output+".golden")
			if *update {
				if err := os.WriteFile(path, out.Bytes(), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), out.String()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Whatever the API server says does not act on the terminal, nor add lines to the table.
func TestPlanIsHarmless(t *testing.T) {
	const x = "a\x1b[2J\r\nb\u009b\u202e\tc\xff\u2028"
	hostile := func(x string) []dynwatch.TargetPlan {
		return []dynwatch.TargetPlan{{Name: x, Version: x, Kind: x, State: dynwatch.Forbidden, Reason: x, ResourceVersion: 1}}
	}
	lines := make(map[string]int)
	for output, show := range planPrinters() {
		for _, text := range []string{"plain", x} {
			var out bytes.Buffer
			if err := show(&out, newPlan(text, text, hostile(text))); err != nil {
				t.Fatal(err)
			}
			checkHarmless(t, out.String())
			if n := strings.Count(out.String(), "\n"); lines[output] == 0 {
				lines[output] = n
			} else if n != lines[output] {
				t.Errorf("%s: %d lines, want %d:\n%s", output, n, lines[output], out.String())
			}
		}
	}
}

// The documents are one and the same.
func TestPlanDocuments(t *testing.T) {
	var inJSON, inYAML bytes.Buffer
	p := newPlan("prod-eu1", "https://10.0.0.1:6443", mixedPlan())
	if err := printPlanJSON(&inJSON, p); err != nil {
		t.Fatal(err)
	}
	if err := printPlanYAML(&inYAML, p); err != nil {
		t.Fatal(err)
	}
	var one, other map[string]any
	if err := json.Unmarshal(inJSON.Bytes(), &one); err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(inYAML.Bytes(), &other); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(one, other); diff != "" {
		t.Error(diff)
	}
}

func TestGrouped(t *testing.T) {
	for n, want := range map[uint64]string{0: "0", 999: "999", 1000: "1,000", 1204: "1,204", 123456: "123,456", 18446744073709551615: "18,446,744,073,709,551,615"} {
		if got := grouped(n); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}

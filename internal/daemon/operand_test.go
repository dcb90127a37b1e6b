package daemon //nolint:testpackage // the names are those that operator commands send

import (
	"errors"
	"strings"
	"testing"

	"github.com/informd/informd/internal/admin"
	"github.com/informd/informd/internal/tail"
	"github.com/informd/informd/pkg/dynwatch"
)

// TestWatchedResource: an operator names a resource as kubectl does.
func TestWatchedResource(t *testing.T) {
	targets := []dynwatch.TargetStatus{
		{Version: "v1", Resource: "pods"},
		{Version: "v1", Resource: "configmaps", Namespace: "a"},
		{Version: "v1", Resource: "configmaps", Namespace: "b"},
		{Group: "apps", Version: "v1", Resource: "deployments"},
		{Version: "v1", Resource: "events"},
		{Group: "events.k8s.io", Version: "v1", Resource: "events"},
	}
	for said, want := range map[string]string{
		"pods": "core/pods", "pods.core": "core/pods", "core/pods": "core/pods", "configmaps": "core/configmaps",
		"deployments": "apps/deployments", "deployments.apps": "apps/deployments", "deployments.v1.apps": "apps/deployments",
		"apps/deployments": "apps/deployments", "events": "core/events", "events.core": "core/events", "events.events.k8s.io": "events.k8s.io/events",
	} {
		if got, err := watchedResource(said, targets); got != want || err != nil {
			t.Errorf("%s: %q, %v; want %q", said, got, err, want)
		}
	}
	for said, want := range map[string]string{
		"configmap":            `informd does not watch the resource "configmap" (did you mean "configmaps"?)`,
		"deployments.v2.apps":  `informd does not watch the resource "deployments.v2.apps" (did you mean "deployments.apps"?)`,
		"widgets.example.com":  `(watched resources: configmaps, deployments.apps, events, events.events.k8s.io, pods)`,
		"core/deploymentsmore": `informd does not watch the resource`,
	} {
		if _, err := watchedResource(said, targets); !errors.Is(err, admin.ErrUnknown) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", said, err, want)
		}
	}
}

// TestAmbiguousResource: a name of two groups is ambiguous if neither is the core group.
func TestAmbiguousResource(t *testing.T) {
	targets := []dynwatch.TargetStatus{{Group: "a.example.com", Version: "v1", Resource: "things"}, {Group: "b.example.com", Version: "v1", Resource: "things"}}
	const want = `the resource "things" is ambiguous: name one of things.a.example.com, things.b.example.com`
	if _, err := watchedResource("things", targets); !errors.Is(err, admin.ErrUnknown) || err.Error() != want {
		t.Errorf("%v; want %q", err, want)
	}
}

// TestUnknownSink: the error names the sink that was probably meant, else those there are.
func TestUnknownSink(t *testing.T) {
	for said, want := range map[string]string{
		"buss": `there is no sink "buss" (did you mean "bus"?)`,
		"x":    `there is no sink "x" (sinks: bus, hook)`,
	} {
		if err := unknownSink(said, []string{"bus", "hook"}); err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestTailOfWhatIsNotWatched: a tail of a resource that no target has is refused, with the name that was meant.
func TestTailOfWhatIsNotWatched(t *testing.T) {
	targets := []dynwatch.TargetStatus{{Version: "v1", Resource: "pods"}, {Group: "apps", Version: "v1", Resource: "deployments"}}
	for said, want := range map[string]string{
		"": "", "pods": "", "*.apps": "", "deployments.apps": "", "deployments.v1.apps": "", "deployments": "",
		"zebras.example.com": "(watched resources: deployments.apps, pods)",
		"pod":                `did you mean "pods"`, "deployment.apps": `did you mean "deployments.apps"`,
	} {
		wants, err := tail.Filter{Resource: said}.Compile()
		if err != nil {
			t.Fatal(err)
		}
		if err := checkWatched(wants, targets); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", said, err, want)
		}
		if err := checkWatched(wants, nil); err != nil {
			t.Errorf("%q, before there are targets: %v", said, err)
		}
	}
}

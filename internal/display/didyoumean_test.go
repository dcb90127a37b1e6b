package display_test

import (
	"testing"

	"github.com/informd/informd/internal/display"
)

func TestNearest(t *testing.T) {
	candidates := []string{"configmaps", "deployments.apps", "pods", "resnapshotEvery"}
	for word, want := range map[string]string{
		"configmap": "configmaps", "deploymnets.apps": "deployments.apps", "Pods": "pods", "resnapshot-every": "resnapshotEvery",
		"deployments": "deployments.apps", "x": "", "": "", "ingresses": "",
	} {
		if got, ok := display.Nearest(word, candidates); got != want || ok != (want != "") {
			t.Errorf("%q: %q, %t; want %q", word, got, ok, want)
		}
	}
}

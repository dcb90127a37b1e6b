package spelling_test

import (
	"testing"

	"github.com/informd/informd/internal/spelling"
)

func TestNearest(t *testing.T) {
	candidates := []string{"configmaps", "deployments.apps", "pods", "resnapshotEvery"}
	for word, want := range map[string]string{
		"configmap": "configmaps", "deploymnets.apps": "deployments.apps", "Pods": "pods", "resnapshot-every": "resnapshotEvery",
		"deployments": "deployments.apps", "x": "", "": "", "ingresses": "",
	} {
		if got, ok := spelling.Nearest(word, candidates); got != want || ok != (want != "") {
			t.Errorf("%q: %q, %t; want %q", word, got, ok, want)
		}
	}
}

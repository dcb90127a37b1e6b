// Package deploy_test checks what is in deploy/, apart from the chart. It builds the kustomizations with
// kustomize itself: each object decodes strictly into the types of the API, Pods are restricted,
// permissions are exactly those that the config inside needs, informd accepts this config, and a
// real API server accepts the objects. The build of the image makes a static binary.
package deploy_test

import (
	"os"
	"path/filepath"
	"testing"
)

// root is the top of the repository, from here.
const root = "../.."

// monitoring is a component, which is not applied alone.
const monitoring = "deploy/kustomize/components/monitoring"

// kustomizations are all there are, from root.
func kustomizations() []string {
	return []string{
		"deploy/kustomize/base",
		"deploy/kustomize/overlays/ha",
		"deploy/kustomize/overlays/nats",
		"deploy/kustomize/overlays/sidecar",
	}
}

// eachKustomization runs f on everything that can be deployed.
func eachKustomization(t *testing.T, f func(t *testing.T, d deployment)) {
	t.Helper()
	for _, dir := range kustomizations() {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			f(t, build(t, dir))
		})
	}
}

// read returns a file of the repository.
func read(t *testing.T, elem ...string) []byte {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(append([]string{root}, elem...)...))
	must(t, err)
	return content
}

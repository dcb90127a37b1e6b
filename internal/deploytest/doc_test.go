// Package deploytest checks what stands in deploy/: that every manifest decodes
// strictly into the API's types, that the kustomizations are whole, that pods are
// locked down, that permissions are exactly what the config inside needs, that
// this config is one the program accepts, and that the image's build works.
//
// It has no code but tests. It lives here, not in deploy/, because the config's
// decoder is internal to informd.
package deploytest

import (
	"os"
	"path/filepath"
	"testing"
)

// root is the top of the repository, from here.
const root = "../.."

// kustomizations are all there are, from root.
func kustomizations() []string {
	return []string{
		"deploy/kustomize/base",
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
	if err != nil {
		t.Fatal(err)
	}
	return content
}

package deploy_test

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/informd/informd/test/applied"
)

// must ends a test that an error leaves nothing to check in.
func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// deployment is what `kubectl apply -k` applies.
type deployment struct {
	namespace string
	manifests []manifest
	objects   []*unstructured.Unstructured
}

// build builds the kustomization in dir.
func build(t *testing.T, dir string) deployment {
	t.Helper()
	documents := applied.Kustomize(t, filepath.Join(root, dir))
	d := deployment{manifests: decodeManifests(t, dir, bytes.Join(documents, []byte("\n---\n")))}
	for _, document := range documents {
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(document, &o.Object); err != nil {
			t.Fatalf("%s: %v", dir, err)
		}
		d.objects = append(d.objects, o)
	}
	accounts := find[*corev1.ServiceAccount](d)
	if len(accounts) != 1 || accounts[0].Namespace == "" {
		t.Fatalf("%s: %d service accounts, want one in a namespace", dir, len(accounts))
	}
	d.namespace = accounts[0].Namespace
	return d
}

// configMap returns the files of a ConfigMap, nil if there is none.
func (d deployment) configMap(name string) map[string]string {
	for _, c := range find[*corev1.ConfigMap](d) {
		if c.Name == name {
			return c.Data
		}
	}
	return nil
}

// decodeStrictly decodes one YAML document. Unknown and repeated fields, and
// fields in the wrong case, are errors.
func decodeStrictly(t *testing.T, name string, document []byte, into any) {
	t.Helper()
	text, err := yaml.YAMLToJSONStrict(document)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	problems, err := kjson.UnmarshalStrict(text, into)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	for _, p := range problems {
		t.Errorf("%s: %v", name, p)
	}
}

// documents splits a YAML stream. A document of comments alone is none.
func documents(stream []byte) [][]byte {
	var all [][]byte
	for d := range bytes.SplitSeq(stream, []byte("\n---\n")) {
		for line := range strings.Lines(string(d)) {
			if text := strings.TrimSpace(line); text != "" && !strings.HasPrefix(text, "#") {
				all = append(all, d)
				break
			}
		}
	}
	return all
}

// files is the part of a kustomization that names files.
type files struct {
	Resources          []string
	ConfigMapGenerator []struct{ Files []string }
	Patches            []struct{ Path string }
}

// A file that no kustomization names is never applied, without an error.
func TestEveryFileIsUsed(t *testing.T) {
	used := make(map[string]bool)
	for _, dir := range append(kustomizations(), monitoring) {
		var k files
		must(t, yaml.Unmarshal(read(t, dir, "kustomization.yaml"), &k))
		used[filepath.Join(dir, "kustomization.yaml")] = true
		for _, r := range k.Resources {
			used[filepath.Join(dir, r)] = true
		}
		for _, p := range k.Patches {
			used[filepath.Join(dir, p.Path)] = true
		}
		for _, g := range k.ConfigMapGenerator {
			for _, file := range g.Files {
				used[filepath.Join(dir, file[strings.IndexByte(file, '=')+1:])] = true
			}
		}
	}
	top := os.DirFS(root)
	err := fs.WalkDir(top, "deploy/kustomize", func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && !used[path] {
			t.Errorf("%s is in no kustomization", path)
		}
		return err
	})
	must(t, err)
}

package deploytest

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// kustomization is the part of kustomize's format that deploy/ uses. Anything
// else in one of these files is an error here, so that the tests cannot overlook
// a patch.
type kustomization struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace"`
	Labels     []struct {
		Pairs map[string]string `json:"pairs"`
	} `json:"labels"`
	Resources          []string             `json:"resources"`
	ConfigMapGenerator []configMapGenerator `json:"configMapGenerator"`
	Images             []struct {
		Name    string `json:"name"`
		NewName string `json:"newName"`
		NewTag  string `json:"newTag"`
	} `json:"images"`
}

type configMapGenerator struct {
	Name     string   `json:"name"`
	Behavior string   `json:"behavior"`
	Files    []string `json:"files"`
}

// deployment is what `kustomize build` would apply, as far as the tests ask.
type deployment struct {
	namespace string
	manifests []manifest
	// configMaps are the generated ones: name, then file.
	configMaps map[string]map[string][]byte
	// images maps the names in the manifests to what is pulled.
	images map[string]string
}

// build reads the kustomization in dir and those it includes.
func build(t *testing.T, dir string) deployment {
	t.Helper()
	var k kustomization
	decodeStrictly(t, filepath.Join(dir, "kustomization.yaml"), read(t, dir, "kustomization.yaml"), &k)
	if k.APIVersion != "kustomize.config.k8s.io/v1beta1" || k.Kind != "Kustomization" {
		t.Errorf("%s: %s %s is no kustomization", dir, k.APIVersion, k.Kind)
	}
	d := deployment{
		namespace:  k.Namespace,
		configMaps: make(map[string]map[string][]byte),
		images:     make(map[string]string),
	}
	for _, r := range k.Resources {
		path := filepath.Join(dir, r)
		if !strings.HasSuffix(r, ".yaml") {
			base := build(t, path)
			d.manifests = append(d.manifests, base.manifests...)
			d.configMaps, d.images = base.configMaps, base.images
			continue
		}
		d.manifests = append(d.manifests, decodeManifests(t, path, read(t, path))...)
	}
	for _, g := range k.ConfigMapGenerator {
		_, exists := d.configMaps[g.Name]
		if replaces := g.Behavior == "replace"; replaces != exists {
			t.Errorf("%s: config map %s: behavior %q, but exists below: %t", dir, g.Name, g.Behavior, exists)
		}
		d.configMaps[g.Name] = make(map[string][]byte)
		for _, file := range g.Files {
			d.configMaps[g.Name][file] = read(t, dir, file)
		}
	}
	for _, i := range k.Images {
		d.images[i.Name] = i.NewName + ":" + i.NewTag
	}
	return d
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

// A file that no kustomization names is never applied, which nobody notices.
func TestEveryFileIsUsed(t *testing.T) {
	used := make(map[string]bool)
	for _, dir := range kustomizations() {
		var k kustomization
		decodeStrictly(t, dir, read(t, dir, "kustomization.yaml"), &k)
		used[filepath.Join(dir, "kustomization.yaml")] = true
		for _, r := range k.Resources {
			used[filepath.Join(dir, r)] = true
		}
		for _, g := range k.ConfigMapGenerator {
			for _, file := range g.Files {
				used[filepath.Join(dir, file)] = true
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
	if err != nil {
		t.Fatal(err)
	}
}

package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rhysd/actionlint"
)

const root = "../.."

// written writes files below a directory.
func written(t *testing.T, dir string, files map[string]string) string {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestCheck(t *testing.T) {
	good := map[string]string{
		"deploy/helm/informd/Chart.yaml":           "version: 1.2.3\nappVersion: v1.2.3\n",
		"deploy/kustomize/base/kustomization.yaml": "images: [{name: informd, newTag: v1.2.3}]\n",
		"CHANGELOG.md": "# Changelog\n\n## [Unreleased]\n\n## [1.2.3] - 2026-12-01\n\n- New.\n\n## [1.2.2]\n\n- Old.\n",
	}
	notes, err := check(written(t, t.TempDir(), good), "v1.2.3")
	if err != nil || notes != "- New.\n" {
		t.Errorf("notes %q, %v", notes, err)
	}
	for want, file := range map[string][2]string{
		`version is "1.2.2"`:                                      {"deploy/helm/informd/Chart.yaml", "version: 1.2.2\nappVersion: v1.2.3\n"},
		`appVersion is "1.2.3"`:                                   {"deploy/helm/informd/Chart.yaml", "version: 1.2.3\nappVersion: 1.2.3\n"},
		`informd.dev/unreleased is "`:                             {"deploy/helm/informd/Chart.yaml", "version: 1.2.3\nappVersion: v1.2.3\nannotations: {informd.dev/unreleased: \"true\"}\n"},
		`overlays/sidecar/kustomization.yaml: newTag is "v1.2.2"`: {"deploy/kustomize/overlays/sidecar/kustomization.yaml", "images: [{name: informd, newTag: v1.2.2}]\n"},
		`newTag is "v1.2.2"`:                                      {"deploy/kustomize/base/kustomization.yaml", "images: [{name: informd, newTag: v1.2.2}]\n"},
		"no section [1.2.3]":                                      {"CHANGELOG.md", "# Changelog\n\n## [Unreleased]\n"},
	} {
		dir := written(t, written(t, t.TempDir(), good), map[string]string{file[0]: file[1]})
		if _, err := check(dir, "v1.2.3"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", file[0], err, want)
		}
	}
	for _, tag := range []string{"", "1.2.3", "v1.2", "v1.2.3 --push"} {
		if _, err := check(root, tag); err == nil {
			t.Errorf("tag %q is accepted", tag)
		}
	}
}

// TestReadsWhatGoreleaserWrites: the binaries for Linux, at paths that begin beside dist.
func TestReadsWhatGoreleaserWrites(t *testing.T) {
	dir := written(t, t.TempDir(), map[string]string{
		"dist/metadata.json": `{"project_name":"informd","tag":"v1.2.3","version":"1.2.3","commit":"abc","date":"2026-12-01T10:00:00Z"}`,
		"dist/artifacts.json": `[
			{"name":"informd","path":"dist/a/informd","goos":"linux","goarch":"amd64","type":"Binary"},
			{"name":"informd","path":"dist/d/informd","goos":"darwin","goarch":"arm64","type":"Binary"},
			{"name":"x.tar.gz","path":"dist/x.tar.gz","goos":"linux","goarch":"arm64","type":"Archive"}]`,
		"dist/a/informd": "no binary",
	})
	err := run(t.Context(), []string{"image", "-dist", filepath.Join(dir, "dist"), "-base", "127.0.0.1:1/none", "-layout", t.TempDir()})
	if err == nil || !strings.Contains(err.Error(), "127.0.0.1:1") {
		t.Errorf("without a registry: %v", err)
	}
	for _, args := range [][]string{nil, {"push"}, {"image"}, {"image", "-push", "a", "-layout", "b"}} {
		if err := run(t.Context(), args); err == nil {
			t.Errorf("%q is accepted", args)
		}
	}
}

// TestWorkflows checks the workflows of GitHub with actionlint. Their make targets exist.
func TestWorkflows(t *testing.T) {
	files, err := filepath.Glob(root + "/.github/workflows/*.yml")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d workflows, %v", len(files), err)
	}
	var out strings.Builder
	linter, err := actionlint.NewLinter(&out, &actionlint.LinterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if found, err := linter.LintFiles(files, nil); err != nil || len(found) > 0 {
		t.Errorf("%d findings, %v\n%s", len(found), err, out.String())
	}
	makefile := read(t, "Makefile")
	for _, f := range files {
		for _, target := range regexp.MustCompile(`run: make ([a-z-]+)`).FindAllStringSubmatch(read(t, strings.TrimPrefix(f, root+"/")), -1) {
			if !strings.Contains(makefile, "\n"+target[1]+":") {
				t.Errorf("%s: there is no make target %s", f, target[1])
			}
		}
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestReleasedBinaries: goreleaser builds with the flags of `make build`, for all platforms, and archives
// only files that exist. `make snapshot` has goreleaser itself check the file.
func TestReleasedBinaries(t *testing.T) {
	var config struct {
		Builds []struct {
			Main                string
			Env, Flags, Ldflags []string
			Goos, Goarch        []string
		}
		Archives []struct{ Files []struct{ Src string } }
	}
	if err := decodeYAML(root+"/.goreleaser.yaml", &config); err != nil {
		t.Fatal(err)
	}
	if len(config.Builds) != 1 || len(config.Archives) != 1 {
		t.Fatalf("%d builds, %d archives", len(config.Builds), len(config.Archives))
	}
	b := config.Builds[0]
	line := regexp.MustCompile(`(?m)^\t(CGO_ENABLED=0) \$\(GO\) build (-trimpath) -ldflags '\$\(LDFLAGS\)' -o \S+ (\S+)$`).FindStringSubmatch(read(t, "Makefile"))
	flags := regexp.MustCompile(`(?m)^LDFLAGS := (.*)\$\(VERSION\)$`).FindStringSubmatch(read(t, "Makefile"))
	if line == nil || flags == nil {
		t.Fatal("the Makefile has no build like before")
	}
	want := []any{line[1:], []string{flags[1] + "v{{ .Version }}"}, []string{"linux", "darwin"}, []string{"amd64", "arm64"}}
	has := []any{slices.Concat(b.Env, b.Flags, []string{b.Main}), b.Ldflags, b.Goos, b.Goarch}
	if diff := cmp.Diff(want, has); diff != "" {
		t.Errorf("(-make build +goreleaser):\n%s", diff)
	}
	for _, f := range config.Archives[0].Files {
		if strings.HasPrefix(f.Src, "bin/man/") { // `make man` writes them
			continue
		}
		if _, err := os.Stat(filepath.Join(root, f.Src)); err != nil {
			t.Error(err)
		}
	}
}

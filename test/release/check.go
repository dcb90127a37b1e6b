package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"sigs.k8s.io/yaml"
)

// check returns the notes of a version from CHANGELOG.md. It fails if a file in a repository does
// not name the version.
func check(root, tag string) (notes string, err error) {
	version := strings.TrimPrefix(tag, "v")
	if !regexp.MustCompile(`^v\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?$`).MatchString(tag) {
		return "", fmt.Errorf("tag %q: it must be a version, as in v1.2.3", tag)
	}
	var chart struct {
		Version, AppVersion string
		Annotations         map[string]string
	}
	var base struct {
		Images []struct{ NewTag string }
	}
	const chartFile, baseFile = "deploy/helm/informd/Chart.yaml", "deploy/kustomize/base/kustomization.yaml"
	if err := errors.Join(decodeYAML(filepath.Join(root, chartFile), &chart), decodeYAML(filepath.Join(root, baseFile), &base)); err != nil {
		return "", err
	}
	var wrong []error
	differ := func(file, key, has, want string) {
		if has != want {
			wrong = append(wrong, fmt.Errorf("%s: %s is %q, want %q", file, key, has, want))
		}
	}
	differ(chartFile, "version", chart.Version, version)
	differ(chartFile, "appVersion", chart.AppVersion, tag)
	differ(chartFile, "annotation "+unreleased, chart.Annotations[unreleased], "")
	for _, i := range base.Images {
		differ(baseFile, "newTag", i.NewTag, tag)
	}
	log, err := os.ReadFile(filepath.Join(root, "CHANGELOG.md"))
	if err != nil {
		return "", err
	}
	_, after, found := strings.Cut(string(log), "\n## ["+version+"]")
	if !found {
		wrong = append(wrong, fmt.Errorf("CHANGELOG.md has no section [%s]", version))
	}
	_, after, _ = strings.Cut(after, "\n") // the rest of the heading is the date
	notes, _, _ = strings.Cut(after, "\n## ")
	return strings.TrimSpace(notes) + "\n", errors.Join(wrong...)
}

// unreleased marks a chart whose image is not published.
const unreleased = "informd.dev/unreleased"

func decodeYAML(path string, into any) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := yaml.Unmarshal(text, into); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

package main

import (
	"errors"
	"fmt"
	"io/fs"
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
	const chartFile = "deploy/helm/informd/Chart.yaml"
	if err := decodeYAML(filepath.Join(root, chartFile), &chart); err != nil {
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
	tags, err := imageTags(filepath.Join(root, "deploy/kustomize"))
	if err != nil {
		return "", err
	}
	for _, has := range tags {
		differ(has.file, "newTag", has.tag, tag)
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

type imageTag struct{ file, tag string }

// imageTags returns the tags of informd's image that the kustomizations below a directory set.
func imageTags(dir string) (tags []imageTag, err error) {
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.Name() != "kustomization.yaml" {
			return err
		}
		var k struct {
			Images []struct{ Name, NewTag string }
		}
		if err := decodeYAML(path, &k); err != nil {
			return err
		}
		for _, i := range k.Images {
			if i.Name == "informd" {
				tags = append(tags, imageTag{path, i.NewTag})
			}
		}
		return nil
	})
	if err == nil && len(tags) == 0 {
		err = fmt.Errorf("no kustomization in %s sets the image of informd", dir)
	}
	return tags, err
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

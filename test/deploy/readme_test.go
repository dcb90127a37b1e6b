package deploy_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	networkingv1 "k8s.io/api/networking/v1"
)

// readmeFiles are the yaml blocks of deploy/README.md.
func readmeFiles(t *testing.T) []string {
	t.Helper()
	var blocks []string
	for _, found := range regexp.MustCompile("(?ms)^```yaml\n(.*?)^```").FindAllStringSubmatch(string(read(t, "deploy/README.md")), -1) {
		blocks = append(blocks, found[1])
	}
	return blocks
}

// Each block of values in deploy/README.md renders to a config that informd accepts, and to Secrets that the
// group of the Pod reads.
func TestReadmeValues(t *testing.T) {
	rendered := 0
	for _, block := range readmeFiles(t) {
		if !regexp.MustCompile(`(?m)^config:`).MatchString(block) {
			continue
		}
		rendered++
		file := filepath.Join(t.TempDir(), "values.yaml")
		must(t, os.WriteFile(file, []byte(block), 0o600))
		r := render(t, file, "informd", "informd")
		c := parsed(t, r)
		checkWarnings(t, c)
		s := only[*appsv1.StatefulSet](t, r)
		checkModes(t, s)
		if strings.Contains(block, "servers:") != (len(c.Sinks) == 1 && c.Sinks[0].Type == "nats") {
			t.Errorf("sinks %v of\n%s", c.Sinks, block)
		}
	}
	if rendered < 2 {
		t.Errorf("deploy/README.md has %d blocks of values", rendered)
	}
}

// The files that deploy/README.md has for kustomize build, with the base of this checkout.
func TestReadmeKustomization(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	top, err := filepath.Abs(root)
	must(t, err)
	local, err := filepath.Rel(dir, top)
	must(t, err)
	name := regexp.MustCompile(`^# (\S+\.yaml)\b`)
	for _, block := range readmeFiles(t) {
		found := name.FindStringSubmatch(block)
		if found == nil {
			continue
		}
		block = strings.NewReplacer("github.com/informd/informd/", filepath.ToSlash(local)+"/", "?ref=main", "").Replace(block)
		must(t, os.WriteFile(filepath.Join(dir, found[1]), []byte(block), 0o600))
	}
	r := built(t, dir)
	s := only[*appsv1.StatefulSet](t, r)
	checkModes(t, s)
	checkSecurity(t, r)
	if c := parsed(t, r); len(c.Sinks) != 1 || c.Sinks[0].Type != "nats" {
		t.Errorf("the sinks are %v", c.Sinks)
	}
	_, main := informdOf(t, r)
	if image := main.Image; image != "registry.example.com/informd:dev" {
		t.Errorf("the image is %s", image)
	}
	if mounts := main.VolumeMounts; mounts[len(mounts)-1].MountPath != "/etc/informd-files" {
		t.Errorf("mounts %v", mounts)
	}
	if of[*networkingv1.NetworkPolicy](r)["informd/informd-to-sinks"] == nil {
		t.Error("the policy for the sinks is missing")
	}
}

// checkModes: the files of a Secret are for the user and the group of the Pod, and for no other ones.
func checkModes(t *testing.T, s *appsv1.StatefulSet) {
	t.Helper()
	for _, v := range s.Spec.Template.Spec.Volumes {
		if v.Secret != nil && (v.Secret.DefaultMode == nil || *v.Secret.DefaultMode != 0o440) {
			t.Errorf("the files of the Secret %s have another mode than 0440: %v", v.Secret.SecretName, v.Secret.DefaultMode)
		}
	}
}

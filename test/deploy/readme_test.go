package deploy_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/informd/informd/test/cluster"
)

// Each block of values in deploy/README.md renders to a config that informd accepts, and to Secrets that the
// group of the Pod reads.
func TestReadmeValues(t *testing.T) {
	rendered := 0
	for _, block := range blocksOf(t, "deploy/README.md", "yaml") {
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
	for _, block := range blocksOf(t, "deploy/README.md", "yaml") {
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

// TestDocsCommands runs the commands of deploy/README.md in their order, and those of docs/getting-started.md that
// need an API server, with kubectl and helm, in a cluster without nodes. A block that needs something else is
// marked as an illustration.
func TestDocsCommands(t *testing.T) {
	c := cluster.Start(t, cluster.Options{PodSecurity: true, Controllers: true})
	dir := docsDir(t)
	sh := func(script string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", script)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "PATH="+filepath.Join(dir, "bin")+string(filepath.ListSeparator)+os.Getenv("PATH"),
			"KUBECONFIG="+c.Kubeconfig(), "HOME="+dir, "PASSWORD=secret", "PAGER=cat", "NATS_URL=nats://127.0.0.1")
		cmd.WaitDelay = time.Second
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v of\n%s\n%s", err, script, out)
		}
	}
	ran := 0
	for _, block := range blocksOf(t, "docs/getting-started.md", "sh cluster") {
		ran++
		sh(block)
		sh("kubectl get clusterrole informd && kubectl delete namespace informd && kubectl delete clusterrole,clusterrolebinding informd")
	}
	for _, block := range blocksOf(t, "deploy/README.md", "sh") {
		ran++
		sh(strings.ReplaceAll(block, "| less", "| cat")) // not every machine has less
	}
	if ran < 7 {
		t.Errorf("ran %d blocks only", ran)
	}
}

// blocksOf returns the blocks of a page that are marked with a language.
func blocksOf(t *testing.T, page, language string) (blocks []string) {
	t.Helper()
	for _, found := range regexp.MustCompile("(?ms)^```"+language+"\n(.*?)^```$").FindAllStringSubmatch(string(read(t, page)), -1) {
		blocks = append(blocks, found[1])
	}
	return blocks
}

// docsDir is a directory with the files that the commands of deploy/README.md expect, and the programs in bin.
func docsDir(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	top, err := filepath.Abs(root)
	must(t, err)
	bin := filepath.Join(dir, "bin")
	must(t, os.Mkdir(bin, 0o700))
	build := exec.CommandContext(t.Context(), "go", "build", "-o", bin, "./kubectl")
	build.Dir = filepath.Join(top, "test")
	if text, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	for name, target := range map[string]string{"bin/helm": helmBinary(t), "bin/informd": compiled(t, root, runtime.GOARCH, "./cmd/informd"), "deploy": filepath.Join(top, "deploy")} {
		must(t, os.Symlink(target, filepath.Join(dir, name)))
	}
	files := map[string]string{"ca.crt": "a certificate\n"}
	name := regexp.MustCompile(`^# (\S+\.yaml)\b`)
	for _, block := range blocksOf(t, "deploy/README.md", "yaml") {
		switch found := name.FindStringSubmatch(block); {
		case found != nil:
			files[found[1]] = strings.NewReplacer("github.com/informd/informd/", "", "?ref=main", "").Replace(block)
		case strings.HasPrefix(block, "image:"):
			files["values.yaml"] = block
		}
	}
	if len(files) != 5 {
		t.Fatal(fmt.Errorf("deploy/README.md has %d files", len(files)-1))
	}
	for name, text := range files {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	return dir
}

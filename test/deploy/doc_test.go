// Package deploy_test checks what is in deploy/.
//
// It renders the chart with the real helm command and the value files in testdata, and builds the kustomizations with
// kustomize itself. The types of the API decode each object strictly, informd accepts the config inside, Pods are
// restricted, and permissions are those that `informd rbac` prints. TestApply sends the objects to a real API server.
// Each value file wrong-*.yaml fails with the error in its first line. The build of the image makes a static binary.
package deploy_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
)

const (
	// root is the top of the repository, from here.
	root  = "../.."
	chart = root + "/deploy/helm/informd"
	// kubeVersion is the one that .Capabilities has. Without the flag, a helm that Go
	// installs assumes 1.20.
	kubeVersion = "1.37.0"
)

// monitoring is a component, which is not applied alone.
const monitoring = root + "/deploy/kustomize/components/monitoring"

// kustomizations are all there are.
func kustomizations() []string {
	return []string{
		root + "/deploy/kustomize/base",
		root + "/deploy/kustomize/overlays/ha",
		root + "/deploy/kustomize/overlays/nats",
		root + "/deploy/kustomize/overlays/sidecar",
	}
}

// eachKustomization runs f on everything that can be deployed.
func eachKustomization(t *testing.T, f func(t *testing.T, r release)) {
	t.Helper()
	for _, dir := range kustomizations() {
		t.Run(filepath.Base(dir), func(t *testing.T) { f(t, built(t, dir)) })
	}
}

// read returns a file of the repository.
func read(t *testing.T, elem ...string) []byte {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(append([]string{root}, elem...)...))
	must(t, err)
	return content
}

// helmBinary is the helm that `make helm` builds.
func helmBinary(t *testing.T) string {
	t.Helper()
	makefile := string(read(t, "Makefile"))
	version := regexp.MustCompile(`(?m)^HELM_VERSION := (\S+)$`).FindStringSubmatch(makefile)
	if version == nil {
		t.Fatal("the Makefile has no HELM_VERSION")
	}
	tools := os.Getenv("TOOLS") // make exports it
	if tools == "" {
		cache, err := os.UserCacheDir()
		must(t, err)
		tools = filepath.Join(cache, "informd-tools")
	}
	path := filepath.Join(tools, runtime.Version(), "helm-"+version[1], "helm")
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("helm %s is missing; run `make helm`: %v", version[1], err)
	}
	return path
}

// helm runs the command with a home of its own, and returns both outputs.
func helm(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cmd := exec.CommandContext(ctx, helmBinary(t), args...)
	home := t.TempDir()
	cmd.Env = append(os.Environ(), "HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home, "KUBECONFIG="+filepath.Join(home, "none"))
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	return out.String(), errs.String(), err
}

// valueFiles are the files in testdata that are wrong, or those that are not.
func valueFiles(t *testing.T, wrong bool) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d value files, %v", len(files), err)
	}
	return slices.DeleteFunc(files, func(f string) bool { return strings.HasPrefix(filepath.Base(f), "wrong-") != wrong })
}

// comment returns the text after a key in the comments of a value file.
func comment(t *testing.T, file, key string) string {
	t.Helper()
	found := regexp.MustCompile(`(?m)^# ` + key + `: (.+)$`).FindSubmatch(read(t, "test/deploy", file))
	if found == nil {
		t.Fatalf("%s has no comment %q", file, key)
	}
	return string(found[1])
}

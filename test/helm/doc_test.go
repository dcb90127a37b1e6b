// Package helm_test checks the chart in deploy/helm/informd with the real helm command, on the
// value files in testdata. Each good file renders to objects that the types of the API decode
// strictly, with the config that informd accepts, the permissions that `informd rbac`
// prints, and Pods of the restricted level. TestApply sends them to a real API server. Each
// file wrong-*.yaml fails with the error in its first line.
package helm_test

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
	root  = "../.."
	chart = root + "/deploy/helm/informd"
	// kubeVersion is the one that .Capabilities has. Without the flag, a helm that Go
	// installs assumes 1.20.
	kubeVersion = "1.37.0"
)

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

// read returns a file of the repository.
func read(t *testing.T, elem ...string) []byte {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(append([]string{root}, elem...)...))
	must(t, err)
	return content
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
	found := regexp.MustCompile(`(?m)^# ` + key + `: (.+)$`).FindSubmatch(read(t, "test/helm", file))
	if found == nil {
		t.Fatalf("%s has no comment %q", file, key)
	}
	return string(found[1])
}

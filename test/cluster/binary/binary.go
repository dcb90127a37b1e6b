// Package binary builds the server programs that tests run, once, and keeps them
// in a cache outside the work tree: [ControlPlane] and [NATSServer].
//
// The cache is $INFORMD_TEST_CACHE, else informd-test in the user's cache
// directory. An entry's name has a hash of all that its content depends on, so a
// change of sources or versions builds a new one. Entries are renamed into place
// when they are complete, and builds happen under a file lock: several test
// packages that start at once build once. What nobody used for a week is removed
// by the next build.
//
// Building needs the go command and the sources of this module; finding an entry
// needs the sources only.
package binary

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

const (
	modulePath     = "github.com/informd/informd/test"
	natsModulePath = "github.com/nats-io/nats-server/v2"
	cacheEnv       = "INFORMD_TEST_CACHE"

	// kubernetesVersion is what the API server answers at /version. It is a
	// linker flag in Kubernetes' own build too.
	kubernetesVersion = "v1.37.1"
	versionPackage    = "k8s.io/component-base/version"
)

// recipe is how one program is built and what its content depends on.
type recipe struct {
	name     string // of the program, first part of the entry's name
	pkg      string // package to build, as the go command takes it
	ldflags  string
	duration string // of a build with nothing cached, for the waiting reader
	inputs   func(module string, to io.Writer) error
}

// ControlPlane returns the path of the program that runs etcd and
// kube-apiserver, and builds it if the cache lacks it: about 7 minutes with a
// cold Go build cache on 2 cores, about 1 minute with a warm one. Progress goes
// to standard error.
func ControlPlane(ctx context.Context) (string, error) {
	major, minor, _ := strings.Cut(strings.TrimPrefix(kubernetesVersion, "v"), ".")
	minor, _, _ = strings.Cut(minor, ".")
	ldflags := []string{"-s", "-w"}
	for _, v := range [][2]string{
		{"gitVersion", kubernetesVersion},
		{"gitMajor", major},
		{"gitMinor", minor},
		{"gitTreeState", "clean"},
		// Constants in place of the placeholders of a git archive, so that equal
		// inputs give equal binaries.
		{"gitCommit", "unknown"},
		{"buildDate", "1970-01-01T00:00:00Z"},
	} {
		ldflags = append(ldflags, "-X", fmt.Sprintf("%s.%s=%s", versionPackage, v[0], v[1]))
	}
	return recipe{
		name:     "controlplane",
		pkg:      "./controlplane",
		ldflags:  strings.Join(ldflags, " "),
		duration: "7 minutes",
		inputs:   controlPlaneInputs,
	}.get(ctx)
}

// NATSServer returns the path of the real nats-server, in the version of
// test/go.mod, and builds it if the cache lacks it: under a minute.
func NATSServer(ctx context.Context) (string, error) {
	return recipe{
		name:     "nats-server",
		pkg:      natsModulePath,
		ldflags:  "-s -w",
		duration: "1 minute",
		inputs:   natsInputs,
	}.get(ctx)
}

// controlPlaneInputs writes the module's requirements, and the sources in the
// module that the program is made of: its own, and package cluster that its
// subcommand run uses.
func controlPlaneInputs(module string, to io.Writer) error {
	files := []string{filepath.Join(module, "go.mod"), filepath.Join(module, "go.sum")}
	for _, dir := range []string{"controlplane", "cluster"} {
		err := filepath.WalkDir(filepath.Join(module, dir), func(path string, _ fs.DirEntry, err error) error {
			if err == nil && strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
				files = append(files, path)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	for _, path := range files {
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(module, path)
		if err != nil {
			return err
		}
		fmt.Fprintf(to, "%s %d\n", filepath.ToSlash(name), len(content))
		_, _ = to.Write(content) // to is a hash: it never fails
	}
	return nil
}

// natsInputs writes the version of nats-server that the module requires.
func natsInputs(module string, to io.Writer) error {
	content, err := os.ReadFile(filepath.Join(module, "go.mod"))
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(content)) {
		fields := strings.Fields(strings.TrimPrefix(strings.TrimSpace(line), "require "))
		if len(fields) >= 2 && fields[0] == natsModulePath {
			fmt.Fprintln(to, fields[0], fields[1])
			return nil
		}
	}
	return fmt.Errorf("%s does not require %s", filepath.Join(module, "go.mod"), natsModulePath)
}

// key hashes the recipe, its inputs, the Go version and the platform.
func (r recipe) key(module string) (string, error) {
	sum := sha256.New()
	fmt.Fprintln(sum, r.pkg, r.ldflags, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	if err := r.inputs(module, sum); err != nil {
		return "", fmt.Errorf("hash the sources of %s: %w", r.name, err)
	}
	return hex.EncodeToString(sum.Sum(nil))[:16], nil
}

// cacheDir returns the cache directory, which it creates.
func cacheDir() (string, error) {
	dir := os.Getenv(cacheEnv)
	if dir == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return "", fmt.Errorf("no place to keep built test servers: %w; set %s to a directory outside the work tree", err, cacheEnv)
		}
		dir = filepath.Join(user, "informd-test")
	}
	// The go command runs elsewhere, so the path has to be absolute.
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("make the cache of built test servers: %w; set %s to another directory", err, cacheEnv)
	}
	return dir, nil
}

// moduleDir finds the test module: the working directory is in it for tests, and
// above it for programs started from the root of the repository.
func moduleDir() (string, error) {
	start, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for dir := start; ; dir = filepath.Dir(dir) {
		for _, candidate := range []string{dir, filepath.Join(dir, "test")} {
			content, err := os.ReadFile(filepath.Join(candidate, "go.mod"))
			if err == nil && declares(content) {
				return candidate, nil
			}
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("module %s is neither above %s nor in a directory test beside it", modulePath, start)
		}
	}
}

func declares(gomod []byte) bool {
	for line := range strings.Lines(string(gomod)) {
		if strings.TrimSpace(line) == "module "+modulePath {
			return true
		}
	}
	return false
}

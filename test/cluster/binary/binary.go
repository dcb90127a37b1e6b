// Package binary builds the server programs that tests run, once, and keeps them
// in a cache outside the work tree: [ControlPlane], [ControlPlane132], [Controllers], [KWOK],
// [NATSServer] and [Collector]. It also fetches the jars of [Kafka] and [Postgres].
//
// The cache is $INFORMD_TEST_CACHE, else informd-test in the user's cache
// directory. An entry's name has a hash of all that its content depends on: the
// sources, the versions of the modules that the program is made of, the linker's
// flags and the Go version. A requirement that the program does not use leaves its
// entry valid. Entries are renamed into place when they are complete, and builds
// happen under a file lock: several test packages that start at once build once. A
// build removes the entries that were not used for a week.
//
// Building needs the go command and the sources of this module; finding an entry
// needs the sources only.
package binary

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

const (
	modulePath = "github.com/informd/informd/test"
	cacheEnv   = "INFORMD_TEST_CACHE"

	// kubernetesVersion is what the API server answers at /version. It is a
	// linker flag in Kubernetes' own build too.
	kubernetesVersion = "v1.37.1"
	oldestVersion     = "v1.32.0"
	versionPackage    = "k8s.io/component-base/version"
)

// recipe is how one program is built.
type recipe struct {
	name     string // of the program, first part of the entry's name
	module   string // directory of the module to build in, below the test module
	pkg      string // package to build, as the go command takes it; of jars the goal of mvn
	version  string // of a package that is not among the module's requirements
	ldflags  string
	duration string // of a build with nothing cached, for the waiting reader
}

// ControlPlane returns the path of the program that runs etcd and
// kube-apiserver, and builds it if the cache lacks it: about 7 minutes with a
// cold Go build cache on 2 cores, about 1 minute with a warm one. Progress goes
// to standard error.
func ControlPlane(ctx context.Context) (string, error) {
	return recipe{
		name:     "controlplane",
		pkg:      "./controlplane",
		ldflags:  kubernetesFlags(kubernetesVersion),
		duration: "7 minutes",
	}.get(ctx)
}

// ControlPlane132 returns the path of the same program with the oldest Kubernetes
// that informd supports, and builds it if the cache lacks it: about as long as
// ControlPlane, with which it shares nothing.
func ControlPlane132(ctx context.Context) (string, error) {
	return recipe{
		name:     "controlplane132",
		module:   "controlplane132",
		pkg:      ".",
		ldflags:  kubernetesFlags(oldestVersion),
		duration: "7 minutes",
	}.get(ctx)
}

// Controllers returns the path of the program that runs kube-controller-manager
// and kube-scheduler, and builds it if the cache lacks it: about 3 minutes after
// ControlPlane, with which it shares most packages.
func Controllers(ctx context.Context) (string, error) {
	return recipe{
		name:     "controllers",
		pkg:      "./controllers",
		ldflags:  kubernetesFlags(kubernetesVersion),
		duration: "3 minutes",
	}.get(ctx)
}

// KWOK returns the path of kwok, which plays the kubelets of a cluster, and builds
// it if the cache lacks it: about 3 minutes. It is installed as released, with the
// requirements of its own go.mod.
func KWOK(ctx context.Context) (string, error) {
	return recipe{
		name:     "kwok",
		pkg:      "sigs.k8s.io/kwok/cmd/kwok",
		version:  "v0.8.0",
		ldflags:  "-s -w",
		duration: "3 minutes",
	}.get(ctx)
}

// NATSServer returns the path of the real nats-server, in the version of
// test/go.mod, and builds it if the cache lacks it: under a minute.
func NATSServer(ctx context.Context) (string, error) {
	return recipe{
		name:     "nats-server",
		pkg:      "github.com/nats-io/nats-server/v2",
		ldflags:  "-s -w",
		duration: "1 minute",
	}.get(ctx)
}

// Collector returns the path of an OpenTelemetry Collector with the components that tests use, and
// builds it if the cache lacks it: about 3 minutes.
func Collector(ctx context.Context) (string, error) {
	return recipe{
		name:     "collector",
		module:   "collector",
		pkg:      ".",
		ldflags:  "-s -w",
		duration: "3 minutes",
	}.get(ctx)
}

// kubernetesFlags are the linker's flags that Kubernetes' own build has.
func kubernetesFlags(version string) string {
	major, minor, _ := strings.Cut(strings.TrimPrefix(version, "v"), ".")
	minor, _, _ = strings.Cut(minor, ".")
	flags := []string{"-s", "-w"}
	for _, v := range [][2]string{
		{"gitVersion", version},
		{"gitMajor", major},
		{"gitMinor", minor},
		{"gitTreeState", "clean"},
		// Constants in place of the placeholders of a git archive, so that equal
		// inputs give equal binaries.
		{"gitCommit", "unknown"},
		{"buildDate", "1970-01-01T00:00:00Z"},
	} {
		flags = append(flags, "-X", fmt.Sprintf("%s.%s=%s", versionPackage, v[0], v[1]))
	}
	return strings.Join(flags, " ")
}

// get returns the program's entry in the cache of the user, built if need be from
// the module that the process was started in.
func (r recipe) get(ctx context.Context) (string, error) {
	module, err := moduleDir()
	if err != nil {
		return "", err
	}
	cache, err := cacheDir()
	if err != nil {
		return "", err
	}
	return r.find(ctx, filepath.Join(module, r.module), cache)
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

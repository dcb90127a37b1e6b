package deploy_test

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"github.com/informd/informd/test/release/image"
)

// baseImage pushes a stand-in for distroless to a registry in this process: one file for each platform.
func baseImage(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(registry.New(registry.Logger(slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo))))
	t.Cleanup(server.Close)
	at := strings.TrimPrefix(server.URL, "http://") + "/static:nonroot"
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, arch := range []string{"amd64", "arm64"} {
		var text bytes.Buffer
		w := tar.NewWriter(&text)
		content := "nonroot:x:65532:65532:" + arch + ":/home/nonroot:/sbin/nologin\n"
		header := &tar.Header{Typeflag: tar.TypeReg, Name: "etc/passwd", Mode: 0o644, Size: int64(len(content))}
		must(t, writeFile(w, header, content))
		layer, err := tarball.LayerFromReader(&text, tarball.WithMediaType(types.OCILayer)) //nolint:staticcheck // it fits in memory
		must(t, err)
		img, err := mutate.AppendLayers(mutate.MediaType(empty.Image, types.OCIManifestSchema1), layer)
		must(t, err)
		img, err = mutate.Config(img, v1.Config{User: "0", Env: []string{"SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt"}, Entrypoint: []string{"/sh"}})
		must(t, err)
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}}})
	}
	ref, err := name.ParseReference(at)
	must(t, err)
	must(t, remote.WriteIndex(ref, index))
	return at
}

func writeFile(w *tar.Writer, header *tar.Header, content string) error {
	if err := w.WriteHeader(header); err != nil {
		return err
	}
	if _, err := io.WriteString(w, content); err != nil {
		return err
	}
	return w.Close()
}

// compiled builds a package for an architecture, with the flags of `make build`.
func compiled(t *testing.T, dir, arch, pkg string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "informd")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-ldflags", "-s -w -X main.version=v1.2.3", "-o", out, pkg)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch)
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return out
}

// TestReleasedImage: the image of a release has the binary on the base, runs it as the Dockerfile does,
// and two builds give the same image.
func TestReleasedImage(t *testing.T) {
	small := t.TempDir() // compiling informd for another architecture takes minutes
	program := "package main\nfunc main() {}\n"
	if err := errors.Join(os.WriteFile(filepath.Join(small, "main.go"), []byte(program), 0o600), os.WriteFile(filepath.Join(small, "go.mod"), []byte("module small\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	other := map[string]string{"amd64": "arm64", "arm64": "amd64"}[runtime.GOARCH]
	o := image.Options{
		Base: baseImage(t), Version: "v1.2.3", Revision: "abc", Created: time.Unix(1_700_000_000, 0).UTC(),
		Binaries: map[string]string{runtime.GOARCH: compiled(t, root, runtime.GOARCH, "./cmd/informd"), other: compiled(t, small, other, ".")},
	}
	first, second := digest(t, o), digest(t, o)
	if first != second {
		t.Errorf("two builds have the digests %s and %s", first, second)
	}
	index := pushed(t, o)
	if err := validate.Index(index); err != nil {
		t.Error(err)
	}
	manifest, err := index.IndexManifest()
	must(t, err)
	var platforms []string
	for _, m := range manifest.Manifests {
		platforms = append(platforms, m.Platform.String())
		img, err := index.Image(m.Digest)
		must(t, err)
		checkImage(t, img, m.Platform.Architecture)
		if m.Platform.Architecture == runtime.GOARCH {
			runImage(t, img)
		}
	}
	if want := []string{"linux/amd64", "linux/arm64"}; !slices.Equal(platforms, want) {
		t.Errorf("platforms %v, want %v", platforms, want)
	}
	swapped := o
	swapped.Binaries = map[string]string{runtime.GOARCH: o.Binaries[other]}
	if _, err := image.Build(swapped); err == nil || !strings.Contains(err.Error(), "binary") {
		t.Errorf("with a binary for another platform: %v", err)
	}
}

// pushed pushes the image beside its base, and reads it from there.
func pushed(t *testing.T, o image.Options) v1.ImageIndex {
	t.Helper()
	ref, err := name.ParseReference(strings.Replace(o.Base, "/static:nonroot", "/informd:v1.2.3", 1))
	must(t, err)
	index, err := image.Build(o)
	if err == nil {
		err = remote.WriteIndex(ref, index)
	}
	if err == nil {
		index, err = remote.Index(ref)
	}
	must(t, err)
	return index
}

func digest(t *testing.T, o image.Options) v1.Hash {
	t.Helper()
	index, err := image.Build(o)
	must(t, err)
	d, err := index.Digest()
	must(t, err)
	return d
}

// checkImage compares an image with the last stage of the Dockerfile.
func checkImage(t *testing.T, img v1.Image, arch string) {
	t.Helper()
	file, err := img.ConfigFile()
	must(t, err)
	stages := parseDockerfile(t, read(t, dockerfile))
	last := stages[len(stages)-1]
	words := func(name string) (all []string) {
		must(t, json.Unmarshal([]byte(last.all(name)[0].args), &all))
		return all
	}
	labels := map[string]string{"org.opencontainers.image.version": "v1.2.3", "org.opencontainers.image.revision": "abc"}
	for _, pair := range regexp.MustCompile(`(\S+)="([^"]*)"`).FindAllStringSubmatch(last.all("LABEL")[0].args, -1) {
		labels[pair[1]] = pair[2]
	}
	want := v1.Config{
		User: last.all("USER")[0].args, Entrypoint: words("ENTRYPOINT"), Cmd: words("CMD"), Labels: labels,
		Env: []string{"SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt"},
	}
	if diff := cmp.Diff(want, file.Config); diff != "" {
		t.Errorf("%s: config (-Dockerfile +image):\n%s", arch, diff)
	}
	layers, err := img.Layers()
	if err != nil || len(layers) != 2 {
		t.Fatalf("%s: %d layers, %v; want that of the base and one more", arch, len(layers), err)
	}
	reader, err := layers[1].Uncompressed()
	must(t, err)
	defer reader.Close()
	files := tar.NewReader(reader)
	header, err := files.Next()
	must(t, err)
	if "/"+header.Name != want.Entrypoint[0] || header.Mode != 0o755 || header.Uid != 0 || header.Gid != 0 {
		t.Errorf("%s: file %s with mode %o of %d:%d", arch, header.Name, header.Mode, header.Uid, header.Gid)
	}
	if extra, err := files.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("%s: one more file: %v, %v", arch, extra, err)
	}
}

// runImage runs the entry point in the files of the image, as its user if the test may.
func runImage(t *testing.T, img v1.Image) {
	t.Helper()
	dir := t.TempDir()
	content := mutate.Extract(img)
	defer content.Close()
	for files := tar.NewReader(content); ; {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		must(t, err)
		path := filepath.Join(dir, filepath.Clean("/"+header.Name))
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		text, err := io.ReadAll(files)
		must(t, err)
		must(t, os.WriteFile(path, text, header.FileInfo().Mode()))
	}
	file, err := img.ConfigFile()
	must(t, err)
	cmd := exec.CommandContext(t.Context(), filepath.Join(dir, file.Config.Entrypoint[0]), "version")
	if os.Getuid() == 0 {
		must(t, os.Chmod(dir, 0o755))
		cmd.Path, cmd.Dir = file.Config.Entrypoint[0], "/"
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: dir, Credential: &syscall.Credential{Uid: 65532, Gid: 65532}}
	}
	if text, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(text), "v1.2.3") {
		t.Errorf("informd version in the image: %v\n%s", err, text)
	}
}

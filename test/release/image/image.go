// Package image makes the container image of a release from static binaries, without Docker: one
// layer on a base image, for each platform.
package image

import (
	"archive/tar"
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Options are what an image is made of.
type Options struct {
	// Base is the reference of the base image. It needs all platforms.
	Base string
	// Binaries are the paths of the binaries by architecture, as in amd64.
	Binaries map[string]string
	// Version and Revision are those of the source.
	Version, Revision string
	// Created is the time of all files and of the image, so that a build can be repeated.
	Created time.Time
	// Remote are options of requests to the registry of the base.
	Remote []remote.Option
}

// path is that of the binary in the image.
const path = "usr/local/bin/informd"

// Build reads the base and returns the image for all platforms. The same options and base give the
// same digest.
func Build(o Options) (v1.ImageIndex, error) {
	if len(o.Binaries) == 0 {
		return nil, errors.New("no binaries")
	}
	ref, err := name.ParseReference(o.Base)
	if err != nil {
		return nil, fmt.Errorf("base image: %w", err)
	}
	base, err := remote.Index(ref, o.Remote...)
	if err != nil {
		return nil, fmt.Errorf("base image %s: %w", ref, err)
	}
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, arch := range slices.Sorted(maps.Keys(o.Binaries)) {
		from, err := find(base, arch)
		if err != nil {
			return nil, fmt.Errorf("base image %s: %w", ref, err)
		}
		img, err := o.platform(from, arch)
		if err != nil {
			return nil, fmt.Errorf("image for %s: %w", arch, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{
			Platform: &v1.Platform{OS: "linux", Architecture: arch},
		}})
	}
	labels := o.labels()
	digest, err := base.Digest()
	if err != nil {
		return nil, fmt.Errorf("base image %s: %w", ref, err)
	}
	labels["org.opencontainers.image.base.name"], labels["org.opencontainers.image.base.digest"] = ref.Name(), digest.String()
	annotated, ok := mutate.Annotations(index, labels).(v1.ImageIndex)
	if !ok {
		return nil, errors.New("an index with annotations is no index")
	}
	return annotated, nil
}

// find returns the image of an architecture.
func find(base v1.ImageIndex, arch string) (v1.Image, error) {
	manifest, err := base.IndexManifest()
	if err != nil {
		return nil, err
	}
	for _, m := range manifest.Manifests {
		if m.Platform != nil && m.Platform.OS == "linux" && m.Platform.Architecture == arch {
			return base.Image(m.Digest)
		}
	}
	return nil, fmt.Errorf("no image for linux/%s", arch)
}

func (o Options) labels() map[string]string {
	return map[string]string{
		"org.opencontainers.image.title":       "informd",
		"org.opencontainers.image.description": "Change data capture for Kubernetes",
		"org.opencontainers.image.source":      "https://github.com/informd/informd",
		"org.opencontainers.image.licenses":    "Apache-2.0",
		"org.opencontainers.image.version":     o.Version,
		"org.opencontainers.image.revision":    o.Revision,
	}
}

// platform puts the binary of an architecture on its base.
func (o Options) platform(base v1.Image, arch string) (v1.Image, error) {
	if err := check(o.Binaries[arch], arch); err != nil {
		return nil, err
	}
	text, err := o.layer(o.Binaries[arch])
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(text)), nil },
		tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	img, err := mutate.Append(base, mutate.Addendum{Layer: layer, History: v1.History{
		Created: v1.Time{Time: o.Created}, CreatedBy: "informd " + o.Version,
	}})
	if err != nil {
		return nil, err
	}
	img = mutate.ConfigMediaType(mutate.MediaType(img, types.OCIManifestSchema1), types.OCIConfigJSON)
	file, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	file = file.DeepCopy()
	file.Created, file.OS, file.Architecture = v1.Time{Time: o.Created}, "linux", arch
	// These are those of deploy/Dockerfile.
	file.Config.User = "65532:65532"
	file.Config.Entrypoint = []string{"/" + path}
	file.Config.Cmd = []string{"run", "--config", "/etc/informd/config.yaml"}
	file.Config.Labels = o.labels()
	return mutate.ConfigFile(img, file)
}

// check refuses a binary that cannot run in the image: of another platform, or with a dynamic linker.
func check(binary, arch string) error {
	machines := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}
	file, err := elf.Open(binary)
	if err != nil {
		return fmt.Errorf("binary %s: %w", binary, err)
	}
	defer file.Close() //nolint:errcheck // only read
	if want, ok := machines[arch]; !ok || file.Machine != want {
		return fmt.Errorf("binary %s is for %s", binary, file.Machine)
	}
	for _, p := range file.Progs {
		if p.Type == elf.PT_INTERP {
			return fmt.Errorf("binary %s is not static", binary)
		}
	}
	return nil
}

// layer is a tar file with the binary, of root and for all to run.
func (o Options) layer(binary string) ([]byte, error) {
	content, err := os.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	var text bytes.Buffer
	w := tar.NewWriter(&text)
	header := &tar.Header{Typeflag: tar.TypeReg, Name: path, Mode: 0o755, Size: int64(len(content)), ModTime: o.Created, Format: tar.FormatPAX}
	if err := w.WriteHeader(header); err != nil {
		return nil, err
	}
	if _, err := w.Write(content); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return text.Bytes(), nil
}

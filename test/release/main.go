// Command release has the steps of a release that goreleaser does not have.
//
//	release check -tag v1.2.3 -notes notes.md
//	release image -dist ../dist -push ghcr.io/informd/informd:v1.2.3
//	release image -dist ../dist -layout ../dist/image
//
// check fails unless the files of the repository name the version, and writes the notes of the
// release. image makes the container image from the binaries that goreleaser has built, and prints
// its digest, and those of its architectures. It pushes it, or writes it to a directory in the OCI image layout.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/informd/informd/test/release/image"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return errors.New("use check or image")
	}
	switch args[0] {
	case "check":
		return runCheck(args[1:])
	case "image":
		return runImage(ctx, args[1:])
	}
	return fmt.Errorf("%s is no command; use check or image", args[0])
}

func runCheck(args []string) error {
	flags := flag.NewFlagSet("check", flag.ContinueOnError)
	root := flags.String("root", "..", "`directory` of the repository")
	tag := flags.String("tag", "", "`version`, as in v1.2.3")
	notes := flags.String("notes", "", "`file` to write the notes of the release to")
	if err := flags.Parse(args); err != nil {
		return err
	}
	text, err := check(*root, *tag)
	if err != nil || *notes == "" {
		return err
	}
	return os.WriteFile(*notes, []byte(text), 0o600)
}

func runImage(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	dist := flags.String("dist", "dist", "`directory` of goreleaser")
	base := flags.String("base", "gcr.io/distroless/static-debian12:nonroot", "base `image`")
	push := flags.String("push", "", "`image` to push to, as in ghcr.io/informd/informd:v1.2.3")
	out := flags.String("layout", "", "`directory` to write the image to")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 || (*push == "") == (*out == "") {
		return errors.New("use either -push or -layout, and no arguments")
	}
	o := image.Options{Base: *base, Remote: []remote.Option{remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)}}
	if err := readDist(*dist, &o); err != nil {
		return err
	}
	index, err := image.Build(o)
	if err != nil {
		return err
	}
	if err := write(index, *push, *out, o.Remote); err != nil {
		return err
	}
	return printDigests(os.Stdout, index)
}

// printDigests prints what is signed: the digest of the index, then architecture and digest of each
// image.
func printDigests(out io.Writer, index v1.ImageIndex) error {
	digest, err := index.Digest()
	if err != nil {
		return err
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return err
	}
	lines := fmt.Appendf(nil, "%s\n", digest)
	for _, m := range manifest.Manifests {
		lines = fmt.Appendf(lines, "%s %s\n", m.Platform.Architecture, m.Digest)
	}
	_, err = out.Write(lines)
	return err
}

func write(index v1.ImageIndex, push, out string, options []remote.Option) error {
	if out != "" {
		_, err := layout.Write(out, empty.Index)
		if err != nil {
			return err
		}
		return layout.Path(out).AppendIndex(index)
	}
	ref, err := name.ParseReference(push)
	if err != nil {
		return err
	}
	return remote.WriteIndex(ref, index, options...)
}

// readDist takes what goreleaser has written about the release.
func readDist(dist string, o *image.Options) error {
	var about struct {
		Version, Commit string
	}
	if err := decode(filepath.Join(dist, "metadata.json"), &about); err != nil {
		return err
	}
	var artifacts []struct{ Type, Path, Goos, Goarch string }
	if err := decode(filepath.Join(dist, "artifacts.json"), &artifacts); err != nil {
		return err
	}
	o.Version, o.Revision = "v"+about.Version, about.Commit
	o.Binaries = make(map[string]string)
	for _, a := range artifacts {
		if a.Type == "Binary" && a.Goos == "linux" {
			// The paths begin at the directory in which goreleaser ran.
			path := filepath.Join(filepath.Dir(dist), a.Path)
			info, err := os.Stat(path)
			if err != nil {
				return err
			}
			// goreleaser gives binaries the time of the commit (mod_timestamp).
			o.Binaries[a.Goarch], o.Created = path, info.ModTime().UTC()
		}
	}
	return nil
}

func decode(path string, into any) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

package binary

import (
	"context"
	"crypto/sha256"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/informd/informd/test/cluster/internal/flock"
)

// jarFiles are, for each entry, pom.xml, which names the versions, and SHA256SUMS, the jars of it.
//
//go:embed kafka postgres
var jarFiles embed.FS

// Kafka returns the directory with the jars of Apache Kafka, and fetches them with mvn from
// Maven Central if the cache lacks them: under a minute, 44 MB. The entry's name has a hash of
// the pom and of the checksums that every jar must have.
func Kafka(ctx context.Context) (string, error) {
	return recipe{name: "kafka", pkg: "dependency:copy-dependencies", duration: "a minute"}.jars(ctx)
}

// Postgres returns, as [Kafka] does, the directory with the jars of PostgreSQL in the oldest and the
// newest version, 29 MB.
func Postgres(ctx context.Context) (string, error) {
	return recipe{name: "postgres", pkg: "dependency:copy", duration: "a minute"}.jars(ctx)
}

// jars returns the entry of a recipe whose package is a goal of mvn.
func (r recipe) jars(ctx context.Context) (string, error) {
	cache, err := cacheDir()
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	for _, name := range []string{"pom.xml", "SHA256SUMS"} {
		content, err := jarFiles.ReadFile(r.name + "/" + name)
		if err != nil {
			return "", err
		}
		_, _ = sum.Write(content) // a hash never fails
	}
	entry := filepath.Join(cache, r.name+"-"+digest(sum))
	if use(entry) {
		return entry, nil
	}
	lock, err := flock.Wait(ctx, filepath.Join(cache, r.name+".lock"), func() {
		fmt.Fprintf(os.Stderr, "waiting for another process that fetches %s\n", r.name)
	})
	if err != nil {
		return "", fmt.Errorf("fetch %s: %w", r.name, err)
	}
	defer func() { _ = lock.Release() }()
	if use(entry) { // another process fetched it meanwhile
		return entry, nil
	}
	if err := r.fetchJars(ctx, cache, entry); err != nil {
		return "", fmt.Errorf("fetch %s: %w", r.name, err)
	}
	r.prune(cache)
	return entry, nil
}

// fetchJars makes the entry. The caller holds the lock of the recipe.
func (r recipe) fetchJars(ctx context.Context, cache, entry string) (err error) {
	work := filepath.Join(cache, r.name+".new")
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	if err := os.RemoveAll(work); err != nil {
		return err
	}
	pom, err := fs.Sub(jarFiles, r.name)
	if err != nil {
		return err
	}
	if err := os.CopyFS(work, pom); err != nil {
		return err
	}
	jars := filepath.Join(work, "jars")
	cmd := exec.CommandContext(ctx, "mvn", "--batch-mode", "--quiet", r.pkg, "-DoutputDirectory="+jars)
	cmd.Dir = work
	if err := r.run(cmd, cache); err != nil {
		return fmt.Errorf("mvn %s: %w", r.pkg, err)
	}
	if err := verifyJars(jars, filepath.Join(work, "SHA256SUMS")); err != nil {
		return err
	}
	return os.Rename(jars, entry)
}

// verifyJars compares the directory with the list of checksums: no jar more, none less.
func verifyJars(dir, list string) error {
	want, err := os.ReadFile(list)
	if err != nil {
		return err
	}
	var got strings.Builder
	files, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, file := range files {
		content, err := os.ReadFile(filepath.Join(dir, file.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&got, "%x  %s\n", sha256.Sum256(content), file.Name())
	}
	if got.String() != string(want) {
		return fmt.Errorf("the jars are not those of SHA256SUMS; they are\n%s", &got)
	}
	return nil
}

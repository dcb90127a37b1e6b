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

// kafkaFiles are pom.xml, which names the version, and SHA256SUMS, the jars of it.
//
//go:embed kafka
var kafkaFiles embed.FS

// Kafka returns the directory with the jars of Apache Kafka, and fetches them with mvn from
// Maven Central if the cache lacks them: under a minute, 44 MB. The entry's name has a hash of
// the pom and of the checksums that every jar must have.
func Kafka(ctx context.Context) (string, error) {
	cache, err := cacheDir()
	if err != nil {
		return "", err
	}
	r := recipe{name: "kafka", pkg: "the jars of kafka", duration: "a minute"}
	sum := sha256.New()
	for _, name := range []string{"pom.xml", "SHA256SUMS"} {
		content, err := kafkaFiles.ReadFile("kafka/" + name)
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
		fmt.Fprintln(os.Stderr, "waiting for another process that fetches kafka")
	})
	if err != nil {
		return "", fmt.Errorf("fetch kafka: %w", err)
	}
	defer func() { _ = lock.Release() }()
	if use(entry) { // another process fetched it meanwhile
		return entry, nil
	}
	if err := r.fetchJars(ctx, cache, entry); err != nil {
		return "", fmt.Errorf("fetch kafka: %w", err)
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
	pom, err := fs.Sub(kafkaFiles, "kafka")
	if err != nil {
		return err
	}
	if err := os.CopyFS(work, pom); err != nil {
		return err
	}
	jars := filepath.Join(work, "jars")
	cmd := exec.CommandContext(ctx, "mvn", "--batch-mode", "--quiet", "dependency:copy-dependencies", "-DoutputDirectory="+jars)
	cmd.Dir = work
	if err := r.run(cmd, cache); err != nil {
		return fmt.Errorf("mvn dependency:copy-dependencies: %w", err)
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

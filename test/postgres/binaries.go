package postgres

import (
	"archive/zip"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"github.com/informd/informd/test/cluster/binary"
)

// findBinaries returns the directory of the programs of a version.
func (s *Server) findBinaries(ctx context.Context, version string) (string, error) {
	if version != "" {
		dir := s.dir.Join("binaries")
		if err := unpack(ctx, version, dir); err != nil {
			return "", fmt.Errorf("unpack PostgreSQL %s: %w", version, err)
		}
		return filepath.Join(dir, "bin"), nil
	}
	if dir := os.Getenv("POSTGRES_BIN"); dir != "" {
		return dir, nil
	}
	all, err := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if err == nil && len(all) == 0 {
		err = errors.New("no /usr/lib/postgresql/*/bin")
	}
	if err != nil {
		return "", fmt.Errorf("find PostgreSQL: %w: run make postgres, or set POSTGRES_BIN", err)
	}
	return filepath.Dir(slices.Max(all)), nil
}

// unpack unpacks the archive in the jar of a version, with tar and xz: the server's user cannot read the cache.
func unpack(ctx context.Context, version, dir string) (err error) {
	jars, err := binary.Postgres(ctx)
	if err != nil {
		return err
	}
	found, err := filepath.Glob(filepath.Join(jars, "*-linux-amd64-"+version+".*.jar"))
	if err != nil || len(found) != 1 {
		return errors.Join(err, fmt.Errorf("%d jars of it in %s", len(found), jars))
	}
	jar, err := zip.OpenReader(found[0])
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, jar.Close()) }()
	archive, err := jar.Open("postgres-linux-x86_64.txz")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, archive.Close()) }()
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "tar", "--extract", "--xz", "--directory", dir)
	cmd.Stdin = archive
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("tar: %w: %s", err, out)
	}
	return nil
}

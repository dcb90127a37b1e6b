// Package private checks that directories and files belong to informd's user and that
// others cannot plant or replace them. The journal and the daemon call it for journal.dir and what is in
// it, and the file sink for [SyncDir].
package private

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Dir checks a directory that exists: its owner is this user or root, and others cannot
// write to it. A directory of root's that all may write to, without a sticky bit, is what
// Kubernetes makes of an emptyDir: this is a warning.
func Dir(path string) (warning string, err error) {
	link, err := os.Lstat(path)
	if err != nil {
		return "", err
	}
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	switch {
	case !info.IsDir():
		return "", fmt.Errorf("%s is not a directory", path)
	case link.Mode()&fs.ModeSymlink != 0 && foreign(link):
		return "", fmt.Errorf("%s is a symbolic link of user %d, who can make it lead elsewhere; use a directory that belongs to user %d", path, owner(link), os.Geteuid())
	case foreign(info):
		return "", fmt.Errorf("%s belongs to user %d, not to user %d, which informd runs as; change the owner (chown) or use another directory", path, owner(info), os.Geteuid())
	case info.Mode().Perm()&0o002 == 0:
		return "", nil
	case owner(info) == 0 && info.Mode()&fs.ModeSticky == 0:
		return path + " can be written by every user of the machine (mode " + info.Mode().Perm().String() + "); outside of a Pod run chmod o-w", nil
	}
	return "", fmt.Errorf("%s can be written by every user of the machine (mode %s); run chmod o-w, or use a directory below it", path, info.Mode())
}

// Open opens a regular file of this user's or of root's. It follows no symbolic link and
// waits for no pipe.
func Open(path string, flags int, mode fs.FileMode) (*os.File, error) {
	f, err := os.OpenFile(path, flags|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, mode)
	if errors.Is(err, syscall.ELOOP) {
		return nil, fmt.Errorf("%s is a symbolic link; informd follows none here: remove it", path)
	}
	if err != nil {
		return nil, err
	}
	if err := Regular(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Regular checks that an open file is a regular one of this user's or of root's.
func Regular(f *os.File) error {
	info, err := f.Stat()
	switch {
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is not a regular file (%s)", f.Name(), info.Mode().Type())
	case foreign(info):
		return fmt.Errorf("%s belongs to user %d, not to user %d, which informd runs as; remove it or change its owner", f.Name(), owner(info), os.Geteuid())
	}
	return nil
}

// Read reads a file that [Open] opens.
func Read(path string) ([]byte, error) {
	f, err := Open(path, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	content, err := io.ReadAll(f)
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	return content, nil
}

// Replace puts a file with this content, for its owner only, in the place of path: as a whole or
// not at all. It does not sync the directory.
func Replace(path string, content []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// SyncDir makes the entry of path in its directory durable.
func SyncDir(path string) error {
	d, err := os.Open(filepath.Dir(path))
	if err == nil {
		err = errors.Join(d.Sync(), d.Close())
	}
	if err != nil {
		return fmt.Errorf("sync directory: %w", err)
	}
	return nil
}

// foreign reports whether the owner is neither this user nor root.
func foreign(info fs.FileInfo) bool { return owner(info) != 0 && owner(info) != os.Geteuid() }

// owner is the user's id, root's if the system has none.
func owner(info fs.FileInfo) int {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(stat.Uid)
	}
	return 0
}

package private_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/informd/informd/internal/private"
)

// nobody is a user that is neither root nor the one that runs the tests.
const nobody = 65534

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// give makes a file another user's, which takes root.
func give(t *testing.T, path string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Log("another owner is only tried as root")
		return
	}
	must(t, os.Lchown(path, nobody, nobody))
}

func TestDir(t *testing.T) {
	root := os.Geteuid() == 0
	for name, c := range map[string]struct {
		prepare  func(t *testing.T, path string)
		refusal  string // as root
		warns    bool
		mode     fs.FileMode
		needRoot bool
	}{
		"own":                      {mode: 0o700},
		"of a group":               {mode: 0o775 | fs.ModeSetgid},
		"sticky for all":           {mode: 0o777 | fs.ModeSticky, refusal: "can be written by every user"},
		"for all":                  {mode: 0o777, warns: true, needRoot: true},
		"another user's":           {mode: 0o755, prepare: give, refusal: "belongs to user 65534", needRoot: true},
		"another user's, writable": {mode: 0o777, prepare: give, refusal: "belongs to user 65534", needRoot: true},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "journal")
			must(t, os.Mkdir(path, 0o700))
			must(t, os.Chmod(path, c.mode))
			if c.prepare != nil {
				c.prepare(t, path)
			}
			warning, err := private.Dir(path)
			if c.needRoot && !root {
				return
			}
			if refused := err != nil; refused != (c.refusal != "") || refused && !strings.Contains(err.Error(), c.refusal) {
				t.Errorf("the error is %v, want %q", err, c.refusal)
			}
			if (warning != "") != c.warns {
				t.Errorf("the warning is %q", warning)
			}
		})
	}
	path := filepath.Join(t.TempDir(), "link")
	must(t, os.Symlink(t.TempDir(), path))
	if _, err := private.Dir(path); err != nil {
		t.Errorf("a link of the user's own: %v", err)
	}
	give(t, path)
	if _, err := private.Dir(path); root && (err == nil || !strings.Contains(err.Error(), "symbolic link of user")) {
		t.Errorf("a link of another user's: %v", err)
	}
}

func TestOpen(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	must(t, os.WriteFile(path("own"), []byte("x"), 0o600))
	must(t, os.Symlink("own", path("link")))
	must(t, syscall.Mkfifo(path("pipe"), 0o600))
	must(t, os.WriteFile(path("foreign"), []byte("x"), 0o600))
	give(t, path("foreign"))
	for name, want := range map[string]string{"own": "", "link": "is a symbolic link", "pipe": "not a regular file", "none": "no such file", "foreign": "belongs to user"} {
		if name == "foreign" && os.Geteuid() != 0 {
			continue
		}
		f, err := private.Open(path(name), os.O_RDONLY, 0)
		if err == nil {
			must(t, f.Close())
		}
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
}

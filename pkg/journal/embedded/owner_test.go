package embedded_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/informd/informd/pkg/journal/embedded"
)

// TestForeignDir refuses a directory in which others may have planted files, and follows
// no link in its own.
func TestForeignDir(t *testing.T) {
	link := func(name string) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) {
			t.Helper()
			if err := os.Symlink(filepath.Join(filepath.Dir(dir), "precious"), filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, c := range map[string]struct {
		prepare func(t *testing.T, dir string)
		want    string
		asRoot  bool
	}{
		"everybody may write": {func(t *testing.T, dir string) {
			t.Helper()
			if err := os.Chmod(dir, 0o777|fs.ModeSticky); err != nil {
				t.Fatal(err)
			}
		}, "can be written by every user", false},
		"another owner": {func(t *testing.T, dir string) {
			t.Helper()
			if err := os.Chown(dir, 65534, 65534); err != nil {
				t.Fatal(err)
			}
		}, "belongs to user 65534", true},
		"the lock is a link":   {link("lock"), "is a symbolic link", false},
		"the ledger is a link": {link("store.json.new"), "is a symbolic link", false},
	} {
		t.Run(name, func(t *testing.T) {
			if c.asRoot && os.Geteuid() != 0 {
				t.Log("another owner is only tried as root")
				return
			}
			dir := filepath.Join(t.TempDir(), "journal")
			precious := filepath.Join(filepath.Dir(dir), "precious")
			if err := os.WriteFile(precious, []byte("precious"), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			c.prepare(t, dir)
			s, err := embedded.Start(t.Context(), config(dir))
			if err == nil {
				stop(t, s)
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("the error is %v, want %q", err, c.want)
			}
			if content, err := os.ReadFile(precious); err != nil || string(content) != "precious" {
				t.Errorf("the file that the link leads to holds %q (%v)", content, err)
			}
		})
	}
}

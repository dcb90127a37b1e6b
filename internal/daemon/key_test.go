package daemon

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/informd/informd/internal/config"
)

// TestRedactionKeyIsPrivate: the key that informd makes has mode 0600, and one that every
// user can read, or that a link leads to, is refused.
func TestRedactionKeyIsPrivate(t *testing.T) {
	c := &config.Config{Journal: config.Journal{Type: config.JournalLog, Dir: t.TempDir()}}
	path := filepath.Join(c.Journal.Dir, keyName)
	made, err := redactionKey(c)
	must(t, err)
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the key is a file %v (%v)", info, err)
	}
	if again, err := redactionKey(c); err != nil || string(again) != string(made) {
		t.Errorf("the key is another one (%v)", err)
	}
	for mode, ok := range map[os.FileMode]bool{0o600: true, 0o400: true, 0o660: true, 0o644: false, 0o602: false} {
		must(t, os.Chmod(path, mode))
		if _, err := redactionKey(c); (err == nil) != ok || err != nil && !strings.Contains(err.Error(), "chmod 0600") {
			t.Errorf("mode %o: %v", mode, err)
		}
	}
	must(t, os.Rename(path, path+".elsewhere"))
	must(t, os.Symlink(path+".elsewhere", path))
	if _, err := redactionKey(c); err == nil || !strings.Contains(err.Error(), "symbolic link") {
		t.Errorf("a link: %v", err)
	}
}

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// ConfigFile is a config that is replaced as Kubernetes replaces a ConfigMap's:
// config.yaml -> ..data/config.yaml, where ..data is a link that is swapped.
type ConfigFile struct {
	t        *testing.T
	Dir      string
	versions int
}

// MountConfig moves the config of an informd into a directory of that kind.
func MountConfig(t *testing.T, d *Informd) (*ConfigFile, string) {
	t.Helper()
	text, err := os.ReadFile(d.Config)
	Must(t, err)
	f := &ConfigFile{t: t, Dir: t.TempDir()}
	f.Swap(string(text))
	d.Config = filepath.Join(f.Dir, "config.yaml")
	f.Link()
	return f, string(text)
}

// Link makes config.yaml point into ..data.
func (f *ConfigFile) Link() {
	f.t.Helper()
	Must(f.t, os.Symlink(filepath.Join("..data", "config.yaml"), filepath.Join(f.Dir, "config.yaml")))
}

// Swap replaces the content at once.
func (f *ConfigFile) Swap(text string) {
	f.t.Helper()
	old, _ := os.Readlink(filepath.Join(f.Dir, "..data")) // none at first
	f.versions++
	name := fmt.Sprintf("..v%d", f.versions)
	Must(f.t, os.Mkdir(filepath.Join(f.Dir, name), 0o700))
	Must(f.t, os.WriteFile(filepath.Join(f.Dir, name, "config.yaml"), []byte(text), 0o600))
	Must(f.t, os.Symlink(name, filepath.Join(f.Dir, "..tmp")))
	Must(f.t, os.Rename(filepath.Join(f.Dir, "..tmp"), filepath.Join(f.Dir, "..data")))
	if old != "" {
		Must(f.t, os.RemoveAll(filepath.Join(f.Dir, old)))
	}
}

// Write replaces the content piece by piece, as an editor may.
func (f *ConfigFile) Write(text string) {
	f.t.Helper()
	Must(f.t, os.WriteFile(filepath.Join(f.Dir, "..data", "config.yaml"), []byte(text), 0o600))
}

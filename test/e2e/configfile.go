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
	if err != nil {
		t.Fatal(err)
	}
	f := &ConfigFile{t: t, Dir: t.TempDir()}
	f.Swap(string(text))
	d.Config = filepath.Join(f.Dir, "config.yaml")
	f.Link()
	return f, string(text)
}

// Must fails the test with an error.
func (f *ConfigFile) Must(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

// Link makes config.yaml point into ..data.
func (f *ConfigFile) Link() {
	f.t.Helper()
	f.Must(os.Symlink(filepath.Join("..data", "config.yaml"), filepath.Join(f.Dir, "config.yaml")))
}

// Swap replaces the content at once.
func (f *ConfigFile) Swap(text string) {
	f.t.Helper()
	old, _ := os.Readlink(filepath.Join(f.Dir, "..data")) // none at first
	f.versions++
	name := fmt.Sprintf("..v%d", f.versions)
	f.Must(os.Mkdir(filepath.Join(f.Dir, name), 0o700))
	f.Must(os.WriteFile(filepath.Join(f.Dir, name, "config.yaml"), []byte(text), 0o600))
	f.Must(os.Symlink(name, filepath.Join(f.Dir, "..tmp")))
	f.Must(os.Rename(filepath.Join(f.Dir, "..tmp"), filepath.Join(f.Dir, "..data")))
	if old != "" {
		f.Must(os.RemoveAll(filepath.Join(f.Dir, old)))
	}
}

// Write replaces the content piece by piece, as an editor may.
func (f *ConfigFile) Write(text string) {
	f.t.Helper()
	f.Must(os.WriteFile(filepath.Join(f.Dir, "..data", "config.yaml"), []byte(text), 0o600))
}

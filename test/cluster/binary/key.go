package binary

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// An entry has two keys. The exact key is a hash of what the program is made of,
// which only the go command knows: asking it takes seconds. The quick key is a
// hash of files that hold all of that and more, such as go.mod; a small file named
// after it holds the name of the entry.

// quickKey hashes the recipe, the requirements of the module and the sources of
// the program's package.
func (r recipe) quickKey(module string) (string, error) {
	var files []string
	if r.version == "" {
		files = append(files, filepath.Join(module, "go.mod"), filepath.Join(module, "go.sum"))
	}
	if r.local() {
		err := filepath.WalkDir(filepath.Join(module, r.pkg), func(path string, _ fs.DirEntry, err error) error {
			if err == nil && strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
				files = append(files, path)
			}
			return err
		})
		if err != nil {
			return "", err
		}
	}
	sum := r.newHash()
	for _, path := range files {
		if err := hashFile(sum, module, path); err != nil {
			return "", err
		}
	}
	return digest(sum), nil
}

// exactKey hashes the recipe, the versions of the modules that the program has
// packages of, and the sources of its own package.
func (r recipe) exactKey(ctx context.Context, module string) (string, error) {
	if r.version != "" {
		return digest(r.newHash()), nil
	}
	modules, sources, err := r.parts(ctx, module)
	if err != nil {
		return "", err
	}
	sum := r.newHash()
	for _, m := range modules {
		fmt.Fprintln(sum, m)
	}
	for _, path := range sources {
		if err := hashFile(sum, module, path); err != nil {
			return "", err
		}
	}
	return digest(sum), nil
}

// listed is one package of the program, as go list prints it.
type listed struct {
	ImportPath string
	Dir        string
	GoFiles    []string
	EmbedFiles []string
	Module     *listedModule
}

type listedModule struct {
	Path    string
	Version string
	Main    bool
	Replace *listedModule
}

// parts returns the program's modules with their versions, and the files of its
// packages in the work tree.
func (r recipe) parts(ctx context.Context, module string) (modules, sources []string, err error) {
	out, err := goCommand(ctx, module, "list", "-deps", "-json=ImportPath,Dir,GoFiles,EmbedFiles,Module", r.pkg)
	if err != nil {
		return nil, nil, err
	}
	for decoder := json.NewDecoder(strings.NewReader(out)); ; {
		var p listed
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, nil, err
		}
		switch {
		case p.Module == nil: // of the standard library: the Go version is in the key
		case !p.Module.local():
			modules = append(modules, p.Module.String())
		case !r.local() || !within(filepath.Join(module, r.pkg), p.Dir):
			// The quick key would not notice a change there.
			return nil, nil, fmt.Errorf("%s imports %s, which is outside of the program's directory", r.pkg, p.ImportPath)
		default:
			for _, name := range slices.Concat(p.GoFiles, p.EmbedFiles) {
				sources = append(sources, filepath.Join(p.Dir, name))
			}
		}
	}
	slices.Sort(modules)
	return slices.Compact(modules), sources, nil
}

// local says whether the program's package is in the work tree.
func (r recipe) local() bool { return strings.HasPrefix(r.pkg, ".") }

// local says whether the module's sources are in the work tree.
func (m *listedModule) local() bool {
	if m.Replace != nil {
		return m.Replace.Version == ""
	}
	return m.Main
}

func (m *listedModule) String() string {
	if m.Replace != nil {
		return fmt.Sprintf("%s %s => %s %s", m.Path, m.Version, m.Replace.Path, m.Replace.Version)
	}
	return m.Path + " " + m.Version
}

func within(dir, path string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}

func (r recipe) newHash() hash.Hash {
	sum := sha256.New()
	fmt.Fprintln(sum, r.pkg, r.version, r.ldflags, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return sum
}

// hashFile adds a file's name within the module and its content.
func hashFile(sum hash.Hash, module, path string) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	name, err := filepath.Rel(module, path)
	if err != nil {
		return err
	}
	fmt.Fprintf(sum, "%s %d\n", filepath.ToSlash(name), len(content))
	_, _ = sum.Write(content) // a hash never fails
	return nil
}

func digest(sum hash.Hash) string { return hex.EncodeToString(sum.Sum(nil))[:16] }

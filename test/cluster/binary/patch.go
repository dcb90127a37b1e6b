package binary

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// patch is a change of one file of a dependency, for one program. The module cache
// stays as it is: the build uses a changed copy of the module.
type patch struct {
	module string // path of the dependency
	file   string // within the module
	edits  []edit
}

// edit replaces text that occurs exactly once in the file.
type edit struct{ old, text string }

func (p *patch) String() string {
	if p == nil {
		return ""
	}
	return fmt.Sprintf("%s/%s %q", p.module, p.file, p.edits)
}

// write copies the dependency into a directory, changes the file in the copy, and
// writes a go.mod that names the copy. It returns the path of the go.mod.
func (p *patch) write(ctx context.Context, module, dir string) (string, error) {
	out, err := goCommand(ctx, module, "list", "-m", "-f", "{{.Dir}}", p.module)
	if err != nil {
		return "", err
	}
	changed, modfile := filepath.Join(dir, "patched"), filepath.Join(dir, "go.mod")
	if err := os.RemoveAll(changed); err != nil {
		return "", err
	}
	if err := os.CopyFS(changed, os.DirFS(strings.TrimSpace(out))); err != nil {
		return "", err
	}
	file := filepath.Join(changed, filepath.FromSlash(p.file))
	content, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	text, err := p.apply(string(content))
	if err != nil {
		return "", err
	}
	err = errors.Join(os.WriteFile(file, []byte(text), 0o600),
		copyFile(filepath.Join(module, "go.mod"), modfile),
		copyFile(filepath.Join(module, "go.sum"), filepath.Join(dir, "go.sum")))
	if err != nil {
		return "", err
	}
	_, err = goCommand(ctx, module, "mod", "edit", "-replace="+p.module+"="+changed, modfile)
	return modfile, err
}

// goCommand runs the go command in the module and returns what it prints.
func goCommand(ctx context.Context, module string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.Env = module, environment()
	var complaint strings.Builder
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("go %s in %s: %w\n%s", strings.Join(args, " "), module, err, complaint.String())
	}
	return string(out), nil
}

func (p *patch) apply(text string) (string, error) {
	for _, e := range p.edits {
		if n := strings.Count(text, e.old); n != 1 {
			return "", fmt.Errorf("%s/%s has %d times, not once: %s", p.module, p.file, n, e.old)
		}
		text = strings.Replace(text, e.old, e.text, 1)
	}
	return text, nil
}

// droppedEvents is a bug in kube-apiserver's watch cache. The cache drops a watch
// event of etcd if the object's annotation seeded-bug.informd.dev/drop names the
// event's type: ADDED, MODIFIED or DELETED, several with commas. The cache then
// takes the event's revision for seen, so neither lists nor watches from the cache
// show the change. etcd holds it.
func droppedEvents() *patch {
	return &patch{
		module: "k8s.io/apiserver",
		file:   "pkg/storage/cacher/watch_cache.go",
		edits: []edit{
			{
				old:  "\t\"fmt\"\n",
				text: "\t\"fmt\"\n\t\"strconv\"\n\t\"strings\"\n",
			},
			{
				old:  "\t\"k8s.io/apimachinery/pkg/api/errors\"\n",
				text: "\t\"k8s.io/apimachinery/pkg/api/errors\"\n\t\"k8s.io/apimachinery/pkg/api/meta\"\n",
			},
			{
				old:  "\twcEvent := &watchCacheEvent{\n\t\tType:            event.Type,\n",
				text: "\tif droppedBySeededBug(event) {\n\t\tw.UpdateResourceVersion(strconv.FormatUint(resourceVersion, 10))\n\t\treturn nil\n\t}\n\n\twcEvent := &watchCacheEvent{\n\t\tType:            event.Type,\n",
			},
			{
				old: "// processEvent is safe as long as",
				text: `func droppedBySeededBug(event watch.Event) bool {
	object, err := meta.Accessor(event.Object)
	if err != nil {
		return false
	}
	types := strings.Split(object.GetAnnotations()["seeded-bug.informd.dev/drop"], ",")
	for _, t := range types {
		if t == string(event.Type) {
			klog.Infof("seeded bug: %s of %s/%s dropped", event.Type, object.GetNamespace(), object.GetName())
			return true
		}
	}
	return false
}

// processEvent is safe as long as`,
			},
		},
	}
}

package binary

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/informd/informd/test/cluster/internal/flock"
	"github.com/informd/informd/test/cluster/proc"
)

const (
	progressInterval = 10 * time.Second
	unusedFor        = 7 * 24 * time.Hour
)

// keySuffix ends the names of the files that lead from a quick key to an entry.
const keySuffix = ".key"

// find returns the program's entry in the cache, built from the module if need be.
func (r recipe) find(ctx context.Context, module, cache string) (string, error) {
	quick, err := r.quickKey(module)
	if err != nil {
		return "", fmt.Errorf("hash the sources of %s: %w", r.name, err)
	}
	pointer := filepath.Join(cache, r.name+"-"+quick+keySuffix)
	if entry := follow(pointer); entry != "" {
		return entry, nil
	}
	lock, err := flock.Wait(ctx, filepath.Join(cache, r.name+".lock"), func() {
		fmt.Fprintf(os.Stderr, "waiting for another process that builds %s\n", r.name)
	})
	if err != nil {
		return "", fmt.Errorf("build %s: %w", r.name, err)
	}
	defer func() { _ = lock.Release() }()
	if entry := follow(pointer); entry != "" { // another process built it meanwhile
		return entry, nil
	}
	exact, err := r.exactKey(ctx, module)
	if err != nil {
		return "", fmt.Errorf("find the parts of %s: %w", r.name, err)
	}
	entry := filepath.Join(cache, r.name+"-"+exact)
	if !use(entry) {
		if err := r.build(ctx, module, entry); err != nil {
			return "", fmt.Errorf("build %s: %w", r.name, err)
		}
		r.prune(cache)
	}
	return entry, point(pointer, entry)
}

// follow returns the entry that a pointer names, or "".
func follow(pointer string) string {
	name, err := os.ReadFile(pointer)
	if err != nil {
		return ""
	}
	entry := filepath.Join(filepath.Dir(pointer), string(name))
	if !use(entry) {
		return ""
	}
	use(pointer)
	return entry
}

// point makes the pointer name the entry.
func point(pointer, entry string) error {
	temp := pointer + ".new"
	if err := os.WriteFile(temp, []byte(filepath.Base(entry)), 0o600); err != nil {
		return err
	}
	return os.Rename(temp, pointer)
}

// use says whether the entry exists, and marks it as used.
func use(entry string) bool {
	if _, err := os.Stat(entry); err != nil {
		return false
	}
	now := time.Now()
	_ = os.Chtimes(entry, now, now) // only prune reads it, and that with a week's slack
	return true
}

// build makes the entry. The caller holds the lock of the recipe, so the
// temporary directory has one user, and one left by a build that was killed is
// used again.
func (r recipe) build(ctx context.Context, module, entry string) error {
	work := filepath.Join(filepath.Dir(entry), r.name+".new")
	defer func() { _ = os.RemoveAll(work) }()
	if err := os.MkdirAll(work, 0o755); err != nil {
		return err
	}
	cmd, temp := r.command(ctx, module, work)
	r.seed(filepath.Dir(entry), temp)
	if err := r.run(cmd, filepath.Dir(entry)); err != nil {
		return fmt.Errorf("go build %s in %s: %w", r.pkg, module, err)
	}
	return os.Rename(temp, entry)
}

// command returns the command that builds the program, and where it puts it.
func (r recipe) command(ctx context.Context, module, work string) (cmd *exec.Cmd, temp string) {
	flags := []string{"-trimpath", "-ldflags", r.ldflags}
	env := environment()
	if r.version != "" {
		temp = filepath.Join(work, path.Base(r.pkg))
		flags = append(append([]string{"install"}, flags...), r.pkg+"@"+r.version)
		env = append(env, "GOBIN="+work, "GOFLAGS=")
	} else {
		temp = filepath.Join(work, r.name)
		// -buildvcs=false: a commit would change the content, but not the key.
		flags = append(append([]string{"build"}, flags...), "-buildvcs=false", "-o", temp)
		flags = append(flags, r.pkg)
	}
	cmd = exec.CommandContext(ctx, "go", flags...)
	cmd.Dir, cmd.Env = module, env
	return cmd, temp
}

// run runs the go command and reports its progress.
func (r recipe) run(cmd *exec.Cmd, cache string) error {
	// A test that runs into its time limit must not leave a build behind that
	// nobody waits for. The go command ends with this process, its process group
	// (the compilers) with ctx; what was compiled by then is in Go's own cache.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = proc.TiedToParent()
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output

	stop := r.progress(os.Stderr, cache)
	err := cmd.Run()
	stop()
	if err != nil {
		return fmt.Errorf("%w\n%s", err, output.Bytes())
	}
	return nil
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

// environment is that of the go command.
func environment() []string {
	return append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOOS="+runtime.GOOS, "GOARCH="+runtime.GOARCH)
}

// seed copies the newest earlier entry to where the go command will write. If only
// something irrelevant changed, such as a comment, the go command recognises its
// own output by the build ID in it, and the minute of linking is saved. Failing is
// harmless.
func (r recipe) seed(cache, temp string) {
	var newest string
	var newestTime time.Time
	for _, file := range r.entries(cache) {
		info, err := os.Stat(file)
		if err == nil && info.ModTime().After(newestTime) && filepath.Ext(file) != keySuffix {
			newest, newestTime = file, info.ModTime()
		}
	}
	if newest == "" {
		return
	}
	if err := copyFile(newest, temp); err != nil {
		_ = os.Remove(temp)
	}
}

// prune removes entries and pointers that were not used for a week.
func (r recipe) prune(cache string) {
	for _, file := range r.entries(cache) {
		if info, err := os.Stat(file); err == nil && time.Since(info.ModTime()) > unusedFor {
			_ = os.RemoveAll(file)
		}
	}
}

// entries are the recipe's files in the cache, pointers included.
func (r recipe) entries(cache string) []string {
	paths, _ := filepath.Glob(filepath.Join(cache, r.name+"-*")) // the pattern is valid
	return paths
}

// progress reports at once and then every ten seconds, until the returned
// function is called.
func (r recipe) progress(to io.Writer, cache string) (stop func()) {
	started := time.Now()
	quit, ended := make(chan struct{}), make(chan struct{})
	fmt.Fprintf(to, "building %s: a first build takes about %s on 2 cores; cached afterwards in %s\n", r.name, r.duration, cache)
	go func() {
		defer close(ended)
		ticker := time.NewTicker(progressInterval)
		defer ticker.Stop()
		for {
			select {
			case <-quit:
				return
			case <-ticker.C:
				fmt.Fprintf(to, "building %s: %s so far\n", r.name, time.Since(started).Round(time.Second))
			}
		}
	}()
	return func() {
		close(quit)
		<-ended
		fmt.Fprintf(to, "building %s: ended after %s\n", r.name, time.Since(started).Round(time.Second))
	}
}

func copyFile(from, to string) error {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = source.Close() }()
	target, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(target, source)
	if closeErr := target.Close(); err == nil {
		err = closeErr
	}
	return err
}

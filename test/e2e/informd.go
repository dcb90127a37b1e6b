package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/informd/informd/test/cluster/proc"
)

// Informd is an informd process whose events go to a file sink. It can be ended and
// started again.
type Informd struct {
	T      *testing.T
	Dir    string // of the config, the events and, below journal, the journal
	Config string
	Admin  string
	Stdout *LockedBuffer
	Stderr *LockedBuffer

	// Of the process that was started last.
	Cmd    *exec.Cmd
	Exited chan struct{}
	Err    error // valid once Exited is closed

	events EventFile
}

// Setup is what an informd is started with.
type Setup struct {
	Kubeconfig string
	// Kubernetes is what the YAML map of that name has beside kubeconfig.
	Kubernetes string
	// Resources and Sinks are YAML lists. Another sink, before these, is a file
	// with everything.
	Resources, Sinks string
	// Journal is what the journal's YAML map has beside dir; empty: the memory
	// journal.
	Journal string
	// Admin is what the YAML map of that name has beside listen and socket.
	Admin string
	// Replicas is what the YAML map of that name has beside lease and namespace. There is no file sink
	// then.
	Replicas string
	// More is further keys of the config.
	More string
}

// LogJournal is the journal that is the default.
const LogJournal = "type: log"

// LongHistory is appended to the journal of a test that claims every event under load. With
// the default history a sink that is blocked for some seconds gets a gap `trimmed`.
const LongHistory = ", historyPerObject: 1000"

// ServerList is a list of URLs, which commas separate, as a config has it.
func ServerList(urls string) string { return `["` + strings.ReplaceAll(urls, ",", `", "`) + `"]` }

// StartInformd runs informd with a memory journal.
func StartInformd(t *testing.T, kubeconfig, resources, sinks string) *Informd {
	t.Helper()
	d := NewInformd(t, Setup{Kubeconfig: kubeconfig, Resources: resources, Sinks: sinks})
	d.Start()
	return d
}

// NewInformd prepares an informd. At the end of the test it is stopped.
func NewInformd(t *testing.T, s Setup) *Informd {
	t.Helper()
	d := &Informd{T: t, Dir: t.TempDir(), Admin: FreeAddress(t), Stdout: &LockedBuffer{}, Stderr: &LockedBuffer{}}
	d.Configure(s)
	t.Cleanup(func() {
		if d.Cmd != nil {
			d.Stop()
		}
		if config, err := os.ReadFile(d.Config); t.Failed() {
			t.Logf("informd's config (%v):\n%s\ninformd's log:\n%s", err, config, d.Stderr)
		}
	})
	return d
}

// Configure writes the config that the next start reads.
func (d *Informd) Configure(s Setup) {
	d.T.Helper()
	journal := fmt.Sprintf("type: memory, dir: %q", d.Dir)
	switch {
	case strings.Contains(s.Journal, "dir:"):
		journal = s.Journal
	case s.Journal != "":
		journal = fmt.Sprintf("%s, dir: %q", s.Journal, d.JournalDir())
	}
	kubernetes := fmt.Sprintf("kubeconfig: %q", s.Kubeconfig)
	if s.Kubernetes != "" {
		kubernetes += ", " + s.Kubernetes
	}
	file, more := fmt.Sprintf("  - {name: all, type: file, path: %q}\n", d.EventsPath()), s.More
	if s.Replicas != "" {
		file, more = "", fmt.Sprintf("replicas: {lease: informd, namespace: default, %s}\n%s", s.Replicas, s.More)
	}
	config := fmt.Sprintf("cluster: e2e\nkubernetes: {%s}\nresources:\n%s\njournal: {%s}\nsinks:\n%s%s\nadmin: {listen: %q, socket: %q%s}\n%s\n",
		kubernetes, indent(s.Resources), journal, file, indent(s.Sinks), d.Admin, d.Socket(), s.Admin, more)
	d.Config = filepath.Join(d.Dir, "config.yaml")
	Must(d.T, os.WriteFile(d.Config, []byte(config), 0o600))
}

// Socket is where the commands ask.
func (d *Informd) Socket() string { return filepath.Join(d.Dir, "admin.sock") }

// Start runs the process.
func (d *Informd) Start() {
	d.T.Helper()
	cmd := exec.CommandContext(context.WithoutCancel(d.T.Context()), informdBinary, "run", "--config", d.Config)
	cmd.Stdout, cmd.Stderr = d.Stdout, d.Stderr
	cmd.SysProcAttr = proc.TiedToParent()
	started, exited := make(chan error), make(chan struct{})
	d.Cmd, d.Exited = cmd, exited
	go func() {
		runtime.LockOSThread() // as TiedToParent wants it
		defer close(exited)
		err := cmd.Start()
		started <- err
		if err == nil {
			d.Err = cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		d.Cmd = nil
		d.T.Fatal(err)
	}
}

// Kill ends informd as kill -9 does.
func (d *Informd) Kill() {
	d.T.Helper()
	Must(d.T, d.Cmd.Process.Kill())
	<-d.Exited
}

// Wait waits until informd has ended by itself, and returns its exit code.
func (d *Informd) Wait() int {
	d.T.Helper()
	select {
	case <-d.Exited:
	case <-time.After(Patience):
		d.T.Fatal("informd did not end")
	}
	return d.Cmd.ProcessState.ExitCode()
}

func indent(list string) string {
	var b strings.Builder
	for line := range strings.Lines(strings.Trim(list, "\n")) {
		b.WriteString("  " + strings.TrimLeft(line, "\t"))
	}
	return b.String()
}

// EventsPath is the file of the file sink.
func (d *Informd) EventsPath() string {
	return filepath.Join(d.Dir, "events.ndjson")
}

// JournalDir is where the journal is, unless the setup names another directory.
func (d *Informd) JournalDir() string { return filepath.Join(d.Dir, "journal") }

// Stop ends informd with SIGTERM and waits for it; calling it again is fine.
func (d *Informd) Stop() {
	d.T.Helper()
	_ = d.Cmd.Process.Signal(syscall.SIGTERM) // it may be gone already
	select {
	case <-d.Exited:
	case <-time.After(Patience):
		_ = d.Cmd.Process.Kill()
		<-d.Exited
		d.T.Errorf("informd did not end on SIGTERM")
	}
}

// LockedBuffer collects a process's output.
type LockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *LockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *LockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

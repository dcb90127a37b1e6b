package e2e_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/informd/informd/test/cluster/proc"
)

// patience is how long a test waits for what must happen.
const patience = 2 * time.Minute

// informd is an informd process whose events go to a file sink. It can be ended and
// started again.
type informd struct {
	t      *testing.T
	dir    string // of the config, the events and, below journal, the journal
	config string
	admin  string
	stdout *lockedBuffer
	stderr *lockedBuffer
	pipe   *os.File // if set, standard output in place of stdout

	// Of the process that was started last.
	cmd    *exec.Cmd
	exited chan struct{}
	err    error // valid once exited is closed

	events eventFile
}

// record is one line of the file sink.
type record struct {
	ID, Op, Group, Version, Resource, Namespace, Name, UID, Cluster, Kind, Type, Subject, Time string

	ResourceVersion, PrevResourceVersion uint64 `json:",string"`
	FromRV, ToRV                         uint64 `json:",string"`
	Reason, Recovered                    string
	Ordinal                              uint64
	Run                                  uint64 `json:",string"`
	Replay                               bool
	Trimmed                              uint64 `json:",string"`
	Data                                 struct {
		Object json.RawMessage
		Final  *bool
	}

	raw string // the line
}

func (r record) control() bool {
	return r.Op == "begin" || r.Op == "synced" || r.Op == "gap" || r.Op == "state"
}

// setup is what an informd is started with.
type setup struct {
	kubeconfig string
	// kubernetes is what the YAML map of that name has beside kubeconfig.
	kubernetes string
	// resources and sinks are YAML lists. Another sink, before these, is a file
	// with everything.
	resources, sinks string
	// journal is what the journal's YAML map has beside dir; empty: the memory
	// journal.
	journal string
	// admin is what the YAML map of that name has beside listen and socket.
	admin string
	// replicas is what the YAML map of that name has beside lease and namespace. There is no file sink
	// then.
	replicas string
	// more is further keys of the config.
	more string
}

// logJournal is the journal that is the default.
const logJournal = "type: log"

// longHistory is appended to the journal of a test that claims every event under load. With
// the default history a sink that is blocked for some seconds gets a gap `trimmed`.
const longHistory = ", historyPerObject: 1000"

// serverList is a list of URLs, which commas separate, as a config has it.
func serverList(urls string) string { return `["` + strings.ReplaceAll(urls, ",", `", "`) + `"]` }

// startInformd runs informd with a memory journal.
func startInformd(t *testing.T, kubeconfig, resources, sinks string) *informd {
	t.Helper()
	d := newInformd(t, setup{kubeconfig: kubeconfig, resources: resources, sinks: sinks})
	d.start()
	return d
}

// newInformd prepares an informd. At the end of the test it is stopped.
func newInformd(t *testing.T, s setup) *informd {
	t.Helper()
	d := &informd{t: t, dir: t.TempDir(), admin: freeAddress(t), stdout: &lockedBuffer{}, stderr: &lockedBuffer{}}
	d.configure(s)
	t.Cleanup(func() {
		if d.cmd != nil {
			d.stop()
		}
		if config, err := os.ReadFile(d.config); t.Failed() {
			t.Logf("informd's config (%v):\n%s\ninformd's log:\n%s", err, config, d.stderr)
		}
	})
	return d
}

// configure writes the config that the next start reads.
func (d *informd) configure(s setup) {
	d.t.Helper()
	journal := fmt.Sprintf("type: memory, dir: %q", d.dir)
	switch {
	case strings.Contains(s.journal, "dir:"):
		journal = s.journal
	case s.journal != "":
		journal = fmt.Sprintf("%s, dir: %q", s.journal, d.journalDir())
	}
	kubernetes := fmt.Sprintf("kubeconfig: %q", s.kubeconfig)
	if s.kubernetes != "" {
		kubernetes += ", " + s.kubernetes
	}
	file, more := fmt.Sprintf("  - {name: all, type: file, path: %q}\n", d.eventsPath()), s.more
	if s.replicas != "" {
		file, more = "", fmt.Sprintf("replicas: {lease: informd, namespace: default, %s}\n%s", s.replicas, s.more)
	}
	config := fmt.Sprintf("cluster: e2e\nkubernetes: {%s}\nresources:\n%s\njournal: {%s}\nsinks:\n%s%s\nadmin: {listen: %q, socket: %q%s}\n%s\n",
		kubernetes, indent(s.resources), journal, file, indent(s.sinks), d.admin, d.socket(), s.admin, more)
	d.config = filepath.Join(d.dir, "config.yaml")
	if err := os.WriteFile(d.config, []byte(config), 0o600); err != nil {
		d.t.Fatal(err)
	}
}

// socket is where the commands ask.
func (d *informd) socket() string { return filepath.Join(d.dir, "admin.sock") }

// start runs the process.
func (d *informd) start() {
	d.t.Helper()
	cmd := exec.CommandContext(context.WithoutCancel(d.t.Context()), informdBinary, "run", "--config", d.config)
	cmd.Stdout, cmd.Stderr = d.stdout, d.stderr
	if d.pipe != nil {
		cmd.Stdout = d.pipe
	}
	cmd.SysProcAttr = proc.TiedToParent()
	started, exited := make(chan error), make(chan struct{})
	d.cmd, d.exited = cmd, exited
	go func() {
		runtime.LockOSThread() // as TiedToParent wants it
		defer close(exited)
		err := cmd.Start()
		started <- err
		if err == nil {
			d.err = cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		d.cmd = nil
		d.t.Fatal(err)
	}
}

// kill ends informd as kill -9 does.
func (d *informd) kill() {
	d.t.Helper()
	if err := d.cmd.Process.Kill(); err != nil {
		d.t.Fatal(err)
	}
	<-d.exited
}

// wait waits until informd has ended by itself, and returns its exit code.
func (d *informd) wait() int {
	d.t.Helper()
	select {
	case <-d.exited:
	case <-time.After(patience):
		d.t.Fatal("informd did not end")
	}
	return d.cmd.ProcessState.ExitCode()
}

func indent(list string) string {
	var b strings.Builder
	for line := range strings.Lines(strings.Trim(list, "\n")) {
		b.WriteString("  " + strings.TrimLeft(line, "\t"))
	}
	return b.String()
}

func (d *informd) eventsPath() string {
	return filepath.Join(d.dir, "events.ndjson")
}

func (d *informd) journalDir() string { return filepath.Join(d.dir, "journal") }

// stop ends informd with SIGTERM and waits for it; calling it again is fine.
func (d *informd) stop() {
	d.t.Helper()
	_ = d.cmd.Process.Signal(syscall.SIGTERM) // it may be gone already
	select {
	case <-d.exited:
	case <-time.After(patience):
		_ = d.cmd.Process.Kill()
		<-d.exited
		d.t.Errorf("informd did not end on SIGTERM")
	}
}

// records reads the file sink, without a last line that is being written.
func (d *informd) records() []record {
	d.t.Helper()
	return slices.Clip(d.events.read(d.t, d.eventsPath()))
}

// eventFile is a file sink's file, of which each read parses what is new.
type eventFile struct {
	records []record
	offset  int64
}

func (f *eventFile) read(t *testing.T, path string) []record {
	t.Helper()
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close() //nolint:errcheck // nothing was written
	if info, err := file.Stat(); err != nil || info.Size() < f.offset {
		t.Fatalf("%s was cut below what had been read (%d bytes): %v", path, f.offset, err)
	}
	lines := bufio.NewReaderSize(io.NewSectionReader(file, f.offset, math.MaxInt64-f.offset), 1<<20)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return f.records
		}
		var r record
		if err := errors.Join(err, json.Unmarshal(line, &r)); err != nil {
			t.Fatalf("event %d: %v\n%.1000s", len(f.records), err, line)
		}
		r.raw = string(line)
		f.records = append(f.records, r)
		f.offset += int64(len(line))
	}
}

// waitForSync waits until n targets have a synced record in the stream.
func (d *informd) waitForSync(n int) {
	d.t.Helper()
	eventually(d.t, fmt.Sprintf("%d targets synced", n), func() bool { return count(d.records(), "synced") >= n })
}

func count(records []record, op string) int {
	n := 0
	for _, r := range records {
		if r.Op == op {
			n++
		}
	}
	return n
}

// status is what /status says.
type status struct {
	TargetStates map[string]int
	Targets      []struct {
		Target, Version, State, Reason string
		MissingVerbs                   []string
		Objects                        int
		ResourceVersion                uint64 `json:",string"`
	}
	Sinks []struct {
		Name, State, LastError string
		LagEvents              int
	}
	Journal struct {
		Events, Bytes, CapacityBytes uint64
		Blocked                      int
	}
	Follower *struct {
		Leader string
		InSync bool
	}
}

func (d *informd) status() (status, error) {
	var s status
	body, code, err := d.get("/status")
	if err != nil || code != http.StatusOK {
		return s, errors.Join(err, fmt.Errorf("status %d", code))
	}
	return s, json.Unmarshal(body, &s)
}

func (d *informd) get(path string) ([]byte, int, error) {
	request, err := http.NewRequestWithContext(d.t.Context(), http.MethodGet, "http://"+d.admin+path, nil)
	if err != nil {
		return nil, 0, err
	}
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		return nil, 0, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return body, response.StatusCode, err
}

// waitForLive waits until all n targets watch, and all sinks have taken everything.
func (d *informd) waitForLive(n int) {
	d.t.Helper()
	eventually(d.t, fmt.Sprintf("%d targets live and no sink behind", n), func() bool {
		s, err := d.status()
		if err != nil || len(s.Targets) != n {
			return false
		}
		live := true
		for _, x := range s.Targets {
			live = live && x.State == "live"
		}
		for _, x := range s.Sinks {
			live = live && x.LagEvents == 0
		}
		return live
	})
}

// eventually waits until ok holds, and fails the test after patience.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	end := time.Now().Add(patience)
	poll := time.NewTicker(100 * time.Millisecond)
	defer poll.Stop()
	for !ok() {
		if time.Now().After(end) {
			t.Fatalf("%s: not within %v", what, patience)
		}
		<-poll.C
	}
}

// freeAddress is a loopback address that stays free for the test: no outgoing
// connection can take its port.
func freeAddress(t *testing.T) string {
	t.Helper()
	port, err := proc.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(port.Release)
	return port.Address()
}

// lockedBuffer collects a process's output.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

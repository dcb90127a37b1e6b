package e2e_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/informd/informd/test/cluster/proc"
)

// patience is how long a test waits for what must happen.
const patience = 2 * time.Minute

// informd is a running informd process whose events go to a file sink.
type informd struct {
	t      *testing.T
	cmd    *exec.Cmd
	dir    string
	admin  string
	stdout *lockedBuffer
	stderr *lockedBuffer
	exited chan struct{}
	err    error // valid once exited is closed
}

// record is one line of the file sink.
type record struct {
	ID, Op, Group, Version, Resource, Namespace, Name, UID, Cluster, Kind, Type, Subject string

	ResourceVersion, PrevResourceVersion uint64 `json:",string"`
	FromRV, ToRV                         uint64 `json:",string"`
	Reason, Recovered                    string
	Ordinal                              uint64
	Replay                               bool
	Data                                 struct {
		Object json.RawMessage
		Final  *bool
	}
}

func (r record) control() bool { return r.Op == "synced" || r.Op == "gap" }

// startInformd runs informd with the resources and extra sinks given as YAML
// lists. Its first sink is a file with everything.
func startInformd(t *testing.T, kubeconfig, resources, sinks string) *informd {
	t.Helper()
	d := &informd{t: t, dir: t.TempDir(), stdout: &lockedBuffer{}, stderr: &lockedBuffer{}, exited: make(chan struct{})}
	d.admin = freeAddress(t)
	config := fmt.Sprintf("cluster: e2e\nkubernetes: {kubeconfig: %q}\nresources:\n%s\njournal: {type: memory, dir: %q}\nsinks:\n  - {name: all, type: file, path: %q}\n%s\nadmin: {listen: %q}\n",
		kubeconfig, indent(resources), d.dir, d.eventsPath(), indent(sinks), d.admin)
	path := filepath.Join(d.dir, "config.yaml")
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	d.cmd = exec.CommandContext(context.WithoutCancel(t.Context()), informdBinary, "run", "--config", path)
	d.cmd.Stdout, d.cmd.Stderr = d.stdout, d.stderr
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		d.err = d.cmd.Wait()
		close(d.exited)
	}()
	t.Cleanup(func() {
		d.stop()
		if t.Failed() {
			t.Logf("informd's config:\n%s\ninformd's log:\n%s", config, d.stderr)
		}
	})
	return d
}

func indent(list string) string {
	var b strings.Builder
	for line := range strings.Lines(strings.Trim(list, "\n")) {
		b.WriteString("  " + strings.TrimLeft(line, "\t"))
	}
	return b.String()
}

func (d *informd) eventsPath() string { return filepath.Join(d.dir, "events.ndjson") }

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
	b, err := os.ReadFile(d.eventsPath())
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		d.t.Fatal(err)
	}
	b = b[:bytes.LastIndexByte(b, '\n')+1]
	var all []record
	lines := bufio.NewScanner(bytes.NewReader(b))
	lines.Buffer(nil, 8<<20)
	for lines.Scan() {
		var r record
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			d.t.Fatalf("event %d: %v\n%s", len(all), err, lines.Bytes())
		}
		all = append(all, r)
	}
	return all
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
	Targets []struct {
		Target, State, Reason string
		Objects               int
	}
	Sinks []struct {
		Name, State, LastError string
	}
	Journal struct {
		Bytes, CapacityBytes uint64
		Blocked              int
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

package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// configFile is a config that is replaced as Kubernetes replaces a ConfigMap's:
// config.yaml -> ..data/config.yaml, where ..data is a link that is swapped.
type configFile struct {
	t        *testing.T
	dir      string
	versions int
}

// mountConfig moves the config of an informd into a directory of that kind.
func mountConfig(t *testing.T, d *informd) (*configFile, string) {
	t.Helper()
	text, err := os.ReadFile(d.config)
	if err != nil {
		t.Fatal(err)
	}
	f := &configFile{t: t, dir: t.TempDir()}
	f.swap(string(text))
	d.config = filepath.Join(f.dir, "config.yaml")
	f.link()
	return f, string(text)
}

func (f *configFile) must(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

func (f *configFile) link() {
	f.t.Helper()
	f.must(os.Symlink(filepath.Join("..data", "config.yaml"), filepath.Join(f.dir, "config.yaml")))
}

// swap replaces the content at once.
func (f *configFile) swap(text string) {
	f.t.Helper()
	old, _ := os.Readlink(filepath.Join(f.dir, "..data")) // none at first
	f.versions++
	name := fmt.Sprintf("..v%d", f.versions)
	f.must(os.Mkdir(filepath.Join(f.dir, name), 0o700))
	f.must(os.WriteFile(filepath.Join(f.dir, name, "config.yaml"), []byte(text), 0o600))
	f.must(os.Symlink(name, filepath.Join(f.dir, "..tmp")))
	f.must(os.Rename(filepath.Join(f.dir, "..tmp"), filepath.Join(f.dir, "..data")))
	if old != "" {
		f.must(os.RemoveAll(filepath.Join(f.dir, old)))
	}
}

// write replaces the content piece by piece, as an editor may.
func (f *configFile) write(text string) {
	f.t.Helper()
	f.must(os.WriteFile(filepath.Join(f.dir, "..data", "config.yaml"), []byte(text), 0o600))
}

// reload asks for a reload and returns the answer's status.
func (d *informd) reload() int {
	d.t.Helper()
	request, err := http.NewRequestWithContext(d.t.Context(), http.MethodPost, "http://informd/-/reload", nil)
	if err != nil {
		d.t.Fatal(err)
	}
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", d.socket())
	}
	client := &http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true, DialContext: dial}}
	response, err := client.Do(request)
	if err != nil {
		d.t.Fatal(err)
	}
	defer response.Body.Close()
	return response.StatusCode
}

// configStatus is the config's part of /status.
type configStatus struct {
	LastReload           time.Time
	LastReloadSuccessful bool
	LastReloadError      string
}

func (d *informd) configStatus() configStatus {
	d.t.Helper()
	var s struct{ Config configStatus }
	body, _, err := d.get("/status")
	if err == nil {
		err = json.Unmarshal(body, &s)
	}
	if err != nil {
		d.t.Fatal(err)
	}
	return s.Config
}

// metrics returns every series of /metrics with its value.
func (d *informd) metrics() map[string]float64 {
	d.t.Helper()
	body, _, err := d.get("/metrics")
	if err != nil {
		d.t.Fatal(err)
	}
	all := make(map[string]float64)
	for line := range strings.Lines(string(body)) {
		name, value, found := strings.Cut(strings.TrimSpace(line), "} ")
		if !found {
			name, value, _ = strings.Cut(strings.TrimSpace(line), " ")
		}
		if n, err := strconv.ParseFloat(value, 64); err == nil && !strings.HasPrefix(line, "#") {
			all[name] = n
		}
	}
	return all
}

// connections is how many TCP connections informd has open.
func (d *informd) connections() (n int) {
	d.t.Helper()
	dir := fmt.Sprintf("/proc/%d/", d.cmd.Process.Pid)
	names, err := filepath.Glob(dir + "fd/*")
	if err != nil {
		d.t.Fatal(err)
	}
	own := make(map[string]bool) // by the inode of the socket
	for _, name := range names {
		link, _ := os.Readlink(name) // it may be closed by now
		if inode, ok := strings.CutPrefix(link, "socket:["); ok {
			own[strings.TrimSuffix(inode, "]")] = true
		}
	}
	for _, table := range []string{"tcp", "tcp6"} {
		text, err := os.ReadFile(dir + "net/" + table)
		if err != nil {
			d.t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			const listening = "0A"
			if fields := strings.Fields(line); len(fields) > 9 && own[fields[9]] && fields[3] != listening { // see proc_net_tcp(5)
				n++
			}
		}
	}
	return n
}

// TestReloads changes the config again and again under load, by all ways there
// are, every other time for the worse: no sink loses or repeats anything, and
// nothing is left over. E2E_RELOADS sets how often.
func TestReloads(t *testing.T) {
	r := newRig(t)
	d := newInformd(t, r.setup(logJournal))
	file, base := mountConfig(t, d)
	d.start()
	d.waitForSync(len(r.kinds))
	d.waitForLive(len(r.kinds))
	before, connections := d.metrics(), d.connections()
	end := r.load()

	extra := fmt.Sprintf("sinks:\n  - {name: extra, type: file, path: %q}\n", filepath.Join(d.dir, "extra.ndjson"))
	variants := []string{
		base,
		strings.Replace(base, "sinks:\n", extra, 1),
		strings.Replace(base, "name: bus,", "name: bus, match: [{ops: [snapshot, added, modified, deleted, left, entered]}],", 1),
		strings.Replace(base, "name: all,", "name: all, maxFiles: 7,", 1),
		strings.Replace(base, "{group: e2e.example.com, resource: gadgets, mode: full}", "{resource: secrets, mode: metadata}", 1),
		strings.Replace(base, "{group: e2e.example.com, resource: planets, mode: full}", "{group: e2e.example.com, resource: planets, mode: full, version: v1}", 1),
		base + "log: {level: debug}\n",
	}
	for i, v := range variants[1:] {
		if v == base {
			t.Fatalf("variant %d is no other", i+1)
		}
	}
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	reloads := number(t, "E2E_RELOADS", 1000)
	for i := range reloads {
		text := variants[random.IntN(len(variants))]
		want := http.StatusOK
		if i%2 == 1 {
			want = http.StatusBadRequest
			switch random.IntN(3) {
			case 0:
				text = text[:random.IntN(len(base)-60)] // what is being written
			case 1:
				text += "sinkz: []\n"
			default:
				text = strings.Replace(text, "type: log", "type: log, historyPerObject: 99", 1)
			}
		}
		if random.IntN(2) == 0 {
			file.swap(text)
		} else {
			file.write(text)
		}
		if random.IntN(10) == 0 {
			file.must(os.Remove(filepath.Join(file.dir, "config.yaml")))
			if got := d.reload(); got != http.StatusBadRequest {
				t.Errorf("reload %d without a file: %d", i, got)
			}
			file.link()
		}
		if random.IntN(4) == 0 {
			asked := d.configStatus().LastReload
			file.must(d.cmd.Process.Signal(syscall.SIGHUP))
			eventually(t, "SIGHUP has an effect", func() bool { return d.configStatus().LastReload.After(asked) })
		} else if got := d.reload(); got != want {
			t.Errorf("reload %d: %d, want %d; config:\n%s", i, got, want, text)
		}
		if t.Failed() {
			t.FailNow()
		}
	}
	file.swap(base)
	swapped := time.Now()
	eventually(t, "the last config is in use", func() bool {
		s, err := d.status()
		return err == nil && d.configStatus().LastReloadSuccessful && len(s.Targets) == len(r.kinds) && len(s.Sinks) == 2
	})
	took := time.Since(swapped)
	if took > 5*time.Second {
		t.Errorf("the last config was in use after %v", took)
	}
	end()
	r.finish(claim{}, d.records)
	d.waitForLive(len(r.kinds))

	var after map[string]float64
	eventually(t, "goroutines, files and connections are back where they were", func() bool {
		after = d.metrics()
		// A request of this test may be under way.
		return after["go_goroutines"] <= before["go_goroutines"]+8 && after["process_open_fds"] <= before["process_open_fds"]+4 &&
			d.connections() <= connections
	})
	t.Logf("%d reloads: goroutines %v -> %v, files %v -> %v, connections %d -> %d, memory %.0f -> %.0f MiB, last config in use after %v", reloads,
		before["go_goroutines"], after["go_goroutines"], before["process_open_fds"], after["process_open_fds"], connections, d.connections(),
		before["process_resident_memory_bytes"]/(1<<20), after["process_resident_memory_bytes"]/(1<<20), took.Round(time.Millisecond))
	if got, want := slices.Sorted(maps.Keys(after)), slices.Sorted(maps.Keys(before)); !slices.Equal(got, want) {
		gone := slices.DeleteFunc(want, func(name string) bool { _, still := after[name]; return still })
		more := slices.DeleteFunc(got, func(name string) bool { _, ok := before[name]; return ok })
		t.Errorf("series that were not there before: %q; series that are gone: %q", more, gone)
	}
}

// TestReloadOfTheFile needs no signal: a new sink gets its snapshot, a resource
// comes and goes, and a mistake changes nothing and is told.
func TestReloadOfTheFile(t *testing.T) {
	r := newRig(t)
	d := newInformd(t, r.setup(logJournal))
	file, base := mountConfig(t, d)
	d.start()
	d.waitForSync(len(r.kinds))
	d.waitForLive(len(r.kinds))
	quiet := len(d.records())

	late := filepath.Join(d.dir, "late.ndjson")
	more := strings.Replace(base, "sinks:\n", fmt.Sprintf("sinks:\n  - {name: late, type: file, path: %q}\n", late), 1)
	file.swap(more)
	var lateFile eventFile
	eventually(t, "the new sink has a snapshot", func() bool { return count(lateFile.read(t, late), "synced") == len(r.kinds) })
	if got, want := count(lateFile.read(t, late), "snapshot"), count(d.records(), "snapshot"); got > want || got == 0 {
		t.Errorf("the new sink has %d objects in its snapshot, the first one had %d", got, want)
	}
	if got := len(d.records()); got != quiet {
		t.Errorf("the other sink got %d events for that", got-quiet)
	}

	file.write(strings.Replace(more, "resource: pods", "resource: pods, mod: full", 1))
	eventually(t, "the mistake is told", func() bool { return !d.configStatus().LastReloadSuccessful })
	if got := d.configStatus().LastReloadError; !strings.Contains(got, "config.yaml:4:") || !strings.Contains(got, "mod") {
		t.Errorf("error %q", got)
	}
	eventually(t, "the log tells of the mistake", func() bool { return strings.Contains(d.stderr.String(), "config.yaml:4:") })
	if d.metrics()["informd_config_last_reload_successful"] != 0 {
		t.Error("the metrics do not tell of the mistake")
	}
	d.waitForLive(len(r.kinds))

	file.swap(strings.Replace(more, "- {group: e2e.example.com, resource: planets, mode: full}", "", 1))
	eventually(t, "the mistake is mended", func() bool { return d.configStatus().LastReloadSuccessful })
	eventually(t, "the target is gone", func() bool { s, err := d.status(); return err == nil && len(s.Targets) == len(r.kinds)-1 })
	r.write(10) // planets, too, which nobody watches
	file.swap(base)
	r.finish(claim{}, d.records)
	d.waitForLive(len(r.kinds))

	file.write(strings.Replace(base, "type: log", "type: memory", 1))
	eventually(t, "the change of the journal is refused", func() bool {
		return strings.Contains(d.configStatus().LastReloadError, "journal.type: cannot change while informd runs")
	})
	d.waitForLive(len(r.kinds))
}

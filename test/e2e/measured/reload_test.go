package measured_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/informd/informd/test/e2e"
)

// openConnections is how many TCP connections informd has open.
func openConnections(d *e2e.Informd) (n int) {
	d.T.Helper()
	dir := fmt.Sprintf("/proc/%d/", d.Cmd.Process.Pid)
	names, err := filepath.Glob(dir + "fd/*")
	e2e.Must(d.T, err)
	own := make(map[string]bool) // by the inode of the socket
	for _, name := range names {
		link, _ := os.Readlink(name) // it may be closed by now
		if inode, ok := strings.CutPrefix(link, "socket:["); ok {
			own[strings.TrimSuffix(inode, "]")] = true
		}
	}
	for _, table := range []string{"tcp", "tcp6"} {
		text, err := os.ReadFile(dir + "net/" + table)
		e2e.Must(d.T, err)
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
	r := e2e.NewRig(t)
	d := e2e.NewInformd(t, r.Setup(e2e.LogJournal))
	file, base := e2e.MountConfig(t, d)
	d.Start()
	d.WaitForSync(len(r.Kinds))
	d.WaitForLive(len(r.Kinds))
	before, connections := d.Metrics(), openConnections(d)
	end := r.Load()

	extra := fmt.Sprintf("sinks:\n  - {name: extra, type: file, path: %q}\n", filepath.Join(d.Dir, "extra.ndjson"))
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
	reloads := e2e.Number(t, "E2E_RELOADS", 300)
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
			file.Swap(text)
		} else {
			file.Write(text)
		}
		if random.IntN(10) == 0 {
			e2e.Must(t, os.Remove(filepath.Join(file.Dir, "config.yaml")))
			if got := d.Reload(); got != http.StatusBadRequest {
				t.Errorf("reload %d without a file: %d", i, got)
			}
			file.Link()
		}
		if random.IntN(4) == 0 {
			asked := d.ConfigStatus().LastReload
			e2e.Must(t, d.Cmd.Process.Signal(syscall.SIGHUP))
			e2e.Eventually(t, "SIGHUP has an effect", func() bool { return d.ConfigStatus().LastReload.After(asked) })
		} else if got := d.Reload(); got != want {
			t.Errorf("reload %d: %d, want %d; config:\n%s", i, got, want, text)
		}
		if t.Failed() {
			t.FailNow()
		}
	}
	file.Swap(base)
	swapped := time.Now()
	e2e.Eventually(t, "the last config is in use", func() bool {
		s, err := d.Status()
		return err == nil && d.ConfigStatus().LastReloadSuccessful && len(s.Targets) == len(r.Kinds) && len(s.Sinks) == 2
	})
	took := time.Since(swapped)
	if took > 5*time.Second {
		t.Errorf("the last config was in use after %v", took)
	}
	end()
	r.Finish(e2e.Claim{}, d.Records)
	d.WaitForLive(len(r.Kinds))

	var after map[string]float64
	e2e.Eventually(t, "goroutines, files and connections are back where they were", func() bool {
		after = d.Metrics()
		// A request of this test may be under way.
		return after["go_goroutines"] <= before["go_goroutines"]+8 && after["process_open_fds"] <= before["process_open_fds"]+4 &&
			openConnections(d) <= connections
	})
	t.Logf("%d reloads: goroutines %v -> %v, files %v -> %v, connections %d -> %d, memory %.0f -> %.0f MiB, last config in use after %v", reloads,
		before["go_goroutines"], after["go_goroutines"], before["process_open_fds"], after["process_open_fds"], connections, openConnections(d),
		before["process_resident_memory_bytes"]/(1<<20), after["process_resident_memory_bytes"]/(1<<20), took.Round(time.Millisecond))
	if got, want := slices.Sorted(maps.Keys(after)), slices.Sorted(maps.Keys(before)); !slices.Equal(got, want) {
		gone := slices.DeleteFunc(want, func(name string) bool { _, still := after[name]; return still })
		more := slices.DeleteFunc(got, func(name string) bool { _, ok := before[name]; return ok })
		t.Errorf("series that were not there before: %q; series that are gone: %q", more, gone)
	}
}

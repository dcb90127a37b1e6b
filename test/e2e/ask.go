package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// StateOf is the state of a kind's only target.
func (d *Informd) StateOf(k Kind) string {
	s, err := d.Status()
	if err != nil {
		return err.Error()
	}
	for _, target := range s.Targets {
		if target.Target == k.Target() {
			return target.State
		}
	}
	return ""
}

// DiskUse is the size of the journal's files, of those with two names once.
func (d *Informd) DiskUse() (bytes int64) {
	d.T.Helper()
	seen := make(map[uint64]bool) // inodes
	err := filepath.WalkDir(d.JournalDir(), func(_ string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // a memory journal, or a file that is gone by now
		}
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return nil //nolint:nilerr // it is gone by now
		}
		if stat, ok := info.Sys().(*syscall.Stat_t); !ok || !seen[stat.Ino] {
			bytes += info.Size()
			if ok {
				seen[stat.Ino] = true
			}
		}
		return nil
	})
	Must(d.T, err)
	return bytes
}

// WaitForDelivery waits until the file sink has taken n events. The files are too
// large here to be read again and again.
func (d *Informd) WaitForDelivery(n int) {
	d.T.Helper()
	want := fmt.Sprintf("informd_sink_events_total{result=\"delivered\",sink=\"all\"} %d\n", n)
	Eventually(d.T, fmt.Sprintf("%d events delivered", n), func() bool {
		body, _, err := d.Get("/metrics")
		return err == nil && strings.Contains(string(body), want)
	})
}

// WaitForSync waits until n targets have a synced record in the stream.
func (d *Informd) WaitForSync(n int) {
	d.T.Helper()
	Eventually(d.T, fmt.Sprintf("%d targets synced", n), func() bool { return Count(d.Records(), "synced") >= n })
}

// Status is what /status says.
type Status struct {
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

// Status asks for /status.
func (d *Informd) Status() (Status, error) {
	var s Status
	body, code, err := d.Get("/status")
	if err != nil || code != http.StatusOK {
		return s, errors.Join(err, fmt.Errorf("status %d", code))
	}
	return s, json.Unmarshal(body, &s)
}

// Get returns the body and the status of an answer of the admin listener.
func (d *Informd) Get(path string) ([]byte, int, error) {
	request, err := http.NewRequestWithContext(d.T.Context(), http.MethodGet, "http://"+d.Admin+path, nil)
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

// WaitForLive waits until all n targets watch, and all sinks have taken everything.
func (d *Informd) WaitForLive(n int) {
	d.T.Helper()
	Eventually(d.T, fmt.Sprintf("%d targets live and no sink behind", n), func() bool {
		s, err := d.Status()
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

// ConfigStatus is the config's part of /status.
type ConfigStatus struct {
	LastReload           time.Time
	LastReloadSuccessful bool
	LastReloadError      string
}

// ConfigStatus asks for the config's part of /status.
func (d *Informd) ConfigStatus() ConfigStatus {
	d.T.Helper()
	var s struct{ Config ConfigStatus }
	body, _, err := d.Get("/status")
	if err == nil {
		err = json.Unmarshal(body, &s)
	}
	Must(d.T, err)
	return s.Config
}

// Metrics returns every series of /metrics with its value.
func (d *Informd) Metrics() map[string]float64 {
	d.T.Helper()
	body, _, err := d.Get("/metrics")
	Must(d.T, err)
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

// WaitForFollowing waits until informd has a whole copy of the log of a leader, and the leader counts on it.
func (d *Informd) WaitForFollowing(leader *Informd) {
	d.T.Helper()
	Eventually(d.T, "the follower is in sync, and ready", func() bool {
		s, err := d.Status()
		if err != nil || s.Follower == nil || !s.Follower.InSync || s.Follower.Leader != leader.Admin {
			return false
		}
		// One that stood still shows what was, for a moment.
		_, code, err := d.Get("/readyz")
		return err == nil && code == http.StatusOK
	})
	Eventually(d.T, "the leader counts on it", func() bool {
		return leader.Metrics()["informd_replica_in_sync_followers"] == 1
	})
}

// recordsAtRest is for how long nothing is recorded once there is nothing to
// record: marks are written once a second.
const recordsAtRest = 1500 * time.Millisecond

// WaitForRecords waits until an idle informd has written down how far it has come,
// so that a kill makes it repeat nothing.
func (d *Informd) WaitForRecords() {
	d.T.Helper()
	var size int64
	since := time.Now()
	same := 0 // looks, as a busy machine can delay one for longer than the pause
	Eventually(d.T, "all positions on record", func() bool {
		same++
		if now := d.DiskUse(); now != size {
			size, since, same = now, time.Now(), 0
		}
		return time.Since(since) > recordsAtRest && same >= 10
	})
}

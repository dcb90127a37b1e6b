package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/informd/informd/test/cluster/proc"
)

const (
	watchInterval = 200 * time.Millisecond
	restartPause  = time.Second // as long as Kubernetes waits at least
	// The liveness probe of deploy/kustomize.
	probePeriod, probeTimeout, probeFailures = 10 * time.Second, 5 * time.Second, 6
)

// Daemon is an informd process, or the baseline's, with somebody who starts it
// again when it ends by itself or fails its liveness probe, as Kubernetes would.
type Daemon struct {
	process *proc.Process
	admin   string // host:port; empty: it has none
	log     string
	running sync.WaitGroup
	cancel  context.CancelFunc

	mu      sync.Mutex
	down    int // how many faults keep it down
	excused int // how many faults may make it end
	frozen  bool
	exits   []exit
	starts  int
	maxRSS  uint64
	// unhealthy is when its liveness probe failed, ending: it ends because of that.
	unhealthy []string
	ending    bool
}

// exit is an end that nobody asked for, with the log's end at that time.
type exit struct {
	at   time.Time
	tail string
}

// startDaemon starts the binary and blocks until it answers.
func startDaemon(ctx context.Context, name, binary string, args []string, admin, log string) (*Daemon, error) {
	d := &Daemon{admin: admin, log: log}
	d.process = proc.New(proc.Spec{Name: name, Path: binary, Args: args, Log: log, Ready: d.answers, Grace: time.Minute})
	if err := d.process.Start(ctx); err != nil {
		return nil, err
	}
	watch, cancel := context.WithCancel(context.Background())
	d.cancel = cancel
	d.running.Go(func() { d.watch(watch) })
	if admin != "" {
		d.running.Go(func() { d.probe(watch) })
	}
	return d, nil
}

// answers succeeds if the process answers at all: whether it is well, shows in
// the sinks.
func (d *Daemon) answers(ctx context.Context) error {
	if d.admin == "" {
		return nil
	}
	_, err := d.get(ctx, "/healthz")
	if errors.Is(err, errRed) {
		return nil
	}
	return err
}

// errRed is an answer that is not 200 OK.
var errRed = errors.New("not ok")

// get returns what it answers, and errRed if that is not OK.
func (d *Daemon) get(ctx context.Context, path string) (*json.RawMessage, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+d.admin+path, nil)
	if err != nil {
		return nil, err
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	var body json.RawMessage
	_ = json.NewDecoder(response.Body).Decode(&body) // /healthz may answer in plain text
	if response.StatusCode != http.StatusOK {
		return &body, fmt.Errorf("%s: %w: %s", path, errRed, response.Status)
	}
	return &body, nil
}

// probe ends the process when it fails its liveness probe, with a dump of its goroutines in
// the log; watch starts it again.
func (d *Daemon) probe(ctx context.Context) {
	ticker := time.NewTicker(probePeriod)
	defer ticker.Stop()
	failures := 0
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		asking, cancel := context.WithTimeout(ctx, probeTimeout)
		_, err := d.get(asking, "/healthz")
		cancel()
		if err == nil || !d.wanted() || !d.process.Running() {
			failures = 0
			continue
		}
		if failures++; failures == probeFailures {
			failures = 0
			d.mu.Lock()
			d.unhealthy, d.ending = append(d.unhealthy, fmt.Sprintf("%s %v", time.Now().Format(time.TimeOnly), err)), true
			d.mu.Unlock()
			_ = syscall.Kill(d.process.PID(), syscall.SIGQUIT) // it may have ended
		}
	}
}

// Unhealthy returns when it was restarted because its liveness probe failed.
func (d *Daemon) Unhealthy() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.unhealthy
}

// TargetStatus is what /status says of a target.
type TargetStatus struct {
	Target, State   string
	ResourceVersion uint64 `json:",string"`
}

// Targets returns what /status says of its targets.
func (d *Daemon) Targets(ctx context.Context) ([]TargetStatus, error) {
	var status struct{ Targets []TargetStatus }
	err := d.status(ctx, &status)
	return status.Targets, err
}

// Follows reports whether /status says that it follows another one.
func (d *Daemon) Follows(ctx context.Context) (bool, error) {
	var status struct{ Follower *struct{} }
	err := d.status(ctx, &status)
	return status.Follower != nil, err
}

// Ready succeeds if it is ready.
func (d *Daemon) Ready(ctx context.Context) error {
	_, err := d.get(ctx, "/readyz")
	return err
}

func (d *Daemon) status(ctx context.Context, status any) error {
	body, err := d.get(ctx, "/status")
	if err != nil {
		return err
	}
	return json.Unmarshal(*body, status)
}

// watch starts the process again when it ends by itself, and measures it.
func (d *Daemon) watch(ctx context.Context) {
	ticker := time.NewTicker(watchInterval)
	defer ticker.Stop()
	var ended time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			if d.process.Running() {
				ended = time.Time{}
				d.measure()
				continue
			}
			if d.missing() && ended.IsZero() {
				ended = now
				d.noteExit()
			}
			if d.missing() && now.Sub(ended) >= restartPause {
				d.again(ctx)
				ended = time.Now()
			}
		}
	}
}

func (d *Daemon) wanted() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.down == 0
}

// missing reports whether it does not run, and should.
func (d *Daemon) missing() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.down == 0 && !d.process.Running()
}

func (d *Daemon) noteExit() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.excused == 0 && !d.ending {
		d.exits = append(d.exits, exit{time.Now(), d.process.LogTail()})
	}
}

// again starts the process, if nobody forbids it meanwhile.
func (d *Daemon) again(ctx context.Context) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.startLocked(ctx)
}

func (d *Daemon) startLocked(ctx context.Context) {
	if d.down > 0 || d.process.Running() {
		return
	}
	d.starts++
	d.ending = false
	_ = d.process.Start(ctx) // it is tried again, and an exit is noted by watch
}

func (d *Daemon) measure() {
	rss := residentBytes(d.process.PID())
	d.mu.Lock()
	defer d.mu.Unlock()
	d.maxRSS = max(d.maxRSS, rss)
}

// Kill ends it at once and keeps it down until Start.
func (d *Daemon) Kill() error {
	d.hold()
	return d.process.Kill()
}

// Stop ends it gracefully and keeps it down until Start.
func (d *Daemon) Stop() error {
	d.hold()
	return d.process.Stop()
}

func (d *Daemon) hold() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.down++
}

// Start brings it back, once nobody else keeps it down.
func (d *Daemon) Start(ctx context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.down--
	d.startLocked(ctx)
	return nil
}

// Freeze suspends it.
func (d *Daemon) Freeze() error {
	d.freezing(true)
	return ignoreDown(d.process.Freeze())
}

// Thaw lets it go on.
func (d *Daemon) Thaw() error {
	defer d.freezing(false)
	return ignoreDown(d.process.Thaw())
}

func (d *Daemon) freezing(on bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.frozen = on
}

// active reports whether the process runs, and is not frozen.
func (d *Daemon) active() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return !d.frozen && d.process.Running()
}

// ignoreDown: a process that is just being restarted needs no freezing.
func ignoreDown(err error) error {
	if errors.Is(err, proc.ErrNotRunning) {
		return nil
	}
	return err
}

// Excuse allows it to end by itself until the returned function is called.
func (d *Daemon) Excuse() func() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.excused++
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.excused--
	}
}

// Close kills it.
func (d *Daemon) Close() error {
	d.hold()
	d.cancel()
	d.running.Wait()
	return d.process.Kill()
}

// exited returns the ends that nobody asked for.
func (d *Daemon) exited() []exit {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.exits
}

// MaxRSS returns the most memory that it took, in bytes.
func (d *Daemon) MaxRSS() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.maxRSS
}

// residentBytes reads how much memory a process holds; 0 if it is gone.
func residentBytes(pid int) uint64 {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(stat))
	if len(fields) < 2 {
		return 0
	}
	pages, err := strconv.ParseUint(fields[1], 10, 64)
	if err != nil {
		return 0
	}
	return pages * uint64(os.Getpagesize())
}

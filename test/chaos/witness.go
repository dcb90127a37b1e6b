package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// sampleEvery is how often the witness looks, and fairTime how long a replica has to have been able to take
// the lease before another one may take it that cannot continue the log: informd gives it 30 s.
const (
	sampleEvery = 200 * time.Millisecond
	fairTime    = 25 * time.Second
)

// witness watches the Lease, and which replicas can continue the log. So it can tell whether one that took
// over without all of it, and declared that to the sinks, had to.
type witness struct {
	rig     *Rig
	running sync.WaitGroup
	cancel  context.CancelFunc

	mu     sync.Mutex
	leases []leaseState
	unfit  [][]time.Time // by replica: when it could not continue the log
}

// leaseState is what the Lease said for a time. The replicas are named by their addresses.
type leaseState struct {
	at, until time.Time // when it was seen first and last
	holder    string
	leader    string   // who has written the log
	inSync    []string // the followers that the leader counts on
}

func (s *leaseState) same(other *leaseState) bool {
	return s.holder == other.holder && s.leader == other.leader && slices.Equal(s.inSync, other.inSync)
}

func newWitness(r *Rig) *witness {
	ctx, cancel := context.WithCancel(context.Background())
	w := &witness{rig: r, cancel: cancel, unfit: make([][]time.Time, len(r.informds))}
	w.running.Go(func() {
		ticker := time.NewTicker(sampleEvery)
		defer ticker.Stop()
		for {
			w.sample(ctx)
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
		}
	})
	return w
}

func (w *witness) close() error {
	w.cancel()
	w.running.Wait()
	return nil
}

func (w *witness) sample(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	raw, err := w.rig.oracle.Get(ctx, registry+"leases/default/"+leaseName)
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	if err == nil && len(raw) > 0 {
		state, err := readLease(raw)
		if err != nil {
			w.rig.violate(Violation{Invariant: "I22", Text: err.Error()})
		}
		if n := len(w.leases); n == 0 || !w.leases[n-1].same(&state) {
			state.at = now
			w.leases = append(w.leases, state)
		}
		w.leases[len(w.leases)-1].until = now
	}
	for i, s := range w.rig.sides {
		if !w.rig.informds[i].active() || !s.api.Fine() || !s.whole() {
			w.unfit[i] = append(w.unfit[i], now)
		}
	}
}

func readLease(raw []byte) (leaseState, error) {
	var lease struct {
		Metadata struct{ Annotations map[string]string }
		Spec     struct{ HolderIdentity string }
	}
	if err := json.Unmarshal(raw, &lease); err != nil {
		return leaseState{}, fmt.Errorf("read the lease: %w", err)
	}
	notes := lease.Metadata.Annotations
	s := leaseState{holder: lease.Spec.HolderIdentity, leader: notes["informd.dev/leader"]}
	if list := notes["informd.dev/in-sync"]; list != "" {
		s.inSync = strings.Split(list, ",")
	}
	return s, nil
}

// losses is I22: replicas declare a loss only if none was left that the Lease counts on.
func (w *witness) losses(strikes []Strike) (all []Violation) {
	w.mu.Lock()
	defer w.mu.Unlock()
	fail := func(format string, args ...any) {
		all = append(all, Violation{Invariant: "I22", Text: fmt.Sprintf(format, args...)})
	}
	for i, d := range w.rig.informds {
		content, err := os.ReadFile(d.log)
		if err != nil {
			fail("%v", err)
		}
		var distrusted time.Time
		for line := range bytes.Lines(content) {
			switch at := lineTime(line); {
			case bytes.Contains(line, []byte("no replica has all of the log")):
				distrusted = at
				if better := w.better(at); better != "" {
					fail("informd %d took over without all of the log at %s, and %s could have: %v", i, at.Format(clock), better, w.leases[max(0, len(w.leases)-20):])
				}
			case bytes.Contains(line, []byte("journal lacks events")):
				if at.Sub(distrusted) > time.Minute && !damagedBefore(strikes, at) {
					fail("informd %d declared a loss at %s without having taken over without all of the log", i, at.Format(clock))
				}
			}
		}
	}
	return all
}

// better names a replica that the Lease counted on, and that could have taken it for a while before a time.
func (w *witness) better(at time.Time) string {
	n, _ := slices.BinarySearchFunc(w.leases, at, func(s leaseState, at time.Time) int { return s.at.Compare(at) })
	if n == 0 {
		return ""
	}
	for _, address := range append([]string{w.leases[n-1].leader}, w.leases[n-1].inSync...) {
		i := w.rig.named(address)
		fit := i >= 0 && !slices.ContainsFunc(w.unfit[i], func(t time.Time) bool { return t.Before(at) && at.Sub(t) < fairTime })
		if fit {
			return fmt.Sprintf("informd %d", i)
		}
	}
	return ""
}

// inFlight is how many requests a webhook sink has in flight.
const inFlight = 8

// writers is I12 for the webhook, which knows its callers: what a replica writes while another one leads, it
// has begun to write before. While a link holds requests back, nobody can tell.
func (w *witness) writers(strikes []Strike) (all []Violation) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delayed := func(at time.Time) bool {
		return slices.ContainsFunc(strikes, func(s Strike) bool {
			return slices.Contains(s.touches, "sinks") && at.After(s.Began) && at.Before(s.Healed.Add(10*time.Second))
		})
	}
	w.rig.hook.requestsMu.Lock()
	defer w.rig.hook.requestsMu.Unlock()
	requests := w.rig.hook.requests
	for _, s := range w.leases {
		leader := w.rig.named(s.holder)
		if leader < 0 || s.leader != s.holder {
			continue
		}
		n := 0
		first, _ := slices.BinarySearchFunc(requests, s.at, func(r request, at time.Time) int { return r.at.Compare(at) })
		for _, r := range requests[first:] {
			if r.at.After(s.until) {
				break
			}
			if r.path != hookPath(leader) && !delayed(r.at) {
				n++
			}
		}
		if n > inFlight {
			all = append(all, Violation{Invariant: "I12", Sink: "webhook", Text: fmt.Sprintf("others than informd %d wrote %d requests while it led, from %s to %s", leader, n, s.at.Format(clock), s.until.Format(clock))})
		}
	}
	return all
}

// damagedBefore reports whether files of a log were damaged before a time.
func damagedBefore(strikes []Strike, at time.Time) bool {
	return slices.ContainsFunc(strikes, func(s Strike) bool { return strings.HasPrefix(s.Fault, "N16-") && s.Began.Before(at) })
}

// lineTime reads the time of a line of informd's log.
func lineTime(line []byte) time.Time {
	stamp := regexp.MustCompile(`^{?"?time"?[=:]"?([^ ",]+)`)
	if found := stamp.FindSubmatch(line); found != nil {
		if at, err := time.Parse(time.RFC3339Nano, string(found[1])); err == nil {
			return at
		}
	}
	return time.Time{}
}

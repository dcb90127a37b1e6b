package chaos

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// must ends a test that an error leaves nothing to check in.
func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// watched is a rig of two replicas, of which the first leads from a time on, and the witness of that.
func watched(t *testing.T) (*witness, time.Time) {
	t.Helper()
	r := &Rig{hook: &Hook{}}
	for range 2 {
		peer, err := NewLink("127.0.0.1:1")
		must(t, err)
		t.Cleanup(func() { _ = peer.Close() })
		r.sides = append(r.sides, &side{peer: peer})
		r.informds = append(r.informds, &Daemon{log: filepath.Join(t.TempDir(), "log")})
		must(t, os.WriteFile(r.informds[len(r.informds)-1].log, nil, 0o600))
	}
	at := time.Now().Truncate(time.Second)
	first, second := r.sides[0].peer.Address(), r.sides[1].peer.Address()
	w := &witness{rig: r, unfit: make([][]time.Time, 2)}
	w.leases = []leaseState{{at: at, until: at.Add(time.Minute), holder: first, leader: first, inSync: []string{second}}}
	return w, at
}

// TestWitnessOfLosses: a declared loss is one defect if a replica that the Lease counts on was there.
func TestWitnessOfLosses(t *testing.T) {
	const takeover, loss = `time=%s level=ERROR msg="no replica has all of the log; taking over"`, `time=%s level=ERROR msg="journal lacks events that it had"`
	for name, test := range map[string]struct {
		lines   string
		unfit   []time.Duration // of the second one, before the takeover; the first one is down
		strikes []Strike
		broken  int
	}{
		"there was none":         {takeover + "\n" + loss, []time.Duration{20 * time.Second}, nil, 0},
		"one was there":          {takeover + "\n" + loss, []time.Duration{40 * time.Second}, nil, 1},
		"without a takeover":     {loss, nil, nil, 1},
		"files had been damaged": {loss, nil, []Strike{{Fault: "N16-truncate"}}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w, at := watched(t)
			at = at.Add(time.Minute)
			w.unfit[0] = []time.Time{at.Add(-time.Second)}
			for _, d := range test.unfit {
				w.unfit[1] = append(w.unfit[1], at.Add(-d))
			}
			lines := strings.ReplaceAll(test.lines, "%s", at.Format(time.RFC3339Nano))
			must(t, os.WriteFile(w.rig.informds[1].log, []byte(lines), 0o600))
			if broken := w.losses(test.strikes); len(broken) != test.broken {
				t.Errorf("broken: %v, want %d", broken, test.broken)
			}
		})
	}
}

// TestWitnessOfWriters: a replica that does not lead writes what was in flight, and no more.
func TestWitnessOfWriters(t *testing.T) {
	for name, test := range map[string]struct {
		requests int
		strikes  []Strike
		broken   int
	}{
		"in flight": {inFlight, nil, 0},
		"more":      {inFlight + 1, nil, 1},
	} {
		t.Run(name, func(t *testing.T) {
			w, at := watched(t)
			for range test.requests {
				w.rig.hook.requests = append(w.rig.hook.requests, request{at.Add(time.Second), hookPath(1)}, request{at.Add(2 * time.Second), hookPath(0)})
			}
			for range inFlight { // under the next leader
				w.rig.hook.requests = append(w.rig.hook.requests, request{at.Add(2 * time.Minute), hookPath(1)})
			}
			if broken := w.writers(test.strikes); len(broken) != test.broken {
				t.Errorf("broken: %v, want %d", broken, test.broken)
			}
		})
	}
}

package e2e_test

import (
	"regexp"
	"strings"
	"testing"
)

// TestChangesWhileDown: informd is killed, objects come, change and go, and it is
// started again. What comes out then depends on what is left of the history.
func TestChangesWhileDown(t *testing.T) {
	r := startFaultRig(t, logJournal)
	c := claim{lastStates: true}

	t.Run("history is there", func(t *testing.T) {
		r.whileDown(t, func() {})
		if gaps := count(r.informd.records(), "gap"); gaps != 0 {
			t.Errorf("%d gaps, want none", gaps)
		}
		r.finish(t, c) // as if it had watched
	})

	t.Run("API server restarted", func(t *testing.T) {
		c.outages = append(c.outages, r.whileDown(t, func() { r.restartAPIServer(func() {}) }))
		c.outages[0].whole = true
		r.finish(t, c)
	})

	t.Run("etcd compacted", func(t *testing.T) {
		gaps := make(map[string]int)
		for _, k := range r.kinds {
			gaps[k.target()] = len(r.gaps(k))
		}
		o := r.whileDown(t, func() { r.restartAPIServer(r.compact) })
		eventually(t, "a gap for each kind", func() bool {
			for _, k := range r.kinds {
				if len(r.gaps(k)) == gaps[k.target()] {
					return false
				}
			}
			return true
		})
		c.outages = append(c.outages, o)
		r.finish(t, c)
		for _, k := range r.kinds {
			if n := len(r.gaps(k)) - gaps[k.target()]; n != 1 {
				t.Errorf("%s: %d new gaps, want one", k.target(), n)
			}
		}
		running := r.informd.must("gaps")
		for _, k := range r.kinds {
			if !regexp.MustCompile(`(?m) ` + regexp.QuoteMeta(k.target()) + `\S* +- +expired +\(\d+,\d+\] `).MatchString(running) {
				t.Errorf("no gap of %s in\n%s", k.target(), running)
			}
		}
		r.informd.stop()
		if stopped := r.informd.must("gaps"); !strings.HasSuffix(stopped, running) {
			t.Errorf("gaps without an informd:\n%s\nwith one:\n%s", stopped, running)
		}
	})
}

// whileDown kills informd when it has delivered everything, writes, does what it
// was given, and starts informd.
func (r *faultRig) whileDown(t *testing.T, do func()) outage {
	t.Helper()
	r.write(60)
	o := r.cut()
	r.informd.waitForLive(len(r.kinds))
	r.informd.waitForRecords()
	r.informd.kill()
	r.write(60)
	do()
	r.informd.start()
	r.caughtUp()
	r.waitForCursors()
	r.restore(&o)
	return o
}

// restartAPIServer kills it, and with it its memory of the history, does what it
// was given, and starts it.
func (r *faultRig) restartAPIServer(do func()) {
	r.t.Helper()
	if err := r.cluster.APIServer(0).Kill(); err != nil {
		r.t.Fatal(err)
	}
	do()
	if err := r.cluster.APIServer(0).Start(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
}

// compact takes etcd's own history away.
func (r *faultRig) compact() {
	r.t.Helper()
	if _, err := r.cluster.Compact(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
}

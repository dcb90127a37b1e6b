package watching_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/informd/informd/test/e2e"
)

// TestChangesWhileDown: informd is killed, objects come, change and go, and it is
// started again. What comes out then depends on what is left of the history.
func TestChangesWhileDown(t *testing.T) {
	r := e2e.StartFaultRig(t, e2e.LogJournal)
	c := e2e.Claim{LastStates: true}

	t.Run("history is there", func(t *testing.T) {
		whileDown(r, t, func() {})
		if gaps := e2e.Count(r.Informd.Records(), "gap"); gaps != 0 {
			t.Errorf("%d gaps, want none", gaps)
		}
		r.Finish(t, c) // as if it had watched
	})

	t.Run("API server restarted", func(t *testing.T) {
		c.Outages = append(c.Outages, whileDown(r, t, func() { r.RestartAPIServer(func() {}) }))
		c.Outages[0].Whole = true
		r.Finish(t, c)
	})

	t.Run("etcd compacted", func(t *testing.T) {
		gaps := make(map[string]int)
		for _, k := range r.Kinds {
			gaps[k.Target()] = len(r.Gaps(k))
		}
		o := whileDown(r, t, func() { r.RestartAPIServer(r.Compact) })
		e2e.Eventually(t, "a gap for each kind", func() bool {
			for _, k := range r.Kinds {
				if len(r.Gaps(k)) == gaps[k.Target()] {
					return false
				}
			}
			return true
		})
		c.Outages = append(c.Outages, o)
		r.Finish(t, c)
		for _, k := range r.Kinds {
			if n := len(r.Gaps(k)) - gaps[k.Target()]; n != 1 {
				t.Errorf("%s: %d new gaps, want one", k.Target(), n)
			}
		}
		running := r.Informd.Must("gaps")
		for _, k := range r.Kinds {
			if !regexp.MustCompile(`(?m) ` + regexp.QuoteMeta(k.Target()) + `\S* +- +expired +\(\d+,\d+\] `).MatchString(running) {
				t.Errorf("no gap of %s in\n%s", k.Target(), running)
			}
		}
		r.Informd.Stop()
		if stopped := r.Informd.Must("gaps"); !strings.HasSuffix(stopped, running) {
			t.Errorf("gaps without an informd:\n%s\nwith one:\n%s", stopped, running)
		}
	})
}

// whileDown kills informd when it has delivered everything, writes, does what it
// was given, and starts informd.
func whileDown(r *e2e.FaultRig, t *testing.T, do func()) e2e.Outage {
	t.Helper()
	r.Write(60)
	o := r.Cut()
	r.Informd.WaitForLive(len(r.Kinds))
	r.Informd.WaitForRecords()
	r.Informd.Kill()
	r.Write(60)
	do()
	r.Informd.Start()
	r.CaughtUp()
	r.WaitForCursors()
	r.Restore(&o)
	return o
}

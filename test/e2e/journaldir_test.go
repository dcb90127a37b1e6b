package e2e_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/informd/informd/test/cluster"
)

// refuses runs informd, which is to end with exit code 1 and these words.
func (d *informd) refuses(words ...string) {
	d.t.Helper()
	d.start()
	if code := d.wait(); code != 1 {
		d.t.Errorf("exit code %d, want 1", code)
	}
	for _, w := range words {
		if !strings.Contains(d.stderr.String(), w) {
			d.t.Errorf("the log does not say %q:\n%s", w, d.stderr)
		}
	}
}

// TestJournalDirBelongsToOne: a journal.dir is used by one process at a time, and
// for one cluster only.
func TestJournalDirBelongsToOne(t *testing.T) {
	c := cluster.Start(t, cluster.Options{})
	const resources = "- {resource: configmaps, namespaces: [default]}"
	d := newInformd(t, setup{kubeconfig: c.Kubeconfig(), resources: resources, journal: logJournal})
	d.start()
	d.waitForSync(1)
	journal := fmt.Sprintf("%s, dir: %q", logJournal, d.journalDir())

	t.Run("another process", func(t *testing.T) {
		other := newInformd(t, setup{kubeconfig: c.Kubeconfig(), resources: resources, journal: journal})
		other.refuses(d.journalDir(), fmt.Sprintf("in use by another informd (pid %d)", d.cmd.Process.Pid), "set another journal.dir")
		select {
		case <-d.exited:
			t.Error("the first informd has ended")
		default:
		}
	})

	t.Run("another cluster", func(t *testing.T) {
		elsewhere := cluster.Start(t, cluster.Options{})
		d.stop()
		other := newInformd(t, setup{kubeconfig: elsewhere.Kubeconfig(), resources: resources, journal: journal})
		other.refuses("belongs to another Kubernetes cluster", "kube-system", "journal.dir")
		if n := len(other.records()); n != 0 {
			t.Errorf("%d events of the wrong cluster: %+v", n, other.records())
		}
		d.start() // nothing is lost for the first
		d.waitForLive(1)
		if n := count(d.records(), "synced"); n != 1 {
			t.Errorf("%d synced records, want 1", n)
		}
	})
}

package core_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/informd/informd/test/cluster"
	"github.com/informd/informd/test/e2e"
)

// refuses runs informd, which is to end with exit code 1 and these words.
func refuses(d *e2e.Informd, words ...string) {
	d.T.Helper()
	d.Start()
	if code := d.Wait(); code != 1 {
		d.T.Errorf("exit code %d, want 1", code)
	}
	for _, w := range words {
		if !strings.Contains(d.Stderr.String(), w) {
			d.T.Errorf("the log does not say %q:\n%s", w, d.Stderr)
		}
	}
}

// TestJournalDirBelongsToOne: a journal.dir is used by one process at a time, and
// for one cluster only.
func TestJournalDirBelongsToOne(t *testing.T) {
	c := cluster.Start(t, cluster.Options{})
	const resources = "- {resource: configmaps, namespaces: [default]}"
	d := e2e.NewInformd(t, e2e.Setup{Kubeconfig: c.Kubeconfig(), Resources: resources, Journal: e2e.LogJournal})
	d.Start()
	d.WaitForSync(1)
	journal := fmt.Sprintf("%s, dir: %q", e2e.LogJournal, d.JournalDir())

	t.Run("another process", func(t *testing.T) {
		other := e2e.NewInformd(t, e2e.Setup{Kubeconfig: c.Kubeconfig(), Resources: resources, Journal: journal})
		refuses(other, d.JournalDir(), fmt.Sprintf("in use by another informd (pid %d)", d.Cmd.Process.Pid), "set another journal.dir")
		select {
		case <-d.Exited:
			t.Error("the first informd has ended")
		default:
		}
	})

	t.Run("another cluster", func(t *testing.T) {
		elsewhere := cluster.Start(t, cluster.Options{})
		d.Stop()
		other := e2e.NewInformd(t, e2e.Setup{Kubeconfig: elsewhere.Kubeconfig(), Resources: resources, Journal: journal})
		refuses(other, "belongs to another Kubernetes cluster", "kube-system", "journal.dir")
		if n := len(other.Records()); n != 0 {
			t.Errorf("%d events of the wrong cluster: %+v", n, other.Records())
		}
		d.Start() // nothing is lost for the first
		d.WaitForLive(1)
		if n := e2e.Count(d.Records(), "synced"); n != 1 {
			t.Errorf("%d synced records, want 1", n)
		}
	})
}
